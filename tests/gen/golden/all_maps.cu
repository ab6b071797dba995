// all_maps__ceil: sigmoid+add+add+sub+mul+div+pow+max+min+lt+le+gt+ge+eq+where+copy+neg+relu+abs+exp+log+sqrt+rsqrt+sin+cos+tanh+erf+sigmoid+silu+floor+ceil
// from tests/models/all_maps.lua:5, tests/models/all_maps.lua:11
//   in  g_x: f32(3, 96), x
//   in  g_add: f32(96), add
//   out g_add_2: f32(3, 96), add
//   out g_sub: f32(3, 96), sub
//   out g_mul: f32(3, 96), mul
//   out g_div: f32(3, 96), div
//   out g_pow: f32(3, 96), pow
//   out g_max: f32(3, 96), max
//   out g_min: f32(3, 96), min
//   out g_lt: f32(3, 96), lt
//   out g_le: f32(3, 96), le
//   out g_gt: f32(3, 96), gt
//   out g_ge: f32(3, 96), ge
//   out g_eq: f32(3, 96), eq
//   out g_where: f32(3, 96), where
//   out g_copy: f32(3, 96), copy
//   out g_neg: f32(3, 96), neg
//   out g_relu: f32(3, 96), relu
//   out g_abs: f32(3, 96), abs
//   out g_exp: f32(3, 96), exp
//   out g_log: f32(3, 96), log
//   out g_sqrt: f32(3, 96), sqrt
//   out g_rsqrt: f32(3, 96), rsqrt
//   out g_sin: f32(3, 96), sin
//   out g_cos: f32(3, 96), cos
//   out g_tanh: f32(3, 96), tanh
//   out g_erf: f32(3, 96), erf
//   out g_sigmoid: f32(3, 96), sigmoid
//   out g_silu: f32(3, 96), silu
//   out g_floor: f32(3, 96), floor
//   out g_ceil: f32(3, 96), ceil
// grid 1x1x1 of 256 threads, 0 bytes of dynamic shared memory
// 27936 FLOP, 1536 bytes read, 33408 bytes written
#include "lib/prim.cuh"

constexpr int kThreads = 256;
constexpr int kLanes = 4;  // neighbouring elements per thread
constexpr int kCount = 288;

extern "C" __global__ void __launch_bounds__(kThreads) all_maps__ceil(
  const float *__restrict__ g_x,
  const float *__restrict__ g_add,
  float *__restrict__ g_add_2,
  float *__restrict__ g_sub,
  float *__restrict__ g_mul,
  float *__restrict__ g_div,
  float *__restrict__ g_pow,
  float *__restrict__ g_max,
  float *__restrict__ g_min,
  float *__restrict__ g_lt,
  float *__restrict__ g_le,
  float *__restrict__ g_gt,
  float *__restrict__ g_ge,
  float *__restrict__ g_eq,
  float *__restrict__ g_where,
  float *__restrict__ g_copy,
  float *__restrict__ g_neg,
  float *__restrict__ g_relu,
  float *__restrict__ g_abs,
  float *__restrict__ g_exp,
  float *__restrict__ g_log,
  float *__restrict__ g_sqrt,
  float *__restrict__ g_rsqrt,
  float *__restrict__ g_sin,
  float *__restrict__ g_cos,
  float *__restrict__ g_tanh,
  float *__restrict__ g_erf,
  float *__restrict__ g_sigmoid,
  float *__restrict__ g_silu,
  float *__restrict__ g_floor,
  float *__restrict__ g_ceil) {
  const int i = (blockIdx.x * kThreads + threadIdx.x) * kLanes;
  if (i >= kCount) return;
  const int n = i % 96;
  const Vec<float, 4> x_1 = nn_float(nn_load<4>(g_x + i));
  const Vec<float, 4> add_2 = nn_float(nn_load<4>(g_add + n));
  Vec<float, 4> add_2_out;
  Vec<float, 4> sub_out;
  Vec<float, 4> mul_out;
  Vec<float, 4> div_out;
  Vec<float, 4> pow_out;
  Vec<float, 4> max_out;
  Vec<float, 4> min_out;
  Vec<float, 4> lt_out;
  Vec<float, 4> le_out;
  Vec<float, 4> gt_out;
  Vec<float, 4> ge_out;
  Vec<float, 4> eq_out;
  Vec<float, 4> where_out;
  Vec<float, 4> copy_out;
  Vec<float, 4> neg_out;
  Vec<float, 4> relu_out;
  Vec<float, 4> abs_out;
  Vec<float, 4> exp_out;
  Vec<float, 4> log_out;
  Vec<float, 4> sqrt_out;
  Vec<float, 4> rsqrt_out;
  Vec<float, 4> sin_out;
  Vec<float, 4> cos_out;
  Vec<float, 4> tanh_out;
  Vec<float, 4> erf_out;
  Vec<float, 4> sigmoid_out;
  Vec<float, 4> silu_out;
  Vec<float, 4> floor_out;
  Vec<float, 4> ceil_out;
#pragma unroll
  for (int j = 0; j < kLanes; ++j) {
    const float sigmoid = 1.f / (1.f + nn_exp(-x_1[j]));
    const float add = sigmoid + 0.25f;
    const float add_3 = add + add_2[j];
    add_2_out[j] = add_3;
    const float sub = add - add_2[j];
    sub_out[j] = sub;
    const float mul = add * add_2[j];
    mul_out[j] = mul;
    const float div = add / add_2[j];
    div_out[j] = div;
    const float pow_1 = nn_pow(add, add_2[j]);
    pow_out[j] = pow_1;
    const float max_1 = nn_max(add, add_2[j]);
    max_out[j] = max_1;
    const float min_1 = nn_min(add, add_2[j]);
    min_out[j] = min_1;
    const float lt = (add < add_2[j] ? 1.f : 0.f);
    lt_out[j] = lt;
    const float le = (add <= add_2[j] ? 1.f : 0.f);
    le_out[j] = le;
    const float gt = (add > add_2[j] ? 1.f : 0.f);
    gt_out[j] = gt;
    const float ge = (add >= add_2[j] ? 1.f : 0.f);
    ge_out[j] = ge;
    const float eq = (add == add_2[j] ? 1.f : 0.f);
    eq_out[j] = eq;
    const float where_1 = (gt != 0.f ? add : add_2[j]);
    where_out[j] = where_1;
    copy_out[j] = add;
    const float neg = -add;
    neg_out[j] = neg;
    const float relu = nn_max(add, 0.f);
    relu_out[j] = relu;
    const float abs_1 = nn_abs(add);
    abs_out[j] = abs_1;
    const float exp_1 = nn_exp(add);
    exp_out[j] = exp_1;
    const float log_1 = nn_log(add);
    log_out[j] = log_1;
    const float sqrt_1 = nn_sqrt(add);
    sqrt_out[j] = sqrt_1;
    const float rsqrt_1 = nn_rsqrt(add);
    rsqrt_out[j] = rsqrt_1;
    const float sin_1 = nn_sin(add);
    sin_out[j] = sin_1;
    const float cos_1 = nn_cos(add);
    cos_out[j] = cos_1;
    const float tanh_1 = nn_tanh(add);
    tanh_out[j] = tanh_1;
    const float erf_1 = nn_erf(add);
    erf_out[j] = erf_1;
    const float sigmoid_2 = 1.f / (1.f + nn_exp(-add));
    sigmoid_out[j] = sigmoid_2;
    const float silu = add / (1.f + nn_exp(-add));
    silu_out[j] = silu;
    const float floor_1 = nn_floor(add);
    floor_out[j] = floor_1;
    const float ceil_1 = nn_ceil(add);
    ceil_out[j] = ceil_1;
  }
  nn_store<4>(g_add_2 + i, nn_cast<float>(add_2_out));
  nn_store<4>(g_sub + i, nn_cast<float>(sub_out));
  nn_store<4>(g_mul + i, nn_cast<float>(mul_out));
  nn_store<4>(g_div + i, nn_cast<float>(div_out));
  nn_store<4>(g_pow + i, nn_cast<float>(pow_out));
  nn_store<4>(g_max + i, nn_cast<float>(max_out));
  nn_store<4>(g_min + i, nn_cast<float>(min_out));
  nn_store<4>(g_lt + i, nn_cast<float>(lt_out));
  nn_store<4>(g_le + i, nn_cast<float>(le_out));
  nn_store<4>(g_gt + i, nn_cast<float>(gt_out));
  nn_store<4>(g_ge + i, nn_cast<float>(ge_out));
  nn_store<4>(g_eq + i, nn_cast<float>(eq_out));
  nn_store<4>(g_where + i, nn_cast<float>(where_out));
  nn_store<4>(g_copy + i, nn_cast<float>(copy_out));
  nn_store<4>(g_neg + i, nn_cast<float>(neg_out));
  nn_store<4>(g_relu + i, nn_cast<float>(relu_out));
  nn_store<4>(g_abs + i, nn_cast<float>(abs_out));
  nn_store<4>(g_exp + i, nn_cast<float>(exp_out));
  nn_store<4>(g_log + i, nn_cast<float>(log_out));
  nn_store<4>(g_sqrt + i, nn_cast<float>(sqrt_out));
  nn_store<4>(g_rsqrt + i, nn_cast<float>(rsqrt_out));
  nn_store<4>(g_sin + i, nn_cast<float>(sin_out));
  nn_store<4>(g_cos + i, nn_cast<float>(cos_out));
  nn_store<4>(g_tanh + i, nn_cast<float>(tanh_out));
  nn_store<4>(g_erf + i, nn_cast<float>(erf_out));
  nn_store<4>(g_sigmoid + i, nn_cast<float>(sigmoid_out));
  nn_store<4>(g_silu + i, nn_cast<float>(silu_out));
  nn_store<4>(g_floor + i, nn_cast<float>(floor_out));
  nn_store<4>(g_ceil + i, nn_cast<float>(ceil_out));
}
