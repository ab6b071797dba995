// cusim_ptx_calls.h: the templates that large kernels call most, as members of a class.
//
// NOTE: GCC looks a namespace's template up by putting away every name of the function that calls
// it, thousands of registers for each call: half of the time of 1 MB of PTX. A member's lookup does
// without.
#ifndef CUSIM_PTX_CALLS_H
#define CUSIM_PTX_CALLS_H

#define X_MEMBER __attribute__((always_inline)) static inline
#define X_CALL(name)                                                                               \
  template <class... A> X_MEMBER auto name(A &&...a) { return ::name(a...); }
#define X_CALL_INT(name)                                                                           \
  template <int kNumber, class... A> X_MEMBER auto name(A... a) { return ::name<kNumber>(a...); }
#define X_CALL_TYPE(name)                                                                          \
  template <class T, class... A> X_MEMBER T name(A... a) { return ::name<T>(a...); }

struct x_calls {
  template <class T, int kKind> X_MEMBER T x_ld(const u8 *p) { return ::x_ld<T, kKind>(p); }
  template <int kKind, class T> X_MEMBER void x_st(u8 *p, T value) { ::x_st<kKind>(p, value); }
  template <class To, int kMode, int kFlags, class... A> X_MEMBER To x_cvt(A... a) {
    return ::x_cvt<To, kMode, kFlags>(a...);
  }
  X_CALL_INT(x_lop3)
  X_CALL_TYPE(x_set) X_CALL_TYPE(x_atom_add) X_CALL_TYPE(x_atom_min) X_CALL_TYPE(x_atom_max)
  X_CALL(x_madlo) X_CALL(x_madhi) X_CALL(x_madwide_u) X_CALL(x_addc) X_CALL(x_addccc)
  X_CALL(x_addcc) X_CALL(x_subc) X_CALL(x_subccc) X_CALL(x_subcc) X_CALL(x_div) X_CALL(x_rem)
  X_CALL(x_abs) X_CALL(x_neg) X_CALL(x_min) X_CALL(x_max) X_CALL(x_sad) X_CALL(x_popc)
  X_CALL(x_bfe) X_CALL(x_bfi) X_CALL(x_shl) X_CALL(x_shr) X_CALL(x_fma_ftz) X_CALL(x_div_ftz)
  X_CALL(x_eq) X_CALL(x_ne) X_CALL(x_lt) X_CALL(x_le) X_CALL(x_gt) X_CALL(x_ge) X_CALL(x_lo)
  X_CALL(x_ls) X_CALL(x_hi) X_CALL(x_hs) X_CALL(x_neu) X_CALL(x_ltu) X_CALL(x_leu) X_CALL(x_gtu)
  X_CALL(x_geu)
};

#define x_ld x_calls::x_ld
#define x_st x_calls::x_st
#define x_cvt x_calls::x_cvt
#define x_lop3 x_calls::x_lop3
#define x_set x_calls::x_set
#define x_atom_add x_calls::x_atom_add
#define x_atom_min x_calls::x_atom_min
#define x_atom_max x_calls::x_atom_max
#define x_madlo x_calls::x_madlo
#define x_madhi x_calls::x_madhi
#define x_madwide_u x_calls::x_madwide_u
#define x_addc x_calls::x_addc
#define x_addccc x_calls::x_addccc
#define x_addcc x_calls::x_addcc
#define x_subc x_calls::x_subc
#define x_subccc x_calls::x_subccc
#define x_subcc x_calls::x_subcc
#define x_div x_calls::x_div
#define x_rem x_calls::x_rem
#define x_abs x_calls::x_abs
#define x_neg x_calls::x_neg
#define x_min x_calls::x_min
#define x_max x_calls::x_max
#define x_sad x_calls::x_sad
#define x_popc x_calls::x_popc
#define x_bfe x_calls::x_bfe
#define x_bfi x_calls::x_bfi
#define x_shl x_calls::x_shl
#define x_shr x_calls::x_shr
#define x_fma_ftz x_calls::x_fma_ftz
#define x_div_ftz x_calls::x_div_ftz
#define x_eq x_calls::x_eq
#define x_ne x_calls::x_ne
#define x_lt x_calls::x_lt
#define x_le x_calls::x_le
#define x_gt x_calls::x_gt
#define x_ge x_calls::x_ge
#define x_lo x_calls::x_lo
#define x_ls x_calls::x_ls
#define x_hi x_calls::x_hi
#define x_hs x_calls::x_hs
#define x_neu x_calls::x_neu
#define x_ltu x_calls::x_ltu
#define x_leu x_calls::x_leu
#define x_gtu x_calls::x_gtu
#define x_geu x_calls::x_geu

#endif
