// prim.cuh: every device primitive that kernels are written with, declared and described.
//
// "Fragment" layouts are those of the PTX ISA, mma.sync.
// Warp-wide primitives take part with the lanes of `mask` (default: all 32); every lane of the
// mask calls the same primitive, in the same order.
#ifndef NNGEN_PRIM_CUH
#define NNGEN_PRIM_CUH

#define NN_DEV static __device__ __forceinline__

constexpr int kWarp = 32;
constexpr unsigned kFullMask = 0xffffffffu;

// ---- storage types -------------------------------------------------------------------------

struct alignas(2) f16 { unsigned short bits; };  // IEEE binary16
struct alignas(2) bf16 { unsigned short bits; }; // the upper half of an IEEE binary32
struct e4m3 { unsigned char bits; };             // fp8, 3 mantissa bits, largest 448, no infinity
struct e5m2 { unsigned char bits; };             // fp8, 2 mantissa bits, largest 57344

// The largest power of two that divides `bytes`, 16 at most: the alignment of a vector access.
NN_DEV constexpr int nn_alignment(int bytes) {
  return (bytes & -bytes) < 16 ? (bytes & -bytes) : 16;
}

// N elements that are loaded and stored together.
template <class T, int N> struct alignas(nn_alignment(int(sizeof(T)) * N)) Vec {
  T v[N];
  __device__ __forceinline__ T &operator[](int i) { return v[i]; }
  __device__ __forceinline__ const T &operator[](int i) const { return v[i]; }
};

// How many of `turns` iterations of a loop to unroll so that their loads are in flight together:
// a divisor of `turns`, at most `most`.
NN_DEV constexpr int nn_at_once(int turns, int most = 7) {
  return turns % 4 == 0 && most >= 4   ? 4
         : turns % 3 == 0 && most >= 3 ? 3
         : turns % 2 == 0 && most >= 2 ? 2
         : turns == 7 && most >= 7     ? 7
                                       : 1;
}

NN_DEV constexpr int nn_gcd(int a, int b) { return b ? nn_gcd(b, a % b) : a; }

// ---- conversions ---------------------------------------------------------------------------

NN_DEV float nn_float(float x); // identity, so that templates need not distinguish types
NN_DEV float nn_float(f16 x);   // exact
NN_DEV float nn_float(bf16 x);  // exact
NN_DEV float nn_float(double x);
NN_DEV float nn_float(int x);
NN_DEV float nn_float(unsigned char x);

// float -> T. f16 and bf16: to nearest, ties to even, too large becomes infinity, NaN stays NaN.
// int and unsigned char: toward zero, saturating; NaN becomes 0.
template <class T> NN_DEV T nn_cast(float x);

// The same for vectors, with fewer instructions.
template <class T, int N> NN_DEV Vec<float, N> nn_float(Vec<T, N> x);
template <class T, int N> NN_DEV Vec<T, N> nn_cast(Vec<float, N> x);

// Two floats as one register of two 16-bit values, `low` in the low half: a fragment register.
template <class T> NN_DEV unsigned nn_pack(float low, float high);

// Rounds to TF32 (10 mantissa bits, ties away from zero); the bits an mma operand register takes.
NN_DEV unsigned nn_tf32(float x);

NN_DEV unsigned nn_bits(float x);       // the float's bit pattern
NN_DEV float nn_from_bits(unsigned x);

// ---- memory --------------------------------------------------------------------------------

// One access of sizeof(T) * N bytes (16 bytes each when larger); p is aligned to it.
template <int N, class T> NN_DEV Vec<T, N> nn_load(const T *p);
template <int N, class T> NN_DEV void nn_store(T *p, Vec<T, N> value);
// Global memory that no thread of this kernel writes: through the read-only path.
template <int N, class T> NN_DEV Vec<T, N> nn_load_ro(const T *p);
template <class T> NN_DEV T nn_load_ro(const T *p);

// NN_SMEM(Smem, smem): declares `Smem &smem`, the block's dynamic shared memory (1024-aligned).

// ---- arithmetic on float -------------------------------------------------------------------

NN_DEV float nn_exp(float x);
NN_DEV float nn_exp2(float x);
NN_DEV float nn_exp2_fast(float x); // one instruction: 4 units in the last place; 0 below 2^-126
NN_DEV float nn_log(float x);
NN_DEV float nn_sqrt(float x);
NN_DEV float nn_rsqrt(float x);
NN_DEV float nn_tanh(float x);
NN_DEV float nn_erf(float x);
NN_DEV float nn_erfc(float x);  // 1 - erf(x)
NN_DEV float nn_log1p(float x); // log(1 + x)
NN_DEV float nn_expm1(float x); // exp(x) - 1
NN_DEV float nn_atan(float x);
NN_DEV float nn_atan2(float y, float x); // the angle of the point (x, y)
NN_DEV float nn_sin(float x);
NN_DEV float nn_cos(float x);
NN_DEV float nn_pow(float x, float y);
NN_DEV float nn_fmod(float a, float b);   // the remainder of a / b with the sign of a, exact
NN_DEV float nn_floor(float x);
NN_DEV float nn_ceil(float x);
NN_DEV float nn_round(float x); // to nearest, ties to even
NN_DEV float nn_trunc(float x); // toward zero
NN_DEV float nn_abs(float x);
NN_DEV float nn_fma(float a, float b, float c); // a * b + c, rounded once
NN_DEV float nn_max(float a, float b);          // NaN when either is NaN
NN_DEV float nn_min(float a, float b);          // NaN when either is NaN
NN_DEV bool nn_isnan(float x);
NN_DEV float nn_inf();
NN_DEV float nn_nan();

// ---- threads and barriers ------------------------------------------------------------------

NN_DEV int nn_lane();                           // threadIdx.x % 32; blocks are one-dimensional
NN_DEV void nn_sync();                          // all threads of the block
NN_DEV void nn_assume(bool holds);              // a fact for the compiler
NN_DEV int nn_opaque(int x);                    // x, hidden from the optimizer
NN_DEV void nn_syncwarp(unsigned mask = kFullMask);
// Named barrier `id` (1..15; 0 is nn_sync's): `threads`, a multiple of 32, take part in all.
NN_DEV void nn_bar_sync(int id, int threads);   // arrives and waits
NN_DEV void nn_bar_arrive(int id, int threads); // arrives, does not wait
NN_DEV int nn_sync_count(bool predicate);       // nn_sync; the number of threads where it holds
NN_DEV bool nn_sync_any(bool predicate);        // nn_sync; holds somewhere
NN_DEV bool nn_sync_all(bool predicate);        // nn_sync; holds everywhere

// Memory fences, acquire and release, at the scope of the block, the device or the system.
NN_DEV void nn_fence_block();
NN_DEV void nn_fence_device();
NN_DEV void nn_fence_system();

NN_DEV long long nn_clock(); // a counter that grows
NN_DEV void nn_trap();       // ends the launch with an error
// An index below `size` from a run-time value i. Out of range, a GPU clamps it; libcusim ends the
// launch with an error.
NN_DEV int nn_index(int i, int size);

// ---- exchange within a warp ----------------------------------------------------------------
// T is any type of 4 or 8 bytes.

template <class T> NN_DEV T nn_shfl(T v, int lane, unsigned mask = kFullMask);
template <class T> NN_DEV T nn_shfl_xor(T v, int lane_mask, unsigned mask = kFullMask);
template <class T> NN_DEV T nn_shfl_down(T v, int delta, unsigned mask = kFullMask);
template <class T> NN_DEV T nn_shfl_up(T v, int delta, unsigned mask = kFullMask);
NN_DEV unsigned nn_ballot(bool predicate, unsigned mask = kFullMask);
NN_DEV bool nn_any(bool predicate, unsigned mask = kFullMask);
NN_DEV bool nn_all(bool predicate, unsigned mask = kFullMask);
NN_DEV int nn_popc(unsigned bits); // how many are set
// The lanes of the mask that pass the same bits as this one.
template <class T> NN_DEV unsigned nn_match_any(T v, unsigned mask = kFullMask);
// The mask if all its lanes pass the same bits, else 0; *all: whether they do.
template <class T> NN_DEV unsigned nn_match_all(T v, bool *all, unsigned mask = kFullMask);
// Over all 32 lanes, the same bits in each: the butterfly v = op(v, shfl_xor(v, 16, 8, 4, 2, 1)).
NN_DEV float nn_warp_sum(float v);
NN_DEV float nn_warp_max(float v); // NaN when a lane holds NaN
NN_DEV float nn_warp_min(float v); // NaN when a lane holds NaN
// Integers, over the lanes of the mask; sums wrap around.
NN_DEV int nn_warp_sum(int v, unsigned mask = kFullMask);
NN_DEV int nn_warp_max(int v, unsigned mask = kFullMask);
NN_DEV int nn_warp_min(int v, unsigned mask = kFullMask);
NN_DEV unsigned nn_warp_sum(unsigned v, unsigned mask = kFullMask);
NN_DEV unsigned nn_warp_max(unsigned v, unsigned mask = kFullMask);
NN_DEV unsigned nn_warp_min(unsigned v, unsigned mask = kFullMask);
NN_DEV unsigned nn_warp_and(unsigned v, unsigned mask = kFullMask);
NN_DEV unsigned nn_warp_or(unsigned v, unsigned mask = kFullMask);
NN_DEV unsigned nn_warp_xor(unsigned v, unsigned mask = kFullMask);

// ---- atomics: return the old value; relaxed, device scope; global or shared memory -----------

NN_DEV float nn_atomic_add(float *p, float v);
NN_DEV double nn_atomic_add(double *p, double v);
NN_DEV int nn_atomic_add(int *p, int v);
NN_DEV unsigned nn_atomic_add(unsigned *p, unsigned v);
NN_DEV unsigned long long nn_atomic_add(unsigned long long *p, unsigned long long v);
NN_DEV int nn_atomic_max(int *p, int v);
NN_DEV unsigned nn_atomic_max(unsigned *p, unsigned v);
NN_DEV float nn_atomic_max(float *p, float v); // not for NaN
NN_DEV int nn_atomic_min(int *p, int v);
NN_DEV unsigned nn_atomic_cas(unsigned *p, unsigned expected, unsigned desired);
NN_DEV unsigned nn_atomic_exch(unsigned *p, unsigned v);

// ---- asynchronous copies, global -> shared ---------------------------------------------------

// Starts copying BYTES (4, 8 or 16; both addresses aligned to it); if !pred, zero-fills without
// reading gmem. Complete after a wait below; other threads also need a barrier. BY_L1: caches in
// L1, for copies that overlap (copies of 16 bytes bypass L1 otherwise).
template <int BYTES, bool BY_L1 = false>
NN_DEV void nn_cp_async(void *smem, const void *gmem, bool pred = true);
NN_DEV void nn_cp_async_commit();                // closes this thread's group of copies
template <int N> NN_DEV void nn_cp_async_wait(); // all but this thread's N newest groups landed

// ---- mbarriers: 8 bytes of shared memory -----------------------------------------------------

struct alignas(8) Mbar { unsigned long long state; };

NN_DEV void nn_mbar_init(Mbar *bar, int arrivals);  // by one thread; then fence and barrier
NN_DEV void nn_mbar_init_fence();                   // makes inits visible to asynchronous copies
NN_DEV void nn_mbar_arrive(Mbar *bar);
NN_DEV void nn_mbar_arrive_expect_tx(Mbar *bar, int bytes); // arrives; the phase also needs bytes
NN_DEV bool nn_mbar_try_wait(Mbar *bar, int parity); // phase `parity` done? may wait for a while
NN_DEV void nn_mbar_wait(Mbar *bar, int parity);     // until phase `parity` is done
// Arrives when this thread's earlier copies have landed. noinc: counted in the init's arrivals.
NN_DEV void nn_cp_async_mbar_arrive_noinc(Mbar *bar);

// ---- bulk copies and tensor maps: sm_90 --------------------------------------------------------
// Called by one thread. Addresses and sizes are multiples of 16 bytes, shared addresses of tensor
// boxes of 128. Stores read threads' writes after nn_fence_proxy_async and a barrier.

struct alignas(64) TensorMap { unsigned char opaque[128]; }; // a __grid_constant__ parameter

NN_DEV void nn_fence_proxy_async(); // makes shared writes visible to bulk copies and wgmma
// Completes at `bar`, whose phase must expect the bytes.
NN_DEV void nn_bulk_load(void *smem, const void *gmem, int bytes, Mbar *bar);
NN_DEV void nn_bulk_store(void *gmem, const void *smem, int bytes);
NN_DEV void nn_bulk_commit();                     // closes this thread's group of stores
template <int N> NN_DEV void nn_bulk_wait();      // all but its N newest groups are written
template <int N> NN_DEV void nn_bulk_wait_read(); // they have read shared memory
// Copies the map's box from element `at` on (innermost coordinate first), or for two dimensions
// from (x, y) on; zeros outside of the tensor.
template <int N>
NN_DEV void nn_tensor_load(void *smem, const TensorMap *map, const int (&at)[N], Mbar *bar);
NN_DEV void nn_tensor_load(void *smem, const TensorMap *map, int x, int y, Mbar *bar);
NN_DEV void nn_tensor_store(const TensorMap *map, int x, int y, const void *smem);

// ---- wgmma: sm_90a -----------------------------------------------------------------------------

enum NnSwizzle { kSwizzleNone, kSwizzle128, kSwizzle64, kSwizzle32 };

// The descriptor of a tile in shared memory for wgmma: bytes from one group of 8 rows (of k, where
// it is transposed) to the next, and the leading offset, which swizzled K-major tiles do not use.
NN_DEV unsigned long long nn_wgmma_tile(const void *smem, int stride, int leading, NnSwizzle mode);
NN_DEV void nn_wgmma_fence();                  // orders registers and shared memory before wgmma
NN_DEV void nn_wgmma_commit();                 // closes a group of wgmma
template <int N> NN_DEV void nn_wgmma_wait();  // all but the N newest groups are complete
NN_DEV void nn_wgmma_hold(float &x); // the compiler moves no access to x across this
NN_DEV void nn_wgmma_hold(unsigned &x);
NN_DEV void nn_wgmma_keep(unsigned x);  // counts as a read of x
// d += a * b, or d = a * b: 64 x N x 16, by 128 threads; N = 64, 128, 192, 256; T: f16, bf16. A
// transposed tile has its M or N dimension innermost. d: the fragment of mma m16n8; each warp has
// 16 rows.
template <int N, bool TRANS_A, bool TRANS_B, class T>
NN_DEV void nn_wgmma_m64k16(float (&d)[N / 2], unsigned long long a, unsigned long long b,
                            bool accumulate, T type);
// The same with a in registers, fragments of mma m16n8k16, not to be changed before the wait; N =
// 16, 32, 48, 64, 80, 96, 128, 256.
template <int N, bool TRANS_B, class T>
NN_DEV void nn_wgmma_m64k16(float (&d)[N / 2], const unsigned (&a)[4], unsigned long long b,
                            bool accumulate, T type);

// ---- matrices --------------------------------------------------------------------------------

// Loads 1, 2 or 4 matrices of 8 rows of 16 bytes from shared memory. Lane 8 * i + j of the warp
// gives the address of row j of matrix i (x1: lanes 0-7, x2: 0-15). Lane l receives in r[i] 4
// bytes: row l / 4, 16-bit elements 2 * (l % 4) and the next; _trans: of the transposed matrix.
NN_DEV void nn_ldmatrix_x1(unsigned r[1], const void *row);
NN_DEV void nn_ldmatrix_x2(unsigned r[2], const void *row);
NN_DEV void nn_ldmatrix_x4(unsigned r[4], const void *row);
NN_DEV void nn_ldmatrix_x1_trans(unsigned r[1], const void *row);
NN_DEV void nn_ldmatrix_x2_trans(unsigned r[2], const void *row);
NN_DEV void nn_ldmatrix_x4_trans(unsigned r[4], const void *row);

// d += a * b by the whole warp, row.col fragments. The last argument only names the type.
NN_DEV void nn_mma_m16n8k16(float d[4], const unsigned a[4], const unsigned b[2], f16);
NN_DEV void nn_mma_m16n8k16(float d[4], const unsigned a[4], const unsigned b[2], bf16);
NN_DEV void nn_mma_m16n8k8_tf32(float d[4], const unsigned a[4], const unsigned b[2]);
NN_DEV void nn_mma_m16n8k32(int d[4], const unsigned a[4], const unsigned b[2], signed char);
NN_DEV void nn_mma_m16n8k32(int d[4], const unsigned a[4], const unsigned b[2], unsigned char);
NN_DEV void nn_mma_m16n8k32(float d[4], const unsigned a[4], const unsigned b[2], e4m3);
NN_DEV void nn_mma_m16n8k32(float d[4], const unsigned a[4], const unsigned b[2], e5m2);

// M x N of the above, d[m][n] += a[m] * b[n], with the same bits as M * N calls; simulated, one
// warp collective instead of M * N: preferred. T: f16 or bf16; nn_mma_tile_tf32: k8, TF32.
template <int M, int N, class T>
NN_DEV void nn_mma_tile(float (&d)[M][N][4], const unsigned (&a)[M][4], const unsigned (&b)[N][2],
                        T type);
template <int M, int N>
NN_DEV void nn_mma_tile_tf32(float (&d)[M][N][4], const unsigned (&a)[M][4],
                             const unsigned (&b)[N][2]);

// The same on the fp32 units, by one thread: d[m][n] += sum over e of a[m][e] * b[n][e], e rising,
// each step rounded once (nn_fma). N is a power of two.
template <int M, int N>
NN_DEV void nn_fma_tile(float (&d)[M][N], const Vec<float, 4> (&a)[M], const Vec<float, 4> (&b)[N]);

#include "lib/prim_hopper.cuh"
#include "lib/prim_fast.cuh"

#ifdef __CUSIM__
// Kernels include only this header. The bodies are inline PTX on a GPU (NVRTC bundles no headers)
// and portable C++ on libcusim; the same tests check both against the descriptions above.
#include "lib/prim_sim.h"
#else
#include "lib/prim_cuda.cuh"
#endif
#endif
