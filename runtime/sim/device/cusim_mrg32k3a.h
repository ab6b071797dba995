// cusim_mrg32k3a.h: L'Ecuyer's MRG32k3a ("Good Parameters and Implementations for Combined Multiple
// Recursive Random Number Generators", 1999), a part of curand_kernel.h: two recurrences of three
// words each, whose difference is the number. Subsequences are 2^76 numbers apart, sequences 2^127.
#ifndef CUSIM_MRG32K3A_H
#define CUSIM_MRG32K3A_H

struct curandStateMRG32k3a {
  unsigned s1[3], s2[3]; // the last three of each recurrence, the oldest first
  int boxmuller_flag, boxmuller_flag_double;
  float boxmuller_extra;
  double boxmuller_extra_double;
};
typedef struct curandStateMRG32k3a curandStateMRG32k3a_t;

namespace cusim {
constexpr unsigned long long kMrg[2] = {4294967087, 4294944443}; // the two moduli

struct MrgMatrix { // of a step, or of many: [row][column]
  unsigned at[3][3];
};
constexpr MrgMatrix mrg_product(const MrgMatrix &a, const MrgMatrix &b,
                                unsigned long long modulus) {
  MrgMatrix r{};
  for (int i = 0; i < 3; i++)
    for (int k = 0; k < 3; k++) {
      unsigned long long sum = 0;
      for (int j = 0; j < 3; j++)
        sum += (unsigned long long)a.at[i][j] * b.at[j][k] % modulus;
      r.at[i][k] = unsigned(sum % modulus);
    }
  return r;
}

// 2^i steps of each recurrence, for all that 64 bits of sequences, subsequences or numbers need.
struct MrgJumps {
  MrgMatrix power[2][127 + 64];
};
constexpr MrgJumps mrg_jumps() {
  MrgJumps r{};
  r.power[0][0] = {{{0, 1, 0}, {0, 0, 1}, {unsigned(kMrg[0] - 810728), 1403580, 0}}};
  r.power[1][0] = {{{0, 1, 0}, {0, 0, 1}, {unsigned(kMrg[1] - 1370589), 0, 527612}}};
  for (int k = 0; k < 2; k++)
    for (int i = 1; i < 127 + 64; i++)
      r.power[k][i] = mrg_product(r.power[k][i - 1], r.power[k][i - 1], kMrg[k]);
  return r;
}

// n * 2^first steps of recurrence k.
static CUSIM_UNTRACED inline void mrg_skip(unsigned *s, int k, unsigned long long n, int first) {
  static constexpr MrgJumps jumps = mrg_jumps();
  for (int bit = 0; bit < 64 && n >> bit; bit++) {
    if (!(n >> bit & 1)) continue;
    const MrgMatrix &jump = jumps.power[k][first + bit];
    unsigned next[3] = {};
    for (int i = 0; i < 3; i++) {
      unsigned long long sum = 0;
      for (int j = 0; j < 3; j++) sum += (unsigned long long)jump.at[i][j] * s[j] % kMrg[k];
      next[i] = unsigned(sum % kMrg[k]);
    }
    for (int i = 0; i < 3; i++) s[i] = next[i];
  }
}
CUSIM_FN void mrg_skip(curandStateMRG32k3a_t *state, unsigned long long n, int first) {
  unsigned s1[3], s2[3];
  for (int i = 0; i < 3; i++) s1[i] = state->s1[i], s2[i] = state->s2[i];
  mrg_skip(s1, 0, n, first);
  mrg_skip(s2, 1, n, first);
  for (int i = 0; i < 3; i++) state->s1[i] = s1[i], state->s2[i] = s2[i];
}
CUSIM_FN unsigned mrg_next(unsigned *s, unsigned next) {
  s[0] = s[1], s[1] = s[2];
  return s[2] = next;
}
} // namespace cusim

// The next number, of 1 to 4294967087.
CUSIM_FN double curand_MRG32k3a(curandStateMRG32k3a_t *state) {
  unsigned long long x = 1403580ull * state->s1[1] + 810728ull * (cusim::kMrg[0] - state->s1[0]);
  unsigned long long y = 527612ull * state->s2[2] + 1370589ull * (cusim::kMrg[1] - state->s2[0]);
  unsigned a = cusim::mrg_next(state->s1, unsigned(x % cusim::kMrg[0]));
  unsigned b = cusim::mrg_next(state->s2, unsigned(y % cusim::kMrg[1]));
  return double(a > b ? a - b : a + cusim::kMrg[0] - b);
}
// The same, spread over 32 bits.
CUSIM_FN unsigned curand(curandStateMRG32k3a_t *state) {
  return unsigned(curand_MRG32k3a(state) * 1.000000048662);
}
CUSIM_FN void skipahead(unsigned long long n, curandStateMRG32k3a_t *state) {
  cusim::mrg_skip(state, n, 0);
}
// NOTE: from 2^51 subsequences on the state of CUDA's header stays 0; here any number is exact.
CUSIM_FN void skipahead_subsequence(unsigned long long n, curandStateMRG32k3a_t *state) {
  cusim::mrg_skip(state, n, 76);
}
CUSIM_FN void skipahead_sequence(unsigned long long n, curandStateMRG32k3a_t *state) {
  cusim::mrg_skip(state, n, 127);
}
// Seed 0 gives the state of the paper.
CUSIM_FN void curand_init(unsigned long long seed, unsigned long long subsequence,
                          unsigned long long offset, curandStateMRG32k3a_t *state) {
  unsigned long long low = unsigned(seed) ^ 0x55555555u, high = unsigned(seed >> 32) ^ 0xaaaaaaaau;
  *state = {};
  for (int i = 0; i < 3; i++) {
    unsigned long long a = i % 2 ? high : low, b = i % 2 ? low : high;
    state->s1[i] = seed ? unsigned(a * 12345 % cusim::kMrg[0]) : 12345;
    state->s2[i] = seed ? unsigned(b * 12345 % cusim::kMrg[1]) : 12345;
  }
  skipahead_subsequence(subsequence, state);
  skipahead(offset, state);
}

// Of (0, 1].
CUSIM_FN double curand_uniform_double(curandStateMRG32k3a_t *state) {
  return curand_MRG32k3a(state) * 2.3283065498378288e-10;
}
CUSIM_FN float curand_uniform(curandStateMRG32k3a_t *state) {
  return float(curand_uniform_double(state));
}

namespace cusim { // Box and Muller
CUSIM_FN float2 normals_float(curandStateMRG32k3a_t *state) {
  float length = sqrtf(-2.0f * logf(curand_uniform(state)));
  float2 v;
  __sincosf(curand_uniform(state) * 6.2831855f, &v.x, &v.y);
  return {v.x * length, v.y * length};
}
CUSIM_FN double2 normals_double(curandStateMRG32k3a_t *state) {
  double length = sqrt(-2.0 * log(curand_uniform_double(state)));
  double2 v;
  sincospi(curand_uniform_double(state) * 2.0, &v.x, &v.y);
  return {v.x * length, v.y * length};
}
} // namespace cusim

#endif
