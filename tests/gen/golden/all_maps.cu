// all_maps__ceil: sigmoid+add+add+sub+mul+div+pow+max+min+lt+le+gt+ge+eq+where+copy+neg+relu+abs+exp+log+sqrt+rsqrt+sin+cos+tanh+erf+sigmoid+silu+floor+ceil
// from tests/models/all_maps.lua:5, tests/models/all_maps.lua:11
//   in  g_input_x: f32(3, 96), x
//   in  g_add: f32(96), add
//   out g_add_2: f32(3, 96), add
//   out g_sub: f32(3, 96), sub
//   out g_mul: f32(3, 96), mul
//   out g_div: f32(3, 96), div
//   out g_pow_pow: f32(3, 96), pow
//   out g_max_max: f32(3, 96), max
//   out g_min_min: f32(3, 96), min
//   out g_lt: f32(3, 96), lt
//   out g_le: f32(3, 96), le
//   out g_gt: f32(3, 96), gt
//   out g_ge: f32(3, 96), ge
//   out g_eq: f32(3, 96), eq
//   out g_where: f32(3, 96), where
//   out g_copy: f32(3, 96), copy
//   out g_neg: f32(3, 96), neg
//   out g_relu: f32(3, 96), relu
//   out g_abs_abs: f32(3, 96), abs
//   out g_exp_exp: f32(3, 96), exp
//   out g_log_log: f32(3, 96), log
//   out g_sqrt_sqrt: f32(3, 96), sqrt
//   out g_rsqrt: f32(3, 96), rsqrt
//   out g_sin: f32(3, 96), sin
//   out g_cos: f32(3, 96), cos
//   out g_tanh: f32(3, 96), tanh
//   out g_erf_erf: f32(3, 96), erf
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
  const float *__restrict__ g_input_x,
  const float *__restrict__ g_add,
  float *__restrict__ g_add_2,
  float *__restrict__ g_sub,
  float *__restrict__ g_mul,
  float *__restrict__ g_div,
  float *__restrict__ g_pow_pow,
  float *__restrict__ g_max_max,
  float *__restrict__ g_min_min,
  float *__restrict__ g_lt,
  float *__restrict__ g_le,
  float *__restrict__ g_gt,
  float *__restrict__ g_ge,
  float *__restrict__ g_eq,
  float *__restrict__ g_where,
  float *__restrict__ g_copy,
  float *__restrict__ g_neg,
  float *__restrict__ g_relu,
  float *__restrict__ g_abs_abs,
  float *__restrict__ g_exp_exp,
  float *__restrict__ g_log_log,
  float *__restrict__ g_sqrt_sqrt,
  float *__restrict__ g_rsqrt,
  float *__restrict__ g_sin,
  float *__restrict__ g_cos,
  float *__restrict__ g_tanh,
  float *__restrict__ g_erf_erf,
  float *__restrict__ g_sigmoid,
  float *__restrict__ g_silu,
  float *__restrict__ g_floor,
  float *__restrict__ g_ceil) {
  const int i = (blockIdx.x * kThreads + threadIdx.x) * kLanes;
  if (i >= kCount) return;
  const int n = i % 96;
  const Vec<float, 4> input_x_1 = nn_float(nn_load<4>(g_input_x + i));
  const Vec<float, 4> add_4 = nn_float(nn_load<4>(g_add + n));
  Vec<float, 4> add_2_out;
  Vec<float, 4> sub_out;
  Vec<float, 4> mul_out;
  Vec<float, 4> div_out;
  Vec<float, 4> pow_pow_out;
  Vec<float, 4> max_max_out;
  Vec<float, 4> min_min_out;
  Vec<float, 4> lt_out;
  Vec<float, 4> le_out;
  Vec<float, 4> gt_out;
  Vec<float, 4> ge_out;
  Vec<float, 4> eq_out;
  Vec<float, 4> where_out;
  Vec<float, 4> copy_out;
  Vec<float, 4> neg_out;
  Vec<float, 4> relu_out;
  Vec<float, 4> abs_abs_out;
  Vec<float, 4> exp_exp_out;
  Vec<float, 4> log_log_out;
  Vec<float, 4> sqrt_sqrt_out;
  Vec<float, 4> rsqrt_out;
  Vec<float, 4> sin_out;
  Vec<float, 4> cos_out;
  Vec<float, 4> tanh_out;
  Vec<float, 4> erf_erf_out;
  Vec<float, 4> sigmoid_out;
  Vec<float, 4> silu_out;
  Vec<float, 4> floor_out;
  Vec<float, 4> ceil_out;
#pragma unroll
  for (int j = 0; j < kLanes; ++j) {
    const float sigmoid_2 = 1.f / (1.f + nn_exp(-input_x_1[j]));
    const float add_3 = sigmoid_2 + 0.25f;
    const float add_5 = add_3 + add_4[j];
    add_2_out[j] = add_5;
    const float sub_6 = add_3 - add_4[j];
    sub_out[j] = sub_6;
    const float mul_7 = add_3 * add_4[j];
    mul_out[j] = mul_7;
    const float div_8 = add_3 / add_4[j];
    div_out[j] = div_8;
    const float pow_pow_pow_9 = nn_pow(add_3, add_4[j]);
    pow_pow_out[j] = pow_pow_pow_9;
    const float max_max_max_10 = nn_max(add_3, add_4[j]);
    max_max_out[j] = max_max_max_10;
    const float min_min_min_11 = nn_min(add_3, add_4[j]);
    min_min_out[j] = min_min_min_11;
    const float lt_12 = (add_3 < add_4[j] ? 1.f : 0.f);
    lt_out[j] = lt_12;
    const float le_13 = (add_3 <= add_4[j] ? 1.f : 0.f);
    le_out[j] = le_13;
    const float gt_14 = (add_3 > add_4[j] ? 1.f : 0.f);
    gt_out[j] = gt_14;
    const float ge_15 = (add_3 >= add_4[j] ? 1.f : 0.f);
    ge_out[j] = ge_15;
    const float eq_16 = (add_3 == add_4[j] ? 1.f : 0.f);
    eq_out[j] = eq_16;
    const float where_17 = (gt_14 != 0.f ? add_3 : add_4[j]);
    where_out[j] = where_17;
    copy_out[j] = add_3;
    const float neg_18 = -add_3;
    neg_out[j] = neg_18;
    const float relu_19 = nn_max(add_3, 0.f);
    relu_out[j] = relu_19;
    const float abs_abs_abs_20 = nn_abs(add_3);
    abs_abs_out[j] = abs_abs_abs_20;
    const float exp_exp_exp_21 = nn_exp(add_3);
    exp_exp_out[j] = exp_exp_exp_21;
    const float log_log_log_22 = nn_log(add_3);
    log_log_out[j] = log_log_log_22;
    const float sqrt_sqrt_sqrt_23 = nn_sqrt(add_3);
    sqrt_sqrt_out[j] = sqrt_sqrt_sqrt_23;
    const float rsqrt_24 = nn_rsqrt(add_3);
    rsqrt_out[j] = rsqrt_24;
    const float sin_25 = nn_sin(add_3);
    sin_out[j] = sin_25;
    const float cos_26 = nn_cos(add_3);
    cos_out[j] = cos_26;
    const float tanh_27 = nn_tanh(add_3);
    tanh_out[j] = tanh_27;
    const float erf_erf_erf_28 = nn_erf(add_3);
    erf_erf_out[j] = erf_erf_erf_28;
    const float sigmoid_29 = 1.f / (1.f + nn_exp(-add_3));
    sigmoid_out[j] = sigmoid_29;
    const float silu_30 = add_3 / (1.f + nn_exp(-add_3));
    silu_out[j] = silu_30;
    const float floor_31 = nn_floor(add_3);
    floor_out[j] = floor_31;
    const float ceil_32 = nn_ceil(add_3);
    ceil_out[j] = ceil_32;
  }
  nn_store<4>(g_add_2 + i, nn_cast<float>(add_2_out));
  nn_store<4>(g_sub + i, nn_cast<float>(sub_out));
  nn_store<4>(g_mul + i, nn_cast<float>(mul_out));
  nn_store<4>(g_div + i, nn_cast<float>(div_out));
  nn_store<4>(g_pow_pow + i, nn_cast<float>(pow_pow_out));
  nn_store<4>(g_max_max + i, nn_cast<float>(max_max_out));
  nn_store<4>(g_min_min + i, nn_cast<float>(min_min_out));
  nn_store<4>(g_lt + i, nn_cast<float>(lt_out));
  nn_store<4>(g_le + i, nn_cast<float>(le_out));
  nn_store<4>(g_gt + i, nn_cast<float>(gt_out));
  nn_store<4>(g_ge + i, nn_cast<float>(ge_out));
  nn_store<4>(g_eq + i, nn_cast<float>(eq_out));
  nn_store<4>(g_where + i, nn_cast<float>(where_out));
  nn_store<4>(g_copy + i, nn_cast<float>(copy_out));
  nn_store<4>(g_neg + i, nn_cast<float>(neg_out));
  nn_store<4>(g_relu + i, nn_cast<float>(relu_out));
  nn_store<4>(g_abs_abs + i, nn_cast<float>(abs_abs_out));
  nn_store<4>(g_exp_exp + i, nn_cast<float>(exp_exp_out));
  nn_store<4>(g_log_log + i, nn_cast<float>(log_log_out));
  nn_store<4>(g_sqrt_sqrt + i, nn_cast<float>(sqrt_sqrt_out));
  nn_store<4>(g_rsqrt + i, nn_cast<float>(rsqrt_out));
  nn_store<4>(g_sin + i, nn_cast<float>(sin_out));
  nn_store<4>(g_cos + i, nn_cast<float>(cos_out));
  nn_store<4>(g_tanh + i, nn_cast<float>(tanh_out));
  nn_store<4>(g_erf_erf + i, nn_cast<float>(erf_erf_out));
  nn_store<4>(g_sigmoid + i, nn_cast<float>(sigmoid_out));
  nn_store<4>(g_silu + i, nn_cast<float>(silu_out));
  nn_store<4>(g_floor + i, nn_cast<float>(floor_out));
  nn_store<4>(g_ceil + i, nn_cast<float>(ceil_out));
}
