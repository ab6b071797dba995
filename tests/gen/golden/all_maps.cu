// all_maps__to_and_1_more: sigmoid+add+sigmoid+add+add+sub+mul+div+pow+atan2+max+min+maximum+minimum+floordiv+mod+lt+le+gt+ge+eq+ne+logical_and+logical_or+logical_xor+logical_not+where+copy+neg+relu+abs+exp+log+sqrt+rsqrt+sin+cos+tanh+erf+erfc+log1p+expm1+atan+sigmoid+silu+floor+ceil+trunc+round+sign+to and 1 more
// from tests/models/all_maps.lua:5, 6, 11, 12, 13, 14, 15
//   in  g_x: f32(3, 96), x
//   in  g_y: f32(96), y
//   out g_add: f32(3, 96), add
//   out g_add_2: f32(3, 96), add
//   out g_sub: f32(3, 96), sub
//   out g_mul: f32(3, 96), mul
//   out g_div: f32(3, 96), div
//   out g_pow: f32(3, 96), pow
//   out g_int_pow: i32(3, 96), int_pow
//   out g_atan2: f32(3, 96), atan2
//   out g_max: f32(3, 96), max
//   out g_min: f32(3, 96), min
//   out g_maximum: f32(3, 96), maximum
//   out g_minimum: f32(3, 96), minimum
//   out g_floordiv: f32(3, 96), floordiv
//   out g_mod: f32(3, 96), mod
//   out g_lt: bool(3, 96), lt
//   out g_le: bool(3, 96), le
//   out g_gt: bool(3, 96), gt
//   out g_ge: bool(3, 96), ge
//   out g_eq: bool(3, 96), eq
//   out g_ne: bool(3, 96), ne
//   out g_logical_and: bool(3, 96), logical_and
//   out g_logical_or: bool(3, 96), logical_or
//   out g_logical_xor: bool(3, 96), logical_xor
//   out g_logical_not: bool(3, 96), logical_not
//   out g_bit_and: i32(3, 96), bit_and
//   out g_bit_or: i32(3, 96), bit_or
//   out g_bit_xor: i32(3, 96), bit_xor
//   out g_shift_left: i32(3, 96), shift_left
//   out g_shift_right: i32(3, 96), shift_right
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
//   out g_erfc: f32(3, 96), erfc
//   out g_log1p: f32(3, 96), log1p
//   out g_expm1: f32(3, 96), expm1
//   out g_atan: f32(3, 96), atan
//   out g_sigmoid: f32(3, 96), sigmoid
//   out g_silu: f32(3, 96), silu
//   out g_floor: f32(3, 96), floor
//   out g_ceil: f32(3, 96), ceil
//   out g_trunc: f32(3, 96), trunc
//   out g_round: f32(3, 96), round
//   out g_sign: f32(3, 96), sign
//   out g_to: f32(3, 96), to
//   out g_uniform: f32(3, 96), uniform
//   out g_normal: f32(3, 96), normal
// grid 2x1x1 of 256 threads, 0 bytes of dynamic shared memory
// 118176 FLOP, 1536 bytes read, 55872 bytes written
#include "lib/prim.cuh"
#include "lib/values.cuh"
#include "lib/random.cuh"

constexpr int kThreads = 256;

extern "C" __global__ void __launch_bounds__(kThreads) all_maps__to_and_1_more(
  const float *__restrict__ g_x,
  const float *__restrict__ g_y,
  float *__restrict__ g_add,
  float *__restrict__ g_add_2,
  float *__restrict__ g_sub,
  float *__restrict__ g_mul,
  float *__restrict__ g_div,
  float *__restrict__ g_pow,
  int *__restrict__ g_int_pow,
  float *__restrict__ g_atan2,
  float *__restrict__ g_max,
  float *__restrict__ g_min,
  float *__restrict__ g_maximum,
  float *__restrict__ g_minimum,
  float *__restrict__ g_floordiv,
  float *__restrict__ g_mod,
  bool *__restrict__ g_lt,
  bool *__restrict__ g_le,
  bool *__restrict__ g_gt,
  bool *__restrict__ g_ge,
  bool *__restrict__ g_eq,
  bool *__restrict__ g_ne,
  bool *__restrict__ g_logical_and,
  bool *__restrict__ g_logical_or,
  bool *__restrict__ g_logical_xor,
  bool *__restrict__ g_logical_not,
  int *__restrict__ g_bit_and,
  int *__restrict__ g_bit_or,
  int *__restrict__ g_bit_xor,
  int *__restrict__ g_shift_left,
  int *__restrict__ g_shift_right,
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
  float *__restrict__ g_erfc,
  float *__restrict__ g_log1p,
  float *__restrict__ g_expm1,
  float *__restrict__ g_atan,
  float *__restrict__ g_sigmoid,
  float *__restrict__ g_silu,
  float *__restrict__ g_floor,
  float *__restrict__ g_ceil,
  float *__restrict__ g_trunc,
  float *__restrict__ g_round,
  float *__restrict__ g_sign,
  float *__restrict__ g_to,
  float *__restrict__ g_uniform,
  float *__restrict__ g_normal) {
  if (blockIdx.x < 1) {  // to
    constexpr int kLanes = 4;
    constexpr int kCount = 288;
    const int i = ((blockIdx.x - 0) * kThreads + threadIdx.x) * kLanes;
    if (i >= kCount) return;
    nn_assume(i >= 0);  // makes remainders cheaper
    const int n = i % 96;
    const Vec<float, 4> x_1 = nn_float(nn_load<4>(g_x + i));
    const Vec<float, 4> y_1 = nn_float(nn_load<4>(g_y + n));
    Vec<float, 4> add_out;
    Vec<float, 4> add_2_out;
    Vec<float, 4> sub_out;
    Vec<float, 4> mul_out;
    Vec<float, 4> div_out;
    Vec<float, 4> pow_out;
    Vec<float, 4> atan2_out;
    Vec<float, 4> max_out;
    Vec<float, 4> min_out;
    Vec<float, 4> maximum_out;
    Vec<float, 4> minimum_out;
    Vec<float, 4> floordiv_out;
    Vec<float, 4> mod_out;
    Vec<bool, 4> lt_out;
    Vec<bool, 4> le_out;
    Vec<bool, 4> gt_out;
    Vec<bool, 4> ge_out;
    Vec<bool, 4> eq_out;
    Vec<bool, 4> ne_out;
    Vec<bool, 4> logical_and_out;
    Vec<bool, 4> logical_or_out;
    Vec<bool, 4> logical_xor_out;
    Vec<bool, 4> logical_not_out;
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
    Vec<float, 4> erfc_out;
    Vec<float, 4> log1p_out;
    Vec<float, 4> expm1_out;
    Vec<float, 4> atan_out;
    Vec<float, 4> sigmoid_out;
    Vec<float, 4> silu_out;
    Vec<float, 4> floor_out;
    Vec<float, 4> ceil_out;
    Vec<float, 4> trunc_out;
    Vec<float, 4> round_out;
    Vec<float, 4> sign_out;
    Vec<float, 4> to_out;
#pragma unroll
    for (int j = 0; j < kLanes; ++j) {
      const float sigmoid = 1.f / (1.f + nn_exp(-x_1[j]));
      const float add = sigmoid + 0.25f;
      const float sigmoid_2 = 1.f / (1.f + nn_exp(-y_1[j]));
      const float add_2 = sigmoid_2 + 0.5f;
      const float add_3 = add + add_2;
      const float sub = add - add_2;
      const float mul = add * add_2;
      const float div = add / add_2;
      const float pow_1 = nn_pow(add, add_2);
      const float atan2 = nn_atan2(add, add_2);
      const float max_1 = nn_max(add, add_2);
      const float min_1 = nn_min(add, add_2);
      const float floordiv = nn_floordiv(add, add_2);
      const float mod = nn_mod(add, add_2);
      const bool lt = add < add_2;
      const bool le = add <= add_2;
      const bool gt = add > add_2;
      const bool ge = add >= add_2;
      const bool eq = add == add_2;
      const bool ne = add != add_2;
      const bool logical_and = nn_to<bool>(add) && nn_to<bool>(add_2);
      const bool logical_or = nn_to<bool>(add) || nn_to<bool>(add_2);
      const bool logical_xor = nn_to<bool>(add) != nn_to<bool>(add_2);
      const bool logical_not = !nn_to<bool>(add);
      const float where_1 = (gt ? add : add_2);
      const float neg = -add;
      const float relu = nn_max(add, 0.f);
      const float abs_1 = nn_abs(add);
      const float exp_1 = nn_exp(add);
      const float log_1 = nn_log(add);
      const float sqrt_1 = nn_sqrt(add);
      const float rsqrt_1 = nn_rsqrt(add);
      const float sin_1 = nn_sin(add);
      const float cos_1 = nn_cos(add);
      const float tanh_1 = nn_tanh(add);
      const float erf_1 = nn_erf(add);
      const float erfc = nn_erfc(add);
      const float log1p = nn_log1p(add);
      const float expm1 = nn_expm1(add);
      const float atan = nn_atan(add);
      const float sigmoid_3 = 1.f / (1.f + nn_exp(-add));
      const float silu = add / (1.f + nn_exp(-add));
      const float floor_1 = nn_floor(add);
      const float ceil_1 = nn_ceil(add);
      const float trunc_1 = nn_trunc(add);
      const float round_1 = nn_round(add);
      const float sign = (add > 0) - (add < 0);
      const float to_1 = add;
      add_out[j] = add;
      add_2_out[j] = add_3;
      sub_out[j] = sub;
      mul_out[j] = mul;
      div_out[j] = div;
      pow_out[j] = pow_1;
      atan2_out[j] = atan2;
      max_out[j] = max_1;
      min_out[j] = min_1;
      maximum_out[j] = max_1;
      minimum_out[j] = min_1;
      floordiv_out[j] = floordiv;
      mod_out[j] = mod;
      lt_out[j] = lt;
      le_out[j] = le;
      gt_out[j] = gt;
      ge_out[j] = ge;
      eq_out[j] = eq;
      ne_out[j] = ne;
      logical_and_out[j] = logical_and;
      logical_or_out[j] = logical_or;
      logical_xor_out[j] = logical_xor;
      logical_not_out[j] = logical_not;
      where_out[j] = where_1;
      copy_out[j] = add;
      neg_out[j] = neg;
      relu_out[j] = relu;
      abs_out[j] = abs_1;
      exp_out[j] = exp_1;
      log_out[j] = log_1;
      sqrt_out[j] = sqrt_1;
      rsqrt_out[j] = rsqrt_1;
      sin_out[j] = sin_1;
      cos_out[j] = cos_1;
      tanh_out[j] = tanh_1;
      erf_out[j] = erf_1;
      erfc_out[j] = erfc;
      log1p_out[j] = log1p;
      expm1_out[j] = expm1;
      atan_out[j] = atan;
      sigmoid_out[j] = sigmoid_3;
      silu_out[j] = silu;
      floor_out[j] = floor_1;
      ceil_out[j] = ceil_1;
      trunc_out[j] = trunc_1;
      round_out[j] = round_1;
      sign_out[j] = sign;
      to_out[j] = to_1;
    }
    nn_store<4>(g_add + i, nn_cast<float>(add_out));
    nn_store<4>(g_add_2 + i, nn_cast<float>(add_2_out));
    nn_store<4>(g_sub + i, nn_cast<float>(sub_out));
    nn_store<4>(g_mul + i, nn_cast<float>(mul_out));
    nn_store<4>(g_div + i, nn_cast<float>(div_out));
    nn_store<4>(g_pow + i, nn_cast<float>(pow_out));
    nn_store<4>(g_atan2 + i, nn_cast<float>(atan2_out));
    nn_store<4>(g_max + i, nn_cast<float>(max_out));
    nn_store<4>(g_min + i, nn_cast<float>(min_out));
    nn_store<4>(g_maximum + i, nn_cast<float>(maximum_out));
    nn_store<4>(g_minimum + i, nn_cast<float>(minimum_out));
    nn_store<4>(g_floordiv + i, nn_cast<float>(floordiv_out));
    nn_store<4>(g_mod + i, nn_cast<float>(mod_out));
    nn_store<4>(g_lt + i, nn_stored<bool>(lt_out));
    nn_store<4>(g_le + i, nn_stored<bool>(le_out));
    nn_store<4>(g_gt + i, nn_stored<bool>(gt_out));
    nn_store<4>(g_ge + i, nn_stored<bool>(ge_out));
    nn_store<4>(g_eq + i, nn_stored<bool>(eq_out));
    nn_store<4>(g_ne + i, nn_stored<bool>(ne_out));
    nn_store<4>(g_logical_and + i, nn_stored<bool>(logical_and_out));
    nn_store<4>(g_logical_or + i, nn_stored<bool>(logical_or_out));
    nn_store<4>(g_logical_xor + i, nn_stored<bool>(logical_xor_out));
    nn_store<4>(g_logical_not + i, nn_stored<bool>(logical_not_out));
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
    nn_store<4>(g_erfc + i, nn_cast<float>(erfc_out));
    nn_store<4>(g_log1p + i, nn_cast<float>(log1p_out));
    nn_store<4>(g_expm1 + i, nn_cast<float>(expm1_out));
    nn_store<4>(g_atan + i, nn_cast<float>(atan_out));
    nn_store<4>(g_sigmoid + i, nn_cast<float>(sigmoid_out));
    nn_store<4>(g_silu + i, nn_cast<float>(silu_out));
    nn_store<4>(g_floor + i, nn_cast<float>(floor_out));
    nn_store<4>(g_ceil + i, nn_cast<float>(ceil_out));
    nn_store<4>(g_trunc + i, nn_cast<float>(trunc_out));
    nn_store<4>(g_round + i, nn_cast<float>(round_out));
    nn_store<4>(g_sign + i, nn_cast<float>(sign_out));
    nn_store<4>(g_to + i, nn_cast<float>(to_out));
    return;
  }
  if (blockIdx.x < 2) {  // int_pow
    constexpr int kLanes = 4;
    constexpr int kCount = 288;
    const int i = ((blockIdx.x - 1) * kThreads + threadIdx.x) * kLanes;
    if (i >= kCount) return;
    nn_assume(i >= 0);  // makes remainders cheaper
    const int n = i % 96;
    Vec<int, 4> int_pow_out;
    Vec<int, 4> bit_and_out;
    Vec<int, 4> bit_or_out;
    Vec<int, 4> bit_xor_out;
    Vec<int, 4> shift_left_out;
    Vec<int, 4> shift_right_out;
    Vec<float, 4> uniform_out;
    Vec<float, 4> normal_out;
#pragma unroll
    for (int j = 0; j < kLanes; ++j) {
      const int int_pow = nn_pow(((n + j)), 3);
      const int bit_and = ((n + j)) & 3;
      const int bit_or = ((n + j)) | 3;
      const int bit_xor = ((n + j)) ^ 3;
      const int shift_left = nn_shift_left(((n + j)), 3);
      const int shift_right = nn_shift_right(((n + j)), 3);
      const float uniform = nn_uniform(((n + j)), 1, 2, 3);
      const float normal = nn_normal(((n + j)), 1, 2, 3);
      int_pow_out[j] = int_pow;
      bit_and_out[j] = bit_and;
      bit_or_out[j] = bit_or;
      bit_xor_out[j] = bit_xor;
      shift_left_out[j] = shift_left;
      shift_right_out[j] = shift_right;
      uniform_out[j] = uniform;
      normal_out[j] = normal;
    }
    nn_store<4>(g_int_pow + i, nn_stored<int>(int_pow_out));
    nn_store<4>(g_bit_and + i, nn_stored<int>(bit_and_out));
    nn_store<4>(g_bit_or + i, nn_stored<int>(bit_or_out));
    nn_store<4>(g_bit_xor + i, nn_stored<int>(bit_xor_out));
    nn_store<4>(g_shift_left + i, nn_stored<int>(shift_left_out));
    nn_store<4>(g_shift_right + i, nn_stored<int>(shift_right_out));
    nn_store<4>(g_uniform + i, nn_cast<float>(uniform_out));
    nn_store<4>(g_normal + i, nn_cast<float>(normal_out));
    return;
  }
}
