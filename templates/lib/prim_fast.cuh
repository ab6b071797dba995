// prim_fast.cuh: cheap functions for 16-bit results; included by prim.cuh. Relative error at most
// 2^-16, less than rounding to f16 or bf16; if an intermediate value overflows, the result is still
// the right limit.
#ifndef NNGEN_PRIM_FAST_CUH
#define NNGEN_PRIM_FAST_CUH

NN_DEV float nn_reciprocal_fast(float x); // one instruction: 2^-22 of 1 / x; 0 beyond 2^126

// 1 / (1 + exp(-x)).
NN_DEV float nn_sigmoid_fast(float x) {
  return nn_reciprocal_fast(1.f + nn_exp2_fast(x * -1.4426950408889634f));
}

// 1 - 2 / (1 + exp(2 x)); near 0, where that cancels, the first terms of the series.
NN_DEV float nn_tanh_fast(float x) {
  const float part = nn_reciprocal_fast(1.f + nn_exp2_fast(x * 2.8853900817779268f));
  return nn_abs(x) < 0.06f ? x * nn_fma(x * x, -0.33333333f, 1.f) : nn_fma(-2.f, part, 1.f);
}

// Abramowitz and Stegun, "Handbook of Mathematical Functions" (1964), 7.1.26: off by 1.5e-7; near 0
// the first terms of its series.
NN_DEV float nn_erf_fast(float x) {
  const float square = x * x, t = nn_reciprocal_fast(nn_fma(nn_abs(x), 0.3275911f, 1.f));
  float sum = nn_fma(t, 1.061405429f, -1.453152027f);
  sum = nn_fma(t, sum, 1.421413741f);
  sum = nn_fma(t, sum, -0.284496736f);
  sum = nn_fma(t, sum, 0.254829592f) * t;
  const float far = nn_fma(-sum, nn_exp2_fast(square * -1.4426950408889634f), 1.f);
  const float near = x * nn_fma(square, -0.37612639f, 1.1283792f);
  return nn_abs(x) < 0.06f ? near : x < 0.f ? -far : far;
}

#endif
