// cusim_ptx_convert.h: PTX's cvt between all types. Rounded once.
#ifndef CUSIM_PTX_CONVERT_H
#define CUSIM_PTX_CONVERT_H

enum x_mode { x_none, x_rn, x_rz, x_rm, x_rp, x_rni, x_rzi, x_rmi, x_rpi, x_rna };
enum { XFtz = 1, XSat = 2, XRelu = 4, XSatFinite = 8 };

// ---- formats of few bits ------------------------------------------------------------------------

// x in a format of kBits bits with kMantissa mantissa bits and least exponent kLeast; overflows
// beyond kMost. The sign is the top bit.
template <int kBits, int kMantissa, int kLeast> struct Format {
  static u32 from(double x, int mode, u32 most, u32 infinity, u32 nan, bool finite) {
    if (x != x) return nan;
    u32 sign = __builtin_signbit(x) ? 1u << (kBits - 1) : 0;
    double size = __builtin_fabs(x);
    if (size - size != 0) return sign | (finite ? most : infinity);
    int exponent = int(bits(size) >> 52) - 1023;
    if (exponent < kLeast) exponent = kLeast;
    double unit = flt(u64(exponent - kMantissa + 1023) << 52), steps = size / unit;
    double whole = __builtin_trunc(steps), rest = steps - whole;
    bool up = false;
    if (mode == x_rn) up = rest > 0.5 || (rest == 0.5 && (u64(whole) & 1));
    if (mode == x_rna) up = rest >= 0.5;
    if (mode == x_rp) up = rest > 0 && !sign;
    if (mode == x_rm) up = rest > 0 && sign;
    u32 code = u32(u64(whole) + up) + (u32(exponent - kLeast) << kMantissa);
    bool over = code > most;
    bool inwards = mode == x_rz || mode == (sign ? x_rp : x_rm);
    if (over) code = finite || inwards ? most : infinity;
    return sign | code;
  }
};

template <class T> struct Convert;
template <> struct Convert<f16> {
  CUSIM_FN f16 from(double x, int mode, bool finite) {
    if (mode == x_rn && !finite) return {cusim::float_to_half(cusim::to_odd(x))};
    return {u16(Format<16, 10, -14>::from(x, mode, 0x7bff, 0x7c00, 0x7fff, finite))};
  }
};
template <> struct Convert<bf16> {
  CUSIM_FN bf16 from(double x, int mode, bool finite) {
    if (mode == x_rn && !finite) return {cusim::float_to_bfloat(cusim::to_odd(x))};
    return {u16(Format<16, 7, -126>::from(x, mode, 0x7f7f, 0x7f80, 0x7fff, finite))};
  }
};
CUSIM_FN u8 to_e4m3(double x) { return u8(Format<8, 3, -6>::from(x, x_rn, 0x7e, 0x7e, 0x7f, true)); }
CUSIM_FN u8 to_e5m2(double x) { return u8(Format<8, 2, -14>::from(x, x_rn, 0x7b, 0x7c, 0x7f, true)); }

// ---- to integers --------------------------------------------------------------------------------

template <int kMode, class F> CUSIM_FN F whole(F x) {
  if constexpr (sizeof(F) == 4)
    return kMode == x_rni ? __builtin_rintf(x) : kMode == x_rmi ? __builtin_floorf(x)
         : kMode == x_rpi ? __builtin_ceilf(x) : __builtin_truncf(x);
  else
    return kMode == x_rni ? __builtin_rint(x) : kMode == x_rmi ? __builtin_floor(x)
         : kMode == x_rpi ? __builtin_ceil(x) : __builtin_trunc(x);
}

template <class T> CUSIM_FN constexpr bool is_float_type() {
  return __is_class(T) || (!__is_class(T) && __is_same(T, float)) || __is_same(T, double);
}

// An integer from an integer: the lower bits, or the nearest that there is.
template <class To, int kFlags, class From> CUSIM_FN To integer(From x) {
  if constexpr (kFlags & XSat) {
    constexpr bool kSigned = is_signed<To>;
    constexpr To kTop = To(1ull << (bits_of<To> - 1)), kLeast = kSigned ? kTop : To(0);
    constexpr To kMost = To(~kLeast);
    __int128 value = x;
    return value < (__int128)kLeast ? kLeast : value > (__int128)kMost ? kMost : To(x);
  }
  return To(x);
}

template <class F> CUSIM_FN F direct(int mode, F (*f)(const void *), const void *x) {
  int how = mode == x_rz ? FE_TOWARDZERO : mode == x_rm ? FE_DOWNWARD : FE_UPWARD;
  return rounded(how, [=] { return f(x); });
}
template <class F, class From> F from_memory(const void *x) {
  return F(*static_cast<const volatile From *>(x));
}

// A float or double from any number.
template <class To, int kMode, class From> CUSIM_FN To real(From x) {
  if constexpr (kMode == x_rz || kMode == x_rm || kMode == x_rp)
    return direct<To>(kMode, from_memory<To, From>, &x);
  return To(x);
}

template <class To, int kMode, int kFlags, class From> CUSIM_FN To x_cvt(From from) {
  auto x = num(from);
  if constexpr (__is_same(From, f32))
    if (kFlags & XFtz) x = ftz(x);
  using Number = decltype(x);
  if constexpr (!is_float_type<To>() && !is_float_type<From>()) {
    return integer<To, kFlags>(x);
  } else if constexpr (!is_float_type<To>()) {
    return cusim_saturate<To>(whole<kMode>(x));
  } else {
    if constexpr (is_float_type<From>() && kMode >= x_rni && kMode <= x_rpi) x = whole<kMode>(x);
    if constexpr (__is_same(To, f32) || __is_same(To, f64)) {
      To r = real<To, is_float_type<From>() && sizeof(To) >= sizeof(Number) ? int(x_rn) : kMode>(x);
      if (kFlags & XFtz) r = ftz(r);
      return kFlags & XSat ? x_sat(r) : r;
    } else if constexpr (__is_same(To, tf32)) {
      if (x != x) return {0x7fffffffu};
      f32 v = kFlags & XRelu && !(x > 0) ? 0.0f : f32(x);
      u32 b = bits(v), low = b & 0x1fff;
      if ((b & 0x7f800000u) == 0x7f800000u) return {kFlags & XSatFinite ? (b & 0x80000000u) | 0x7f7fe000u : b};
      bool up = kMode == x_rz ? false : kMode == x_rna ? low >= 0x1000 : low > 0x1000 || (low == 0x1000 && (b & 0x2000));
      return {(b & ~0x1fffu) + (up ? 0x2000u : 0)};
    } else {
      double wide = double(x);
      if constexpr (!is_float_type<From>() && sizeof(From) == 8) wide = double(cusim::integer_to_odd(x));
      To r = Convert<To>::from(wide, kMode == x_none || kMode > x_rp ? int(x_rn) : kMode,
                               kFlags & XSatFinite);
      if constexpr (kFlags & XRelu) r = x_relu(r);
      if constexpr (kFlags & XSat) r = x_sat(r);
      return r;
    }
  }
}

// Two values, the first into the upper half.
template <class To, int kMode, int kFlags> CUSIM_FN To x_cvt(f32 high, f32 low) {
  if constexpr (kFlags & XRelu) high = x_relu(high), low = x_relu(low);
  if constexpr (__is_same(To, e4m3x2)) return {u16(to_e4m3(high) << 8 | to_e4m3(low))};
  else if constexpr (__is_same(To, e5m2x2)) return {u16(to_e5m2(high) << 8 | to_e5m2(low))};
  else {
    using Half = typename Halves<To>::type;
    return pair<To>(x_cvt<Half, kMode, kFlags>(low), x_cvt<Half, kMode, kFlags>(high));
  }
}
template <class To, int kMode, int kFlags> CUSIM_FN To x_cvt(f16x2 from) { // to fp8
  return x_cvt<To, kMode, kFlags>(num(high(from)), num(low(from)));
}
template <class To, int kMode, int kFlags> CUSIM_FN To x_cvt(bf16x2 from) {
  return x_cvt<To, kMode, kFlags>(num(high(from)), num(low(from)));
}
template <class To, int kMode, int kFlags> CUSIM_FN To x_cvt(e4m3x2 from) {
  To r = pair<To>(to_f16(cusim::E4m3::get(from.v, 0)), to_f16(cusim::E4m3::get(from.v, 1)));
  return kFlags & XRelu ? x_relu(r) : r;
}
template <class To, int kMode, int kFlags> CUSIM_FN To x_cvt(e5m2x2 from) {
  To r = pair<To>(f16{u16(from.v << 8)}, f16{u16(from.v & 0xff00)});
  return kFlags & XRelu ? x_relu(r) : r;
}

// cvt.pack.sat: b in the lower part, a above it, and c above that if there is room.
template <class T> CUSIM_FN u32 pack(s32 a, s32 b, u32 c, int bits) {
  u32 mask = bits == 32 ? ~0u : (1u << bits) - 1;
  u32 r = (u32(integer<T, XSat>(a)) & mask) << bits | (u32(integer<T, XSat>(b)) & mask);
  return bits == 16 ? r : c << 2 * bits | r;
}
CUSIM_FN u32 x_cvt_pack_s16(s32 a, s32 b, u32 c) { return pack<s16>(a, b, c, 16); }
CUSIM_FN u32 x_cvt_pack_u16(s32 a, s32 b, u32 c) { return pack<u16>(a, b, c, 16); }
CUSIM_FN u32 x_cvt_pack_s8(s32 a, s32 b, u32 c) { return pack<s8>(a, b, c, 8); }
CUSIM_FN u32 x_cvt_pack_u8(s32 a, s32 b, u32 c) { return pack<u8>(a, b, c, 8); }
CUSIM_FN u32 pack_few(s32 a, s32 b, u32 c, s32 least, s32 most, int bits) {
  u32 mask = (1u << bits) - 1;
  a = a < least ? least : a > most ? most : a, b = b < least ? least : b > most ? most : b;
  return c << 2 * bits | (u32(a) & mask) << bits | (u32(b) & mask);
}
CUSIM_FN u32 x_cvt_pack_s4(s32 a, s32 b, u32 c) { return pack_few(a, b, c, -8, 7, 4); }
CUSIM_FN u32 x_cvt_pack_u4(s32 a, s32 b, u32 c) { return pack_few(a, b, c, 0, 15, 4); }
CUSIM_FN u32 x_cvt_pack_s2(s32 a, s32 b, u32 c) { return pack_few(a, b, c, -2, 1, 2); }
CUSIM_FN u32 x_cvt_pack_u2(s32 a, s32 b, u32 c) { return pack_few(a, b, c, 0, 3, 2); }

#endif
