// curand_kernel.h: per-thread random numbers: XORWOW (the default), Philox4x32-10, MRG32k3a and
// Sobol's, with the sequences of CUDA's header of that name. Integers and uniform numbers have its
// bits; normal ones its steps over the host's log, sin, cos, exp and inverse of erfc.
//
// XORWOW: Marsaglia, "Xorshift RNGs", 2003. Philox: Salmon and others, "Parallel Random Numbers: As
// Easy as 1, 2, 3", 2011. Missing: MTGP32, Poisson and other discrete distributions.
#ifndef CUSIM_CURAND_KERNEL_H
#define CUSIM_CURAND_KERNEL_H

struct curandStateXORWOW {
  unsigned d, v[5]; // d: a counter in steps of 362437; v: 160 bits
  int boxmuller_flag, boxmuller_flag_double; // kind of the pending second number
  float boxmuller_extra;
  double boxmuller_extra_double;
};
typedef struct curandStateXORWOW curandStateXORWOW_t;
typedef struct curandStateXORWOW curandState_t;
typedef struct curandStateXORWOW curandState;

struct curandStatePhilox4_32_10 {
  uint4 ctr, output; // output: of ctr and key; the next number is output[STATE]
  uint2 key;
  unsigned STATE;
  int boxmuller_flag, boxmuller_flag_double;
  float boxmuller_extra;
  double boxmuller_extra_double;
};
typedef struct curandStatePhilox4_32_10 curandStatePhilox4_32_10_t;

// ---- XORWOW -------------------------------------------------------------------------------------

namespace cusim {
constexpr void xorwow_step(unsigned *v) {
  unsigned t = v[0] ^ v[0] >> 2;
  for (int i = 0; i < 4; i++) v[i] = v[i + 1];
  v[4] ^= v[4] << 4 ^ t ^ t << 1;
}

// A step is linear over GF(2), with this characteristic polynomial of degree 160 (its lower bits;
// found by Berlekamp-Massey). So n steps are x^n modulo it, applied to the state.
struct XorwowJump {
  unsigned __int128 low; // coefficients of x^0 to x^127
  unsigned high;         // to x^159
};
constexpr XorwowJump xorwow_product(XorwowJump a, XorwowJump b) {
  const unsigned __int128 low =
      (unsigned __int128)0x0f3c003500062121ull << 64 | 0x0861003000060001ull;
  XorwowJump r{0, 0};
  for (int i = 0; i < 160; i++) {
    if (a.low & 1) r.low ^= b.low, r.high ^= b.high;
    a.low = a.low >> 1 | (unsigned __int128)a.high << 127, a.high >>= 1;
    unsigned over = b.high >> 31;
    b.high = b.high << 1 | unsigned(b.low >> 127), b.low <<= 1;
    if (over) b.low ^= low, b.high ^= 0xf0e;
  }
  return r;
}
// x^(2^i). A subsequence is 2^67 steps.
struct XorwowJumps {
  XorwowJump power[131];
};
constexpr XorwowJumps xorwow_jumps() {
  XorwowJumps r{};
  r.power[0] = {2, 0};
  for (int i = 1; i < 131; i++) r.power[i] = xorwow_product(r.power[i - 1], r.power[i - 1]);
  return r;
}

// n * 2^first steps of the state v.
static CUSIM_UNTRACED inline void xorwow_skip(unsigned *v, unsigned long long n, int first) {
  static constexpr XorwowJumps jumps = xorwow_jumps();
  for (int bit = 0; n >> bit && bit < 64; bit++) {
    if (!(n >> bit & 1)) continue;
    XorwowJump jump = jumps.power[first + bit];
    unsigned sum[5] = {};
    for (int i = 0; i < 160; i++) {
      unsigned use = 0u - (unsigned(jump.low) & 1);
      for (int k = 0; k < 5; k++) sum[k] ^= v[k] & use;
      jump.low = jump.low >> 1 | (unsigned __int128)jump.high << 127, jump.high >>= 1;
      xorwow_step(v);
    }
    for (int k = 0; k < 5; k++) v[k] = sum[k];
  }
}
CUSIM_FN void xorwow_skip(curandStateXORWOW_t *state, unsigned long long n, int first) {
  unsigned v[5];
  for (int i = 0; i < 5; i++) v[i] = state->v[i];
  xorwow_skip(v, n, first);
  for (int i = 0; i < 5; i++) state->v[i] = v[i];
}
} // namespace cusim

CUSIM_FN unsigned curand(curandStateXORWOW_t *state) {
  cusim::xorwow_step(state->v);
  return state->v[4] + (state->d += 362437);
}
CUSIM_FN void skipahead(unsigned long long n, curandStateXORWOW_t *state) {
  cusim::xorwow_skip(state, n, 0);
  state->d += 362437 * unsigned(n);
}
CUSIM_FN void skipahead_sequence(unsigned long long n, curandStateXORWOW_t *state) {
  cusim::xorwow_skip(state, n, 67); // d has period 2^32
}
CUSIM_FN void curand_init(unsigned long long seed, unsigned long long subsequence,
                          unsigned long long offset, curandStateXORWOW_t *state) {
  unsigned low = (unsigned(seed) ^ 0xaad26b49u) * 1099087573u;
  unsigned high = (unsigned(seed >> 32) ^ 0xf7dcefddu) * 2591861531u;
  *state = {6615241u + low + high,
            {123456789u + low, 362436069u ^ low, 521288629u + high, 88675123u ^ high,
             5783321u + low}};
  skipahead_sequence(subsequence, state);
  skipahead(offset, state);
}

// ---- Philox -------------------------------------------------------------------------------------

namespace cusim {
CUSIM_FN uint4 philox(uint4 c, uint2 key) {
  for (int round = 0; round < 10; round++) {
    unsigned long long x = c.x * 0xd2511f53ull, z = c.z * 0xcd9e8d57ull;
    c = {unsigned(z >> 32) ^ c.y ^ key.x, unsigned(z), unsigned(x >> 32) ^ c.w ^ key.y,
         unsigned(x)};
    key = {key.x + 0x9e3779b9u, key.y + 0xbb67ae85u};
  }
  return c;
}
// The next four numbers, n fours on.
CUSIM_FN void philox_go(curandStatePhilox4_32_10_t *state, unsigned long long n) {
  unsigned long long low = (unsigned long long)state->ctr.y << 32 | state->ctr.x,
                     high = (unsigned long long)state->ctr.w << 32 | state->ctr.z;
  low += n, high += low < n;
  state->ctr = {unsigned(low), unsigned(low >> 32), unsigned(high), unsigned(high >> 32)};
  state->output = philox(state->ctr, state->key);
}
CUSIM_FN unsigned philox_get(uint4 four, unsigned i) {
  return i == 0 ? four.x : i == 1 ? four.y : i == 2 ? four.z : four.w;
}
} // namespace cusim

CUSIM_FN unsigned curand(curandStatePhilox4_32_10_t *state) {
  unsigned value = cusim::philox_get(state->output, state->STATE++);
  if (state->STATE == 4) state->STATE = 0, cusim::philox_go(state, 1);
  return value;
}
CUSIM_FN uint4 curand4(curandStatePhilox4_32_10_t *state) {
  uint4 now = state->output;
  cusim::philox_go(state, 1);
  unsigned value[4];
  for (unsigned i = 0; i < 4; i++) {
    unsigned at = state->STATE + i;
    value[i] = at < 4 ? cusim::philox_get(now, at) : cusim::philox_get(state->output, at - 4);
  }
  return {value[0], value[1], value[2], value[3]};
}
CUSIM_FN void skipahead(unsigned long long n, curandStatePhilox4_32_10_t *state) {
  state->STATE += unsigned(n & 3);
  n = n / 4 + state->STATE / 4;
  state->STATE %= 4;
  cusim::philox_go(state, n);
}
CUSIM_FN void skipahead_sequence(unsigned long long n, curandStatePhilox4_32_10_t *state) {
  unsigned long long high = ((unsigned long long)state->ctr.w << 32 | state->ctr.z) + n;
  state->ctr.z = unsigned(high), state->ctr.w = unsigned(high >> 32);
  cusim::philox_go(state, 0);
}
CUSIM_FN void curand_init(unsigned long long seed, unsigned long long subsequence,
                          unsigned long long offset, curandStatePhilox4_32_10_t *state) {
  *state = {};
  state->key = {unsigned(seed), unsigned(seed >> 32)};
  skipahead_sequence(subsequence, state);
  skipahead(offset, state);
}

// ---- distributions ------------------------------------------------------------------------------

namespace cusim {
// Of (0, 1]: the middles of 2^32 or 2^53 steps; rounding reaches 1.
CUSIM_FN float uniform(unsigned x) { return float(x) * 0x1p-32f + 0x1p-33f; }
CUSIM_FN double uniform(unsigned x, unsigned y) {
  return double(x ^ (unsigned long long)y << 21) * 0x1p-53 + 0x1p-54;
}
} // namespace cusim

#include "cusim_mrg32k3a.h"
#include "cusim_sobol.h"

namespace cusim {
// Box-Muller: two independent normal numbers from two words.
CUSIM_FN float2 normals(unsigned x, unsigned y) {
  const float step = 2.3283064e-10f * 6.2831855f;
  float angle = float(y) * step + step / 2, length = sqrtf(-2.0f * logf(uniform(x)));
  float2 v;
  __sincosf(angle, &v.x, &v.y);
  return {v.x * length, v.y * length};
}
CUSIM_FN double2 normals(uint4 x) {
  double angle = double(x.z ^ (unsigned long long)x.w << 21) * 0x1p-52 + 0x1p-53;
  double length = sqrt(-2.0 * log(uniform(x.x, x.y)));
  double2 v;
  sincospi(angle, &v.x, &v.y);
  return {v.x * length, v.y * length};
}
CUSIM_FN uint4 next_four(curandStatePhilox4_32_10_t *state) { return curand4(state); }
CUSIM_FN uint4 next_four(curandStateXORWOW_t *state) {
  unsigned x = curand(state), y = curand(state), z = curand(state);
  return {x, y, z, curand(state)};
}
template <class S> CUSIM_FN float2 normals_float(S *state) {
  unsigned x = curand(state);
  return normals(x, curand(state));
}
enum { kNoNormal, kNormal, kLogNormal };
} // namespace cusim

template <class S, class... More> CUSIM_FN unsigned curand_poisson(S *, More...) {
  static_assert(sizeof(S) == 0, "libcusim's curand_kernel.h has no curand_poisson");
}
template <class S, class... More> CUSIM_FN unsigned curand_discrete(S *, More...) {
  static_assert(sizeof(S) == 0, "libcusim's curand_kernel.h has no curand_discrete");
}

template <class S> CUSIM_FN float curand_uniform(S *state) {
  return cusim::uniform(curand(state));
}
CUSIM_FN float4 curand_uniform4(curandStatePhilox4_32_10_t *state) {
  uint4 x = curand4(state);
  return {cusim::uniform(x.x), cusim::uniform(x.y), cusim::uniform(x.z), cusim::uniform(x.w)};
}
CUSIM_FN double curand_uniform_double(curandStateXORWOW_t *state) {
  unsigned x = curand(state);
  return cusim::uniform(x, curand(state));
}
CUSIM_FN double curand_uniform_double(curandStatePhilox4_32_10_t *state) {
  return double(curand(state)) * 0x1p-32 + 0x1p-32;
}
CUSIM_FN double2 curand_uniform2_double(curandStatePhilox4_32_10_t *state) {
  uint4 x = curand4(state);
  return {cusim::uniform(x.x, x.y), cusim::uniform(x.z, x.w)};
}
CUSIM_FN double4 curand_uniform4_double(curandStatePhilox4_32_10_t *state) {
  double2 a = curand_uniform2_double(state), b = curand_uniform2_double(state);
  return {a.x, a.y, b.x, b.y};
}

// Single numbers, of which every second is pending in the state; then two, then four at once. `of`
// converts a normal number v; `waits` is the pending flag.
#define CUSIM_NORMALS(name, T, suffix, flag, extra, make, waits, Mean, of)                         \
  template <class S> CUSIM_FN T curand_##name##suffix(S *state Mean) {                             \
    if (state->flag == cusim::waits) return state->flag = 0, state->extra;                         \
    T##2 v = make(state);                                                                          \
    state->extra = of(v.y), state->flag = cusim::waits;                                            \
    return of(v.x);                                                                                \
  }                                                                                                \
  template <class S> CUSIM_FN T##2 curand_##name##2##suffix(S *state Mean) {                       \
    T##2 v = make(state);                                                                          \
    return {of(v.x), of(v.y)};                                                                     \
  }
#define CUSIM_NORMALS4(name, T, suffix, make, Mean, of)                                            \
  CUSIM_FN T##4 curand_##name##4##suffix(curandStatePhilox4_32_10_t *state Mean) {                 \
    T##2 v, w;                                                                                     \
    make(state, &v, &w);                                                                           \
    return {of(v.x), of(v.y), of(w.x), of(w.y)};                                                   \
  }
namespace cusim {
template <class S> CUSIM_FN double2 normals_double(S *state) { return normals(next_four(state)); }
CUSIM_FN void four_floats(curandStatePhilox4_32_10_t *state, float2 *v, float2 *w) {
  uint4 x = curand4(state);
  *v = normals(x.x, x.y), *w = normals(x.z, x.w);
}
CUSIM_FN void four_doubles(curandStatePhilox4_32_10_t *state, double2 *v, double2 *w) {
  *v = normals(curand4(state));
  *w = normals(curand4(state));
}
} // namespace cusim
#define CUSIM_NONE
#define CUSIM_MEAN(T) , T mean, T stddev
#define CUSIM_SAME(v) v
#define CUSIM_EXPF(v) expf(mean + stddev * v)
#define CUSIM_EXP(v) exp(mean + stddev * v)
CUSIM_NORMALS(normal, float, , boxmuller_flag, boxmuller_extra, cusim::normals_float, kNormal,
              CUSIM_NONE, CUSIM_SAME)
CUSIM_NORMALS(normal, double, _double, boxmuller_flag_double, boxmuller_extra_double,
              cusim::normals_double, kNormal, CUSIM_NONE, CUSIM_SAME)
CUSIM_NORMALS(log_normal, float, , boxmuller_flag, boxmuller_extra, cusim::normals_float,
              kLogNormal, CUSIM_MEAN(float), CUSIM_EXPF)
CUSIM_NORMALS(log_normal, double, _double, boxmuller_flag_double, boxmuller_extra_double,
              cusim::normals_double, kLogNormal, CUSIM_MEAN(double), CUSIM_EXP)
CUSIM_NORMALS4(normal, float, , cusim::four_floats, CUSIM_NONE, CUSIM_SAME)
CUSIM_NORMALS4(normal, double, _double, cusim::four_doubles, CUSIM_NONE, CUSIM_SAME)
CUSIM_NORMALS4(log_normal, float, , cusim::four_floats, CUSIM_MEAN(float), CUSIM_EXPF)
CUSIM_NORMALS4(log_normal, double, _double, cusim::four_doubles, CUSIM_MEAN(double), CUSIM_EXP)
#undef CUSIM_NORMALS
#undef CUSIM_NORMALS4
#undef CUSIM_NONE
#undef CUSIM_MEAN
#undef CUSIM_SAME
#undef CUSIM_EXPF
#undef CUSIM_EXP

#endif
