// prim_sim_math.h: arithmetic of prim.cuh on libcusim; included by prim_sim.h.
#ifndef NNGEN_PRIM_SIM_MATH_H
#define NNGEN_PRIM_SIM_MATH_H

NN_DEV float nn_exp(float x) { return expf(x); }
NN_DEV float nn_exp2(float x) { return exp2f(x); }
NN_DEV float nn_reciprocal_fast(float x) { return 1.f / x; }
NN_DEV float nn_exp2_fast(float x) { return x < -126.f ? 0.f : exp2f(x); }
NN_DEV float nn_log(float x) { return logf(x); }
NN_DEV float nn_sqrt(float x) { return __builtin_sqrtf(x); }
NN_DEV float nn_rsqrt(float x) { return 1.0f / __builtin_sqrtf(x); }
NN_DEV float nn_tanh(float x) { return tanhf(x); }
NN_DEV float nn_erf(float x) { return erff(x); }
NN_DEV float nn_erfc(float x) { return erfcf(x); }
NN_DEV float nn_log1p(float x) { return log1pf(x); }
NN_DEV float nn_expm1(float x) { return expm1f(x); }
NN_DEV float nn_atan(float x) { return atanf(x); }
NN_DEV float nn_atan2(float y, float x) { return atan2f(y, x); }
NN_DEV float nn_sin(float x) { return sinf(x); }
NN_DEV float nn_cos(float x) { return cosf(x); }
NN_DEV float nn_pow(float x, float y) { return powf(x, y); }
NN_DEV float nn_fmod(float a, float b) { return fmodf(a, b); }
NN_DEV float nn_floor(float x) { return __builtin_floorf(x); }
NN_DEV float nn_ceil(float x) { return __builtin_ceilf(x); }
NN_DEV float nn_round(float x) { return __builtin_rintf(x); }
NN_DEV float nn_trunc(float x) { return __builtin_truncf(x); }
NN_DEV float nn_abs(float x) { return __builtin_fabsf(x); }
NN_DEV float nn_fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
NN_DEV bool nn_isnan(float x) { return x != x; }
NN_DEV float nn_inf() { return __builtin_inff(); }
NN_DEV float nn_nan() { return nn_from_bits(0x7fffffffu); }
// max(-0, +0) is +0, as on the GPU.
NN_DEV float nn_max(float a, float b) {
  if (a != a || b != b) return nn_nan();
  return a > b || (a == b && !__builtin_signbit(a)) ? a : b;
}
NN_DEV float nn_min(float a, float b) {
  if (a != a || b != b) return nn_nan();
  return a < b || (a == b && __builtin_signbit(a)) ? a : b;
}

#endif
