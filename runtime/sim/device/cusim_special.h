// cusim_special.h: CUDA's math functions that libm lacks. The float forms are rounded from double.
#ifndef CUSIM_SPECIAL_H
#define CUSIM_SPECIAL_H

namespace cusim {
constexpr double kPi = 3.141592653589793, kTwoOverRootPi = 1.1283791670955126;
constexpr double kRoot2 = 1.4142135623730951;
} // namespace cusim

CUSIM_FN double sinpi(double x) {
  double turn = remainder(x, 2.0), size = fabs(turn);
  return copysign(sin(cusim::kPi * (size > 0.5 ? 1.0 - size : size)), turn);
}
CUSIM_FN double cospi(double x) {
  double turn = fabs(remainder(x, 2.0));
  return turn < 0.25 ? cos(cusim::kPi * turn) : sin(cusim::kPi * (0.5 - turn));
}
CUSIM_FN void sincospi(double x, double *s, double *c) { *s = sinpi(x), *c = cospi(x); }
CUSIM_FN void sincospif(float x, float *s, float *c) {
  *s = float(sinpi(double(x))), *c = float(cospi(double(x)));
}

namespace cusim {
// y with erf(y) = x, |x| at most 1/2: Newton's steps on erf.
CUSIM_FN double erfinv_middle(double x) {
  double y = x / kTwoOverRootPi;
  for (int i = 0; i < 5; i++) y -= (erf(y) - x) / (kTwoOverRootPi * exp(-y * y));
  return y;
}
// y with erfc(y) = q, q below 1/2: Newton's steps on log(erfc), which is concave: they converge
// from any y with erfc(y) > 0.
CUSIM_FN double erfcinv_tail(double q) {
  if (q == 0.0) return __builtin_inf();
  double y = fmin(sqrt(-log(q)), 26.5);
  for (int i = 0; i < 8; i++) {
    double p = erfc(y);
    y += log(p / q) * p / (kTwoOverRootPi * exp(-y * y));
  }
  return y;
}
} // namespace cusim

CUSIM_FN double erfinv(double x) {
  double size = fabs(x);
  return size > 0.5 ? copysign(cusim::erfcinv_tail(1.0 - size), x) : cusim::erfinv_middle(x);
}
CUSIM_FN double erfcinv(double q) {
  if (q < 0.5) return cusim::erfcinv_tail(q);
  return q > 1.5 ? -cusim::erfcinv_tail(2.0 - q) : cusim::erfinv_middle(1.0 - q);
}
// exp(x * x) * erfc(x); from 26 by the asymptotic series, since erfc nears underflow.
CUSIM_FN double erfcx(double x) {
  if (x < -27.0) return __builtin_inf();
  double square = x * x, rest = __builtin_fma(x, x, -square), t = 0.5 / square;
  if (!(x >= 26.0)) return exp(square) * (1.0 + rest) * erfc(x);
  double series = 1.0 - 5.0 * t * (1.0 - 7.0 * t * (1.0 - 9.0 * t * (1.0 - 11.0 * t)));
  return 0.5 * cusim::kTwoOverRootPi / x * (1.0 - t * (1.0 - 3.0 * t * series));
}
// erfc of -x / sqrt(2), which is taken in two parts: far out, the rounding of one part is magnified
// by x * x.
CUSIM_FN double normcdf(double x) {
  constexpr double kScale = 0.70710678118654757, kRest = -4.8336466567264567e-17;
  if (fabs(x) > 39.0) return x < 0 ? 0.0 : 1.0;
  double t = -x * kScale, rest = __builtin_fma(-x, kScale, -t) - x * kRest;
  return 0.5 * (erfc(t) - rest * cusim::kTwoOverRootPi * exp(-t * t));
}
CUSIM_FN double normcdfinv(double p) { return -cusim::kRoot2 * erfcinv(2.0 * p); }

#define CUSIM_FROM_DOUBLE(name)                                                                    \
  CUSIM_FN float name##f(float x) { return float(name(double(x))); }                               \
  CUSIM_FN float name(float x) { return name##f(x); }
CUSIM_FROM_DOUBLE(sinpi) CUSIM_FROM_DOUBLE(cospi) CUSIM_FROM_DOUBLE(erfinv)
CUSIM_FROM_DOUBLE(erfcinv) CUSIM_FROM_DOUBLE(erfcx) CUSIM_FROM_DOUBLE(normcdf)
CUSIM_FROM_DOUBLE(normcdfinv)
#undef CUSIM_FROM_DOUBLE

#endif
