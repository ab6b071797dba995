// prim_cuda.cuh: the bodies of prim.cuh on a GPU, in inline PTX, without other headers. Needs sm_80
// (fp8 mma: sm_89). Matrix primitives are in prim_cuda_matrix.cuh.
#ifndef NNGEN_PRIM_CUDA_CUH
#define NNGEN_PRIM_CUDA_CUH

#define NN_SMEM(type, name)                                                                        \
  extern __shared__ __align__(1024) unsigned char nn_dynamic_smem[];                               \
  type &name = *reinterpret_cast<type *>(nn_dynamic_smem)

// ---- conversions ---------------------------------------------------------------------------

NN_DEV unsigned nn_bits(float x) { return __float_as_uint(x); }
NN_DEV float nn_from_bits(unsigned x) { return __uint_as_float(x); }

NN_DEV float nn_float(float x) { return x; }
NN_DEV float nn_float(bf16 x) { return nn_from_bits(unsigned(x.bits) << 16); }
NN_DEV float nn_float(double x) { return float(x); }
NN_DEV float nn_float(int x) { return float(x); }
NN_DEV float nn_float(unsigned char x) { return float(x); }
NN_DEV float nn_float(f16 x) {
  float r;
  asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(x.bits));
  return r;
}

template <class T> struct Cast { // C++'s own conversion, which saturates on the GPU
  NN_DEV T from(float x) { return T(x); }
};
template <> struct Cast<unsigned char> {
  NN_DEV unsigned char from(float x) {
    int i = int(x);
    return (unsigned char)(i < 0 ? 0 : i > 255 ? 255 : i);
  }
};
template <> struct Cast<f16> {
  NN_DEV f16 from(float x) {
    f16 r;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(r.bits) : "f"(x));
    return r;
  }
};
template <> struct Cast<bf16> {
  NN_DEV bf16 from(float x) {
    bf16 r;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(r.bits) : "f"(x));
    return r;
  }
};
template <class T> NN_DEV T nn_cast(float x) { return Cast<T>::from(x); }

template <class T> struct Pack;
template <> struct Pack<f16> {
  NN_DEV unsigned of(float low, float high) {
    unsigned r;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
    return r;
  }
};
template <> struct Pack<bf16> {
  NN_DEV unsigned of(float low, float high) {
    unsigned r;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
    return r;
  }
};
template <class T> NN_DEV unsigned nn_pack(float low, float high) {
  return Pack<T>::of(low, high);
}

template <class T, int N> NN_DEV Vec<float, N> nn_float(Vec<T, N> x) {
  Vec<float, N> y;
#pragma unroll
  for (int i = 0; i < N; i++) y[i] = nn_float(x[i]);
  return y;
}

template <class T> constexpr bool kHasPairs = false; // one instruction converts two
template <> constexpr bool kHasPairs<f16> = true;
template <> constexpr bool kHasPairs<bf16> = true;

template <class T, int N> NN_DEV Vec<T, N> nn_cast(Vec<float, N> x) {
  if constexpr (kHasPairs<T> && N % 2 == 0) {
    union { unsigned pairs[N / 2]; Vec<T, N> v; } u;
#pragma unroll
    for (int i = 0; i < N / 2; i++) u.pairs[i] = nn_pack<T>(x[2 * i], x[2 * i + 1]);
    return u.v;
  } else {
    Vec<T, N> y;
#pragma unroll
    for (int i = 0; i < N; i++) y[i] = nn_cast<T>(x[i]);
    return y;
  }
}

NN_DEV unsigned nn_tf32(float x) {
  unsigned r;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(r) : "f"(x));
  return r;
}

// ---- memory --------------------------------------------------------------------------------

// The built-in vector type that one access of BYTES bytes moves.
template <int BYTES> struct Word;
template <> struct Word<1> { using type = unsigned char; };
template <> struct Word<2> { using type = unsigned short; };
template <> struct Word<4> { using type = unsigned; };
template <> struct Word<8> { using type = uint2; };
template <> struct Word<16> { using type = uint4; };
template <class V> using WordOf = typename Word<alignof(V)>::type;

template <int N, class T> NN_DEV Vec<T, N> nn_load(const T *p) {
  using W = WordOf<Vec<T, N>>;
  constexpr int kWords = sizeof(Vec<T, N>) / sizeof(W);
  union { W w[kWords]; Vec<T, N> v; } u;
#pragma unroll
  for (int i = 0; i < kWords; i++) u.w[i] = reinterpret_cast<const W *>(p)[i];
  return u.v;
}

template <int N, class T> NN_DEV void nn_store(T *p, Vec<T, N> value) {
  using W = WordOf<Vec<T, N>>;
  constexpr int kWords = sizeof(Vec<T, N>) / sizeof(W);
  union { Vec<T, N> v; W w[kWords]; } u = {value};
#pragma unroll
  for (int i = 0; i < kWords; i++) reinterpret_cast<W *>(p)[i] = u.w[i];
}

template <int N, class T> NN_DEV Vec<T, N> nn_load_ro(const T *p) {
  using W = WordOf<Vec<T, N>>;
  constexpr int kWords = sizeof(Vec<T, N>) / sizeof(W);
  union { W w[kWords]; Vec<T, N> v; } u;
#pragma unroll
  for (int i = 0; i < kWords; i++) u.w[i] = __ldg(reinterpret_cast<const W *>(p) + i);
  return u.v;
}

template <class T> NN_DEV T nn_load_ro(const T *p) { return nn_load_ro<1>(p)[0]; }

// ---- arithmetic ------------------------------------------------------------------------------

NN_DEV float nn_exp(float x) { return expf(x); }
NN_DEV float nn_exp2(float x) { return exp2f(x); }
NN_DEV float nn_exp2_fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
NN_DEV float nn_reciprocal_fast(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
NN_DEV float nn_log(float x) { return logf(x); }
NN_DEV float nn_sqrt(float x) { return __fsqrt_rn(x); }
NN_DEV float nn_rsqrt(float x) { return rsqrtf(x); }
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
NN_DEV float nn_floor(float x) { return floorf(x); }
NN_DEV float nn_ceil(float x) { return ceilf(x); }
NN_DEV float nn_round(float x) { return rintf(x); }
NN_DEV float nn_trunc(float x) { return truncf(x); }
NN_DEV float nn_abs(float x) { return fabsf(x); }
NN_DEV float nn_fma(float a, float b, float c) { return __fmaf_rn(a, b, c); }
NN_DEV bool nn_isnan(float x) { return x != x; }
NN_DEV float nn_inf() { return nn_from_bits(0x7f800000u); }
NN_DEV float nn_nan() { return nn_from_bits(0x7fffffffu); }

NN_DEV float nn_max(float a, float b) {
  float r;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
  return r;
}

NN_DEV float nn_min(float a, float b) {
  float r;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
  return r;
}

// ---- threads and barriers ------------------------------------------------------------------

NN_DEV int nn_lane() { return threadIdx.x % kWarp; }
NN_DEV void nn_sync() { __syncthreads(); }
NN_DEV void nn_assume(bool holds) { __builtin_assume(holds); }
NN_DEV int nn_opaque(int x) {
  asm volatile("" : "+r"(x));
  return x;
}
NN_DEV void nn_syncwarp(unsigned mask) { __syncwarp(mask); }
NN_DEV void nn_bar_sync(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
NN_DEV void nn_bar_arrive(int id, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
NN_DEV int nn_sync_count(bool predicate) { return __syncthreads_count(predicate); }
NN_DEV bool nn_sync_any(bool predicate) { return __syncthreads_or(predicate) != 0; }
NN_DEV bool nn_sync_all(bool predicate) { return __syncthreads_and(predicate) != 0; }
NN_DEV void nn_fence_block() { __threadfence_block(); }
NN_DEV void nn_fence_device() { asm volatile("fence.acq_rel.gpu;" ::: "memory"); }
NN_DEV void nn_fence_system() { __threadfence_system(); }
NN_DEV long long nn_clock() { return clock64(); }
NN_DEV void nn_trap() { asm volatile("trap;"); }
NN_DEV int nn_index(int i, int size) { return i < 0 ? 0 : i < size ? i : size - 1; }

// ---- exchange within a warp ----------------------------------------------------------------

template <class T> NN_DEV T nn_shfl(T v, int lane, unsigned mask) {
  return __shfl_sync(mask, v, lane);
}
template <class T> NN_DEV T nn_shfl_xor(T v, int lane_mask, unsigned mask) {
  return __shfl_xor_sync(mask, v, lane_mask);
}
template <class T> NN_DEV T nn_shfl_down(T v, int delta, unsigned mask) {
  return __shfl_down_sync(mask, v, delta);
}
template <class T> NN_DEV T nn_shfl_up(T v, int delta, unsigned mask) {
  return __shfl_up_sync(mask, v, delta);
}
NN_DEV unsigned nn_ballot(bool predicate, unsigned mask) { return __ballot_sync(mask, predicate); }
NN_DEV bool nn_any(bool predicate, unsigned mask) { return __any_sync(mask, predicate) != 0; }
NN_DEV bool nn_all(bool predicate, unsigned mask) { return __all_sync(mask, predicate) != 0; }
template <class T> NN_DEV unsigned nn_match_any(T v, unsigned mask) {
  return __match_any_sync(mask, v);
}
template <class T> NN_DEV unsigned nn_match_all(T v, bool *all, unsigned mask) {
  int same;
  unsigned lanes = __match_all_sync(mask, v, &same);
  *all = same != 0;
  return lanes;
}

NN_DEV float nn_warp_sum(float v) {
#pragma unroll
  for (int step = kWarp / 2; step > 0; step /= 2) v += nn_shfl_xor(v, step);
  return v;
}

NN_DEV float nn_warp_max(float v) {
#pragma unroll
  for (int step = kWarp / 2; step > 0; step /= 2) v = nn_max(v, nn_shfl_xor(v, step));
  return v;
}

NN_DEV float nn_warp_min(float v) {
#pragma unroll
  for (int step = kWarp / 2; step > 0; step /= 2) v = nn_min(v, nn_shfl_xor(v, step));
  return v;
}

NN_DEV int nn_popc(unsigned bits) { return __popc(bits); }

NN_DEV int nn_warp_sum(int v, unsigned mask) { return __reduce_add_sync(mask, v); }
NN_DEV int nn_warp_max(int v, unsigned mask) { return __reduce_max_sync(mask, v); }
NN_DEV int nn_warp_min(int v, unsigned mask) { return __reduce_min_sync(mask, v); }
NN_DEV unsigned nn_warp_sum(unsigned v, unsigned mask) { return __reduce_add_sync(mask, v); }
NN_DEV unsigned nn_warp_max(unsigned v, unsigned mask) { return __reduce_max_sync(mask, v); }
NN_DEV unsigned nn_warp_min(unsigned v, unsigned mask) { return __reduce_min_sync(mask, v); }
NN_DEV unsigned nn_warp_and(unsigned v, unsigned mask) { return __reduce_and_sync(mask, v); }
NN_DEV unsigned nn_warp_or(unsigned v, unsigned mask) { return __reduce_or_sync(mask, v); }
NN_DEV unsigned nn_warp_xor(unsigned v, unsigned mask) { return __reduce_xor_sync(mask, v); }

// ---- atomics -------------------------------------------------------------------------------

NN_DEV float nn_atomic_add(float *p, float v) { return atomicAdd(p, v); }
NN_DEV double nn_atomic_add(double *p, double v) { return atomicAdd(p, v); }
NN_DEV int nn_atomic_add(int *p, int v) { return atomicAdd(p, v); }
NN_DEV unsigned nn_atomic_add(unsigned *p, unsigned v) { return atomicAdd(p, v); }
NN_DEV unsigned long long nn_atomic_add(unsigned long long *p, unsigned long long v) {
  return atomicAdd(p, v);
}
NN_DEV int nn_atomic_max(int *p, int v) { return atomicMax(p, v); }
NN_DEV unsigned nn_atomic_max(unsigned *p, unsigned v) { return atomicMax(p, v); }
NN_DEV int nn_atomic_min(int *p, int v) { return atomicMin(p, v); }
NN_DEV unsigned nn_atomic_cas(unsigned *p, unsigned expected, unsigned desired) {
  return atomicCAS(p, expected, desired);
}
NN_DEV unsigned nn_atomic_exch(unsigned *p, unsigned v) { return atomicExch(p, v); }

// Non-negative floats order as signed integers, negative ones inversely as unsigned.
NN_DEV float nn_atomic_max(float *p, float v) {
  if (__float_as_int(v) >= 0)
    return __int_as_float(atomicMax(reinterpret_cast<int *>(p), __float_as_int(v)));
  return __uint_as_float(atomicMin(reinterpret_cast<unsigned *>(p), __float_as_uint(v)));
}

// ---- asynchronous copies and mbarriers -------------------------------------------------------

NN_DEV unsigned nn_smem_address(const void *p) { return unsigned(__cvta_generic_to_shared(p)); }

template <int BYTES, bool BY_L1>
NN_DEV void nn_cp_async(void *smem, const void *gmem, bool pred) {
  static_assert(BYTES == 4 || BYTES == 8 || BYTES == 16, "cp.async moves 4, 8 or 16 bytes");
  int source_bytes = pred ? BYTES : 0;
  if constexpr (BYTES == 16 && !BY_L1)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(nn_smem_address(smem)),
                 "l"(gmem), "r"(source_bytes)
                 : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(nn_smem_address(smem)),
                 "l"(gmem), "n"(BYTES), "r"(source_bytes)
                 : "memory");
}
NN_DEV void nn_cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N> NN_DEV void nn_cp_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

NN_DEV void nn_mbar_init(Mbar *bar, int arrivals) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(nn_smem_address(bar)), "r"(arrivals)
               : "memory");
}
NN_DEV void nn_mbar_init_fence() {
  if (__CUDA_ARCH__ >= 900) asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
NN_DEV void nn_mbar_arrive(Mbar *bar) {
  asm volatile("{ .reg .b64 t; mbarrier.arrive.shared.b64 t, [%0]; }" ::"r"(nn_smem_address(bar))
               : "memory");
}
NN_DEV void nn_mbar_arrive_expect_tx(Mbar *bar, int bytes) {
  asm volatile("{ .reg .b64 t; mbarrier.arrive.expect_tx.shared.b64 t, [%0], %1; }" ::"r"(
                   nn_smem_address(bar)),
               "r"(bytes)
               : "memory");
}

// NOTE: try_wait, which sleeps, and expect_tx need sm_90; before it there is only test_wait.
NN_DEV bool nn_mbar_try_wait(Mbar *bar, int parity) {
  unsigned done;
  if (__CUDA_ARCH__ >= 900)
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2;"
                 " selp.u32 %0, 1, 0, p; }"
                 : "=r"(done)
                 : "r"(nn_smem_address(bar)), "r"(parity)
                 : "memory");
  else
    asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], %2;"
                 " selp.u32 %0, 1, 0, p; }"
                 : "=r"(done)
                 : "r"(nn_smem_address(bar)), "r"(parity)
                 : "memory");
  return done != 0;
}
NN_DEV void nn_mbar_wait(Mbar *bar, int parity) {
  while (!nn_mbar_try_wait(bar, parity)) {}
}
NN_DEV void nn_cp_async_mbar_arrive_noinc(Mbar *bar) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(nn_smem_address(bar))
               : "memory");
}

// ---- bulk copies and tensor maps ---------------------------------------------------------------

NN_DEV void nn_fence_proxy_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
NN_DEV void nn_bulk_load(void *smem, const void *gmem, int bytes, Mbar *bar) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
               "[%0], [%1], %2, [%3];" ::"r"(nn_smem_address(smem)),
               "l"(gmem), "r"(bytes), "r"(nn_smem_address(bar))
               : "memory");
}
NN_DEV void nn_bulk_store(void *gmem, const void *smem, int bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(gmem),
               "r"(nn_smem_address(smem)), "r"(bytes)
               : "memory");
}
NN_DEV void nn_bulk_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
template <int N> NN_DEV void nn_bulk_wait() {
  asm volatile("cp.async.bulk.wait_group %0;" ::"n"(N) : "memory");
}
template <int N> NN_DEV void nn_bulk_wait_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(N) : "memory");
}
#define NN_TENSOR_LOAD(dims, places, ...)                                                          \
  asm volatile("cp.async.bulk.tensor." dims ".shared::cluster.global"                              \
               ".mbarrier::complete_tx::bytes [%0], [%1, {" places "}], [%2];" ::"r"(              \
                   nn_smem_address(smem)),                                                         \
               "l"(map), "r"(nn_smem_address(bar)), __VA_ARGS__                                    \
               : "memory")
template <int N>
NN_DEV void nn_tensor_load(void *smem, const TensorMap *map, const int (&at)[N], Mbar *bar) {
  static_assert(N >= 1 && N <= 5, "dimensions of a tensor map");
  if constexpr (N == 1) NN_TENSOR_LOAD("1d", "%3", "r"(at[0]));
  if constexpr (N == 2) NN_TENSOR_LOAD("2d", "%3, %4", "r"(at[0]), "r"(at[1]));
  if constexpr (N == 3) NN_TENSOR_LOAD("3d", "%3, %4, %5", "r"(at[0]), "r"(at[1]), "r"(at[2]));
  if constexpr (N == 4)
    NN_TENSOR_LOAD("4d", "%3, %4, %5, %6", "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3]));
  if constexpr (N == 5)
    NN_TENSOR_LOAD("5d", "%3, %4, %5, %6, %7", "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3]),
                   "r"(at[4]));
}
#undef NN_TENSOR_LOAD
NN_DEV void nn_tensor_load(void *smem, const TensorMap *map, int x, int y, Mbar *bar) {
  nn_tensor_load(smem, map, {x, y}, bar);
}
NN_DEV void nn_tensor_store(const TensorMap *map, int x, int y, const void *smem) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group "
               "[%0, {%1, %2}], [%3];" ::"l"(map),
               "r"(x), "r"(y), "r"(nn_smem_address(smem))
               : "memory");
}

#include "lib/prim_cuda_matrix.cuh"
#include "lib/prim_cuda_hopper.cuh"
#endif
