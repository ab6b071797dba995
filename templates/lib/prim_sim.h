// prim_sim.h: the bodies of prim.cuh on libcusim, in its CUDA C++ (cusim.h).
//
// Warp-wide primitives are warp collectives: each lane passes pointers to its operands, and the
// last to arrive does the work of the warp. Matrix primitives are in prim_sim_matrix.h, arithmetic
// in prim_sim_math.h.
#ifndef NNGEN_PRIM_SIM_H
#define NNGEN_PRIM_SIM_H

#define NN_SMEM(type, name)                                                                        \
  static_assert(alignof(type) <= 1024, "dynamic shared memory is 1024-aligned");                   \
  type &name = *reinterpret_cast<type *>(cusim_self->smem)

// ---- conversions ---------------------------------------------------------------------------

NN_DEV unsigned nn_bits(float x) { return __float_as_uint(x); }
NN_DEV float nn_from_bits(unsigned x) { return __uint_as_float(x); }

NN_DEV float nn_float(float x) { return x; }
NN_DEV float nn_float(f16 x) { return cusim::half_to_float(x.bits); }
NN_DEV float nn_float(bf16 x) { return nn_from_bits(unsigned(x.bits) << 16); }
NN_DEV float nn_float(double x) { return float(x); }
NN_DEV float nn_float(int x) { return float(x); }
NN_DEV float nn_float(unsigned char x) { return float(x); }

template <class T> struct Cast;
template <> struct Cast<float> {
  NN_DEV float from(float x) { return x; }
};
template <> struct Cast<double> {
  NN_DEV double from(float x) { return x; }
};
template <> struct Cast<int> {
  NN_DEV int from(float x) {
    if (x != x) return 0;
    return x >= 0x1p31f ? 0x7fffffff : x <= -0x1p31f ? -0x7fffffff - 1 : int(x);
  }
};
template <> struct Cast<unsigned char> {
  NN_DEV unsigned char from(float x) {
    return x >= 255.0f ? 255 : x > 0.0f ? (unsigned char)(int(x)) : 0;
  }
};
template <> struct Cast<f16> {
  NN_DEV f16 from(float x) { return {cusim::float_to_half(x)}; }
};
template <> struct Cast<bf16> {
  NN_DEV bf16 from(float x) { return {cusim::float_to_bfloat(x)}; }
};
template <class T> NN_DEV T nn_cast(float x) { return Cast<T>::from(x); }

// `count` neighbours.
template <class T> struct CusimMany {
  NN_DEV void widen(const T *x, int count, float *y) {
    for (int i = 0; i < count; i++) y[i] = nn_float(x[i]);
  }
  NN_DEV void narrow(const float *x, int count, T *y) {
    for (int i = 0; i < count; i++) y[i] = nn_cast<T>(x[i]);
  }
};
template <> struct CusimMany<f16> {
  NN_DEV void widen(const f16 *x, int count, float *y) { cusim::halves_to_floats(x, count, y); }
  NN_DEV void narrow(const float *x, int count, f16 *y) { cusim::floats_to_halves(x, count, y); }
};
template <> struct CusimMany<bf16> {
  NN_DEV void widen(const bf16 *x, int count, float *y) { cusim::bfloats_to_floats(x, count, y); }
  NN_DEV void narrow(const float *x, int count, bf16 *y) { cusim::floats_to_bfloats(x, count, y); }
};
template <class T, int N> NN_DEV Vec<float, N> nn_float(Vec<T, N> x) {
  Vec<float, N> y;
  CusimMany<T>::widen(x.v, N, y.v);
  return y;
}
template <class T, int N> NN_DEV Vec<T, N> nn_cast(Vec<float, N> x) {
  Vec<T, N> y;
  CusimMany<T>::narrow(x.v, N, y.v);
  return y;
}

template <class T> NN_DEV unsigned nn_pack(float low, float high) {
  return unsigned(nn_cast<T>(low).bits) | unsigned(nn_cast<T>(high).bits) << 16;
}

NN_DEV unsigned nn_tf32(float x) { // adding half a unit to the magnitude rounds ties away
  unsigned bits = nn_bits(x);
  if ((bits & 0x7f800000u) == 0x7f800000u) return bits & 0x007fffffu ? 0x7fffffffu : bits;
  return (bits + 0x1000u) & 0xffffe000u;
}

// ---- memory --------------------------------------------------------------------------------

template <class V> NN_DEV void cusim_check_aligned(const void *p) {
  if (size_t(p) % alignof(V)) cusim_misaligned(p, int(alignof(V)));
}

template <int N, class T> NN_DEV Vec<T, N> nn_load(const T *p) {
  cusim_check_aligned<Vec<T, N>>(p);
  if constexpr (CUSIM_TRACE) {
    Vec<T, N> value;
    cusim_load(&value, p, int(sizeof value));
    return value;
  }
  return *reinterpret_cast<const Vec<T, N> *>(p);
}
template <int N, class T> NN_DEV void nn_store(T *p, Vec<T, N> value) {
  cusim_check_aligned<Vec<T, N>>(p);
  if constexpr (CUSIM_TRACE)
    cusim_store(p, &value, int(sizeof value));
  else
    *reinterpret_cast<Vec<T, N> *>(p) = value;
}
template <int N, class T> NN_DEV Vec<T, N> nn_load_ro(const T *p) { return nn_load<N>(p); }
template <class T> NN_DEV T nn_load_ro(const T *p) { return *p; }

// ---- threads and barriers ------------------------------------------------------------------

NN_DEV int nn_lane() { return int(cusim_self->linear % kWarp); }
NN_DEV void nn_sync() { cusim_barrier(0, 0); }
// Copies of a call that the compiler makes share one number, even if debug information differs.
constexpr int nn_place(const char *file, int line) {
  unsigned mixed = unsigned(line);
  for (; *file; ++file) mixed = mixed * 31 + (unsigned char)*file;
  return int(mixed | 1);
}
#define nn_sync() \
  cusim_barrier_at([] { constexpr int place = nn_place(__FILE__, __LINE__); return place; }())
NN_DEV void nn_assume(bool) {}
NN_DEV int nn_opaque(int x) { return x; }
NN_DEV void nn_syncwarp(unsigned mask) { cusim_meet(mask, 0, 0); }
NN_DEV void nn_bar_sync(int id, int threads) { cusim_barrier(id, threads); }
NN_DEV void nn_bar_arrive(int id, int threads) { cusim_barrier_arrive(id, threads); }
NN_DEV int nn_sync_count(bool predicate) { return cusim_barrier_count(predicate); }
NN_DEV bool nn_sync_any(bool predicate) { return cusim_barrier_count(predicate) != 0; }
NN_DEV bool nn_sync_all(bool predicate) { return cusim_barrier_count(!predicate) == 0; }
NN_DEV void nn_fence_block() { __threadfence_block(); }
NN_DEV void nn_fence_device() { __threadfence(); }
NN_DEV void nn_fence_system() { __threadfence_system(); }
NN_DEV long long nn_clock() { return cusim_clock(); }
NN_DEV void nn_trap() { cusim_trap(); }
NN_DEV int nn_index(int i, int size) {
  char said[64];
  if (unsigned(i) >= unsigned(size)) {
    __builtin_snprintf(said, sizeof said, "id %d is one of 0 to %d", i, size - 1);
    cusim_assert_fail(said, __FILE__, __LINE__, __func__);
  }
  return i;
}

// ---- exchange within a warp ----------------------------------------------------------------

template <class T> NN_DEV T nn_shfl(T v, int lane, unsigned mask) {
  return __shfl_sync(mask, v, lane);
}
template <class T> NN_DEV T nn_shfl_xor(T v, int lane_mask, unsigned mask) {
  return __shfl_xor_sync(mask, v, lane_mask);
}
template <class T> NN_DEV T nn_shfl_down(T v, int delta, unsigned mask) {
  return __shfl_down_sync(mask, v, unsigned(delta));
}
template <class T> NN_DEV T nn_shfl_up(T v, int delta, unsigned mask) {
  return __shfl_up_sync(mask, v, unsigned(delta));
}
NN_DEV unsigned nn_ballot(bool predicate, unsigned mask) { return __ballot_sync(mask, predicate); }
NN_DEV int nn_popc(unsigned bits) { return __popc(bits); }
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

// The butterfly over all lanes at once, in place of five shuffles: op(v[l], v[l ^ step]).
template <class F> auto cusim_butterfly(void *const *operands, unsigned mask) {
  float v[kWarp], w[kWarp];
  F op;
  CUSIM_LANES(l, mask) v[l] = *static_cast<float *>(operands[l]);
  CUSIM_LANES(l, ~mask) v[l] = nn_nan(); // exited lanes: what a shuffle would read
  for (int step = kWarp / 2; step > 0; step /= 2) {
    for (int l = 0; l < kWarp; l++) w[l] = op(v[l], v[l ^ step]);
    for (int l = 0; l < kWarp; l++) v[l] = w[l];
  }
  CUSIM_LANES(l, mask) *static_cast<float *>(operands[l]) = v[l];
}
struct CusimSum {
  float operator()(float a, float b) const { return a + b; }
};
struct CusimMax {
  float operator()(float a, float b) const { return nn_max(a, b); }
};
struct CusimMin {
  float operator()(float a, float b) const { return nn_min(a, b); }
};
template <class F> NN_DEV auto cusim_reduce(float v) {
  cusim_meet(kFullMask, cusim_butterfly<F>, &v);
  return v;
}
NN_DEV float nn_warp_sum(float v) { return cusim_reduce<CusimSum>(v); }
NN_DEV float nn_warp_max(float v) { return cusim_reduce<CusimMax>(v); }
NN_DEV float nn_warp_min(float v) { return cusim_reduce<CusimMin>(v); }
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
NN_DEV float nn_atomic_max(float *p, float v) {
  return cusim::atomic_update(p, [v](float old) { return nn_max(old, v); });
}
NN_DEV int nn_atomic_min(int *p, int v) { return atomicMin(p, v); }
NN_DEV unsigned nn_atomic_cas(unsigned *p, unsigned expected, unsigned desired) {
  return atomicCAS(p, expected, desired);
}
NN_DEV unsigned nn_atomic_exch(unsigned *p, unsigned v) { return atomicExch(p, v); }

// ---- asynchronous copies and mbarriers -------------------------------------------------------

template <int BYTES, bool BY_L1>
NN_DEV void nn_cp_async(void *smem, const void *gmem, bool pred) {
  static_assert(BYTES == 4 || BYTES == 8 || BYTES == 16, "cp.async moves 4, 8 or 16 bytes");
  cusim_cp_async(smem, gmem, BYTES, pred ? BYTES : 0);
}
NN_DEV void nn_cp_async_commit() { cusim_cp_async_commit(); }
template <int N> NN_DEV void nn_cp_async_wait() { cusim_cp_async_wait(N); }

NN_DEV void nn_mbar_init(Mbar *bar, int arrivals) { cusim_mbar_init(&bar->state, arrivals); }
NN_DEV void nn_mbar_init_fence() {}
NN_DEV void nn_mbar_arrive(Mbar *bar) { cusim_mbar_arrive(&bar->state, 0); }
NN_DEV void nn_mbar_arrive_expect_tx(Mbar *bar, int bytes) {
  cusim_mbar_arrive(&bar->state, bytes);
}
NN_DEV bool nn_mbar_try_wait(Mbar *bar, int parity) {
  return cusim_mbar_try_wait(&bar->state, parity) != 0;
}
NN_DEV void nn_mbar_wait(Mbar *bar, int parity) { cusim_mbar_wait(&bar->state, parity); }
NN_DEV void nn_cp_async_mbar_arrive_noinc(Mbar *bar) { cusim_cp_async_mbar_arrive(&bar->state); }

// ---- bulk copies and tensor maps ---------------------------------------------------------------

NN_DEV void nn_fence_proxy_async() { cusim_proxy_fence(); }
NN_DEV void nn_bulk_load(void *smem, const void *gmem, int bytes, Mbar *bar) {
  cusim_bulk_load(smem, gmem, unsigned(bytes), &bar->state);
}
NN_DEV void nn_bulk_store(void *gmem, const void *smem, int bytes) {
  cusim_bulk_store(gmem, smem, unsigned(bytes), 0, 0);
}
NN_DEV void nn_bulk_commit() { cusim_bulk_commit(); }
template <int N> NN_DEV void nn_bulk_wait() { cusim_bulk_wait(N, 0); }
template <int N> NN_DEV void nn_bulk_wait_read() { cusim_bulk_wait(N, 1); }
template <int N>
NN_DEV void nn_tensor_load(void *smem, const TensorMap *map, const int (&at)[N], Mbar *bar) {
  cusim_tensor_load(smem, map, at, N, &bar->state, 0);
}
NN_DEV void nn_tensor_load(void *smem, const TensorMap *map, int x, int y, Mbar *bar) {
  nn_tensor_load(smem, map, {x, y}, bar);
}
NN_DEV void nn_tensor_store(const TensorMap *map, int x, int y, const void *smem) {
  const int at[] = {x, y};
  cusim_tensor_store(map, at, 2, smem, 0);
}

#include "lib/prim_sim_math.h"
#include "lib/prim_sim_matrix.h"
#include "lib/prim_sim_hopper.h"
#endif
