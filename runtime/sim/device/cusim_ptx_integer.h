// cusim_ptx_integer.h: PTX's integer and bit instructions.
#ifndef CUSIM_PTX_INTEGER_H
#define CUSIM_PTX_INTEGER_H

template <class T> constexpr bool is_signed = T(-1) < T(0);
template <class T> constexpr int bits_of = int(sizeof(T)) * 8;

CUSIM_FN u16 x_mullo(u16 a, u16 b) { return u16(u32(a) * b); }
CUSIM_FN u32 x_mullo(u32 a, u32 b) { return a * b; }
CUSIM_FN u64 x_mullo(u64 a, u64 b) { return a * b; }
CUSIM_FN u16 x_mulhi(u16 a, u16 b) { return u16(u32(a) * b >> 16); }
CUSIM_FN s16 x_mulhi(s16 a, s16 b) { return s16(int(a) * b >> 16); }
CUSIM_FN u32 x_mulhi(u32 a, u32 b) { return u32(u64(a) * b >> 32); }
CUSIM_FN s32 x_mulhi(s32 a, s32 b) { return s32(s64(a) * b >> 32); }
CUSIM_FN u64 x_mulhi(u64 a, u64 b) { return u64((unsigned __int128)a * b >> 64); }
CUSIM_FN s64 x_mulhi(s64 a, s64 b) { return s64((__int128)a * b >> 64); }
template <class T> CUSIM_FN T x_madlo(T a, T b, T c) { return T(x_mullo(a, b) + c); }
template <class T> CUSIM_FN T x_madhi(T a, T b, T c) { return T(u64(x_mulhi(a, b)) + u64(c)); }
CUSIM_FN s32 x_addsat(s32 a, s32 b) {
  s64 sum = s64(a) + b;
  return sum > 0x7fffffff ? 0x7fffffff : sum < -0x80000000ll ? s32(0x80000000u) : s32(sum);
}
CUSIM_FN s32 x_subsat(s32 a, s32 b) {
  s64 sum = s64(a) - b;
  return sum > 0x7fffffff ? 0x7fffffff : sum < -0x80000000ll ? s32(0x80000000u) : s32(sum);
}
CUSIM_FN s32 x_madhisat(s32 a, s32 b, s32 c) { return x_addsat(x_mulhi(a, b), c); }
CUSIM_FN s32 x_madchisat(u32 carry, s32 a, s32 b, s32 c) {
  s64 sum = s64(x_mulhi(a, b)) + c + (carry & 1);
  return sum > 0x7fffffff ? 0x7fffffff : sum < -0x7fffffff - 1 ? -0x7fffffff - 1 : s32(sum);
}
template <class T, class W> CUSIM_FN W x_madwide_u(T a, T b, W c) { return W(W(a) * W(b) + c); }
CUSIM_FN s32 x_madwide_s(s16 a, s16 b, s32 c) { return s32(u32(int(a) * b) + u32(c)); }
CUSIM_FN s64 x_madwide_s(s32 a, s32 b, s64 c) { return s64(u64(s64(a) * b) + u64(c)); }
CUSIM_FN u32 x_add16x2(u32 a, u32 b) {
  return ((a + b) & 0xffffu) | ((a & 0xffff0000u) + (b & 0xffff0000u));
}
CUSIM_FN u32 x_sub16x2(u32 a, u32 b) {
  return ((a - b) & 0xffffu) | ((a & 0xffff0000u) - (b & 0xffff0000u));
}
CUSIM_FN u64 x_times24(u32 a, u32 b) { return u64(a & 0xffffff) * (b & 0xffffff); }
CUSIM_FN s64 x_times24(s32 a, s32 b) {
  return s64(s32(u32(a) << 8) >> 8) * (s32(u32(b) << 8) >> 8);
}
template <class T> CUSIM_FN T x_mul24(T a, T b) { return T(x_times24(a, b)); }
template <class T> CUSIM_FN T x_mul24_hi(T a, T b) { return T(x_times24(a, b) >> 16); }
template <class T> CUSIM_FN T x_mad24(T a, T b, T c) { return T(u32(x_mul24(a, b)) + u32(c)); }
template <class T> CUSIM_FN T x_mad24_hi(T a, T b, T c) {
  return T(u32(x_mul24_hi(a, b)) + u32(c));
}
CUSIM_FN s32 x_mad24_hi_sat(s32 a, s32 b, s32 c) { return x_addsat(x_mul24_hi(a, b), c); }

// The carry of add.cc and similar ones is a register of the thread. NOTE: as on GPUs a subtraction
// is a + ~b + 1 and leaves the carry of that sum: 0 on a borrow. The PTX manual does not say so,
// but code of NVIDIA's compiler (128-bit divisions) reads it with addc.
template <class T> CUSIM_FN T x_addc(u32 carry, T a, T b) { return T(a + b + T(carry & 1)); }
template <class T> CUSIM_FN T x_addccc(u32 &carry, T a, T b) {
  unsigned __int128 sum = (unsigned __int128)a + b + (carry & 1);
  carry = u32(sum >> bits_of<T>);
  return T(sum);
}
template <class T> CUSIM_FN T x_addcc(u32 &carry, T a, T b) {
  carry = 0;
  return x_addccc(carry, a, b);
}
template <class T> CUSIM_FN T x_subc(u32 carry, T a, T b) { return x_addc(carry, a, T(~b)); }
template <class T> CUSIM_FN T x_subccc(u32 &carry, T a, T b) {
  return x_addccc(carry, a, T(~b));
}
template <class T> CUSIM_FN T x_subcc(u32 &carry, T a, T b) {
  carry = 1;
  return x_subccc(carry, a, b);
}

// NOTE: division by zero has no specified result; the host's fault is reported.
template <class T> CUSIM_FN T x_div(T a, T b) {
  if constexpr (is_signed<T>)
    if (b == T(-1)) return T(T(0) - u64(a));
  return T(a / b);
}
template <class T> CUSIM_FN T x_rem(T a, T b) {
  if constexpr (is_signed<T>)
    if (b == T(-1)) return 0;
  return T(a % b);
}
template <class T> CUSIM_FN T x_abs(T a) { return a < 0 ? T(T(0) - u64(a)) : a; }
template <class T> CUSIM_FN T x_neg(T a) { return T(u64(0) - u64(a)); }
template <class T> CUSIM_FN T x_cnot(T a) { return a == 0; }
template <class T> CUSIM_FN T x_min(T a, T b) { return a < b ? a : b; }
template <class T> CUSIM_FN T x_max(T a, T b) { return a < b ? b : a; }
template <class T> CUSIM_FN T x_min_relu(T a, T b) { return x_max(x_min(a, b), T(0)); }
template <class T> CUSIM_FN T x_max_relu(T a, T b) { return x_max(x_max(a, b), T(0)); }
// Of two halves of 16 bits each.
#define PTX_HALVES(name, T)                                                                        \
  CUSIM_FN u32 name##_##T##x2(u32 a, u32 b) {                                                      \
    return u32(u16(name(T(a), T(b)))) | u32(u16(name(T(a >> 16), T(b >> 16)))) << 16;              \
  }
PTX_HALVES(x_min, s16)
PTX_HALVES(x_max, s16)
PTX_HALVES(x_min_relu, s16)
PTX_HALVES(x_max_relu, s16)
PTX_HALVES(x_min, u16)
PTX_HALVES(x_max, u16)
#undef PTX_HALVES
template <class T, class U> CUSIM_FN U x_sad(T a, T b, U c) {
  return U(c + (a < b ? U(b) - U(a) : U(a) - U(b)));
}

template <class T> CUSIM_FN u32 x_popc(T a) { return u32(__builtin_popcountll(a)); }
CUSIM_FN u32 x_clz(u32 a) { return a ? u32(__builtin_clz(a)) : 32; }
CUSIM_FN u32 x_clz(u64 a) { return a ? u32(__builtin_clzll(a)) : 64; }
template <class T> CUSIM_FN u32 x_bfind(T a) { // the highest bit that differs from the sign
  u64 v = is_signed<T> && a < 0 ? u64(~a) : u64(a);
  return v ? 63 - u32(__builtin_clzll(v)) : ~0u;
}
template <class T> CUSIM_FN u32 x_bfind_shiftamt(T a) {
  u32 at = x_bfind(a);
  return at == ~0u ? at : bits_of<T> - 1 - at;
}
CUSIM_FN u32 x_brev(u32 a) { return __brev(a); }
CUSIM_FN u64 x_brev(u64 a) { return __brevll(a); }

// Position and length count up to 255; past the top the sign is repeated.
template <class T> CUSIM_FN T x_bfe(T a, u32 pos, u32 len) {
  constexpr u32 kTop = bits_of<T> - 1;
  pos &= 255, len &= 255;
  if (len == 0) return 0;
  u32 last = pos + len - 1 < kTop ? pos + len - 1 : kTop;
  u64 sign = is_signed<T> && (u64(a) >> last & 1) ? ~0ull : 0;
  u64 field = pos > kTop ? sign : u64(a) >> pos;
  if (pos <= kTop && sizeof(T) < 8) field &= ((1ull << bits_of<T>) - 1) >> pos;
  u32 kept = pos > kTop ? 0 : (pos + len - 1 <= kTop ? len : kTop + 1 - pos);
  u64 mask = kept >= 64 ? ~0ull : (1ull << kept) - 1;
  return T((field & mask) | (sign & ~mask));
}
template <class T> CUSIM_FN T x_bfi(T a, T b, u32 pos, u32 len) {
  pos &= 255, len &= 255;
  if (pos >= bits_of<T> || len == 0) return b;
  u64 ones = len >= bits_of<T> ? ~0ull : (1ull << len) - 1;
  u64 mask = ones << pos;
  return T((u64(a) << pos & mask) | (u64(b) & ~mask));
}
CUSIM_FN u32 x_bmsk_clamp(u32 a, u32 b) {
  if (a >= 32) return 0;
  u64 ones = b >= 32 ? 0xffffffffull : (1ull << b) - 1;
  return u32(ones << a);
}
CUSIM_FN u32 x_bmsk_wrap(u32 a, u32 b) { return x_bmsk_clamp(a & 31, b & 31); }
template <class T> CUSIM_FN T x_szext_clamp(T a, u32 n) {
  if (n >= 32) return a;
  u32 mask = n ? (1u << n) - 1 : 0, low = u32(a) & mask;
  bool minus = is_signed<T> && n && (low >> (n - 1) & 1);
  return T(minus ? low | ~mask : low);
}
template <class T> CUSIM_FN T x_szext_wrap(T a, u32 n) { return x_szext_clamp(a, n & 31); }
// The n-th set bit from `base` on, upwards or (n negative) downwards.
CUSIM_FN u32 x_fns(u32 mask, u32 base, s32 n) {
  if (base > 31) return ~0u;
  if (n == 0) return mask >> base & 1 ? base : ~0u;
  for (s32 at = s32(base), left = n < 0 ? -n : n; at >= 0 && at < 32; at += n < 0 ? -1 : 1)
    if (mask >> at & 1 && --left == 0) return u32(at);
  return ~0u;
}

template <class T> CUSIM_FN T x_shl(T a, u32 n) { return n >= bits_of<T> ? T(0) : T(a << n); }
template <class T> CUSIM_FN T x_shr(T a, u32 n) {
  if (n >= bits_of<T>) return is_signed<T> && a < 0 ? T(-1) : T(0);
  return T(a >> n);
}
CUSIM_FN u32 x_shf_l_wrap(u32 a, u32 b, u32 n) { return u32((u64(b) << 32 | a) << (n & 31) >> 32); }
CUSIM_FN u32 x_shf_r_wrap(u32 a, u32 b, u32 n) { return u32((u64(b) << 32 | a) >> (n & 31)); }
CUSIM_FN u32 x_shf_l_clamp(u32 a, u32 b, u32 n) {
  return n >= 32 ? a : u32((u64(b) << 32 | a) << n >> 32);
}
CUSIM_FN u32 x_shf_r_clamp(u32 a, u32 b, u32 n) {
  return n >= 32 ? b : u32((u64(b) << 32 | a) >> n);
}
template <int kTable> CUSIM_FN u32 x_lop3(u32 a, u32 b, u32 c) {
  u32 r = 0;
  if (kTable & 1) r |= ~a & ~b & ~c;
  if (kTable & 2) r |= ~a & ~b & c;
  if (kTable & 4) r |= ~a & b & ~c;
  if (kTable & 8) r |= ~a & b & c;
  if (kTable & 16) r |= a & ~b & ~c;
  if (kTable & 32) r |= a & ~b & c;
  if (kTable & 64) r |= a & b & ~c;
  if (kTable & 128) r |= a & b & c;
  return r;
}

// Byte i of the result is the byte of (b, a) that nibble i selects; the nibble's top bit replicates
// that byte's sign instead.
CUSIM_FN u32 x_prmt(u32 a, u32 b, u32 s) {
  u64 all = u64(b) << 32 | a;
  u32 r = 0;
  for (int i = 0; i < 4; i++) {
    u32 pick = s >> 4 * i & 15, byte = u32(all >> 8 * (pick & 7)) & 255;
    if (pick & 8) byte = byte & 128 ? 255 : 0;
    r |= byte << 8 * i;
  }
  return r;
}
CUSIM_FN u32 x_pick(u32 a, u32 b, u32 p0, u32 p1, u32 p2, u32 p3) {
  return x_prmt(a, b, (p0 & 7) | (p1 & 7) << 4 | (p2 & 7) << 8 | (p3 & 7) << 12);
}
CUSIM_FN u32 x_prmt_f4e(u32 a, u32 b, u32 s) { s &= 3; return x_pick(a, b, s, s + 1, s + 2, s + 3); }
CUSIM_FN u32 x_prmt_b4e(u32 a, u32 b, u32 s) { s &= 3; return x_pick(a, b, s, s - 1, s - 2, s - 3); }
CUSIM_FN u32 x_prmt_rc8(u32 a, u32 b, u32 s) { s &= 3; return x_pick(a, b, s, s, s, s); }
CUSIM_FN u32 x_prmt_ecl(u32 a, u32 b, u32 s) {
  s &= 3;
  return x_pick(a, b, s, s > 1 ? s : 1, s > 2 ? s : 2, 3);
}
CUSIM_FN u32 x_prmt_ecr(u32 a, u32 b, u32 s) {
  s &= 3;
  return x_pick(a, b, 0, s < 1 ? s : 1, s < 2 ? s : 2, s);
}
CUSIM_FN u32 x_prmt_rc16(u32 a, u32 b, u32 s) {
  return s & 1 ? x_pick(a, b, 2, 3, 2, 3) : x_pick(a, b, 0, 1, 0, 1);
}

template <bool kSigned> CUSIM_FN s32 byte_of(u32 a, int i) {
  return kSigned ? s32(s8(a >> 8 * i)) : s32(u8(a >> 8 * i));
}
template <bool kSigned> CUSIM_FN s32 short_of(u32 a, int i) {
  return kSigned ? s32(s16(a >> 16 * i)) : s32(u16(a >> 16 * i));
}
template <bool kA, bool kB> CUSIM_FN u32 x_dp4a(u32 a, u32 b, u32 c) {
  for (int i = 0; i < 4; i++) c += u32(byte_of<kA>(a, i) * byte_of<kB>(b, i));
  return c;
}
template <bool kA, bool kB> CUSIM_FN u32 x_dp2a_lo(u32 a, u32 b, u32 c) {
  for (int i = 0; i < 2; i++) c += u32(short_of<kA>(a, i) * byte_of<kB>(b, i));
  return c;
}
template <bool kA, bool kB> CUSIM_FN u32 x_dp2a_hi(u32 a, u32 b, u32 c) {
  for (int i = 0; i < 2; i++) c += u32(short_of<kA>(a, i) * byte_of<kB>(b, i + 2));
  return c;
}

#endif
