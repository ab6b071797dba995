// cusim_sobol.h: Sobol's quasi-random numbers of 32 and 64 bits, plain and scrambled, a part of
// curand_kernel.h, in the order of Antonov and Saleev (1979): the n-th number is the xor of the
// direction vectors at the ones of n's Gray code. The caller provides the vectors.
#ifndef CUSIM_SOBOL_H
#define CUSIM_SOBOL_H

typedef unsigned curandDirectionVectors32_t[32];
typedef unsigned long long curandDirectionVectors64_t[64];

namespace cusim {
template <class T> struct Sobol {
  T i, x, c; // numbers generated so far; the next one; the scrambling constant
  T direction_vectors[8 * sizeof(T)];
};
template <class T> CUSIM_FN void sobol_skip(Sobol<T> *s, T n) {
  s->i += n;
  s->x = s->c;
  for (unsigned k = 0; k < 8 * sizeof(T); k++)
    if ((s->i ^ s->i >> 1) >> k & 1) s->x ^= s->direction_vectors[k];
}
template <class T> CUSIM_FN void sobol_init(Sobol<T> *s, const T *vectors, T c, T offset) {
  s->i = 0, s->c = c;
  for (unsigned k = 0; k < 8 * sizeof(T); k++) s->direction_vectors[k] = vectors[k];
  sobol_skip(s, offset);
}
template <class T> CUSIM_FN T sobol_next(Sobol<T> *s) {
  T now = s->x;
  unsigned zero = 0, last = 8 * sizeof(T) - 1; // the lowest bit of i that is 0
  while (zero < last && s->i >> zero & 1) zero++;
  s->x ^= s->direction_vectors[zero];
  s->i++;
  return now;
}

// Of (0, 1]; then by the inverse of the normal distribution, from the nearer end.
CUSIM_FN unsigned sobol_word(unsigned x) { return x; }
CUSIM_FN unsigned sobol_word(unsigned long long x) { return unsigned(x >> 32); }
CUSIM_FN double sobol_double(unsigned x) { return x * 0x1p-32 + 0x1p-32; }
CUSIM_FN double sobol_double(unsigned long long x) { return double(x >> 11) * 0x1p-53 + 0x1p-54; }
CUSIM_FN float sobol_normal(unsigned x) {
  bool far = x > 1u << 31;
  return (far ? 1.4142135f : -1.4142135f) * erfcinvf(2.0f * uniform(far ? ~x : x));
}
CUSIM_FN double sobol_normal(unsigned long long x, int bits) { // x has `bits` bits
  bool far = x > 1ull << (bits - 1);
  if (far) x = (1ull << bits) - 1 - x;
  double p = (double(x) + 0.5) * (bits == 32 ? 0x1p-32 : 0x1p-53);
  return (far ? 1.4142135623730951 : -1.4142135623730951) * erfcinv(2.0 * p);
}
CUSIM_FN double sobol_normal_double(unsigned x) { return sobol_normal(x, 32); }
CUSIM_FN double sobol_normal_double(unsigned long long x) { return sobol_normal(x >> 11, 53); }
} // namespace cusim

#define CUSIM_SOBOL(State, T)                                                                      \
  struct State : cusim::Sobol<T> {};                                                               \
  typedef struct State State##_t;                                                                  \
  CUSIM_FN T curand(State *state) { return cusim::sobol_next<T>(state); }                          \
  CUSIM_FN void skipahead(T n, State *state) { cusim::sobol_skip<T>(state, n); }                   \
  CUSIM_FN float curand_uniform(State *state) {                                                    \
    return cusim::uniform(cusim::sobol_word(curand(state)));                                       \
  }                                                                                                \
  CUSIM_FN double curand_uniform_double(State *state) {                                            \
    return cusim::sobol_double(curand(state));                                                     \
  }                                                                                                \
  CUSIM_FN float curand_normal(State *state) {                                                     \
    return cusim::sobol_normal(cusim::sobol_word(curand(state)));                                  \
  }                                                                                                \
  CUSIM_FN double curand_normal_double(State *state) {                                             \
    return cusim::sobol_normal_double(curand(state));                                              \
  }                                                                                                \
  CUSIM_FN float curand_log_normal(State *state, float mean, float stddev) {                       \
    return expf(mean + stddev * curand_normal(state));                                             \
  }                                                                                                \
  CUSIM_FN double curand_log_normal_double(State *state, double mean, double stddev) {             \
    return exp(mean + stddev * curand_normal_double(state));                                       \
  }
CUSIM_SOBOL(curandStateSobol32, unsigned)
CUSIM_SOBOL(curandStateSobol64, unsigned long long)
CUSIM_SOBOL(curandStateScrambledSobol32, unsigned)
CUSIM_SOBOL(curandStateScrambledSobol64, unsigned long long)
#undef CUSIM_SOBOL

CUSIM_FN void curand_init(const unsigned *vectors, unsigned offset, curandStateSobol32 *state) {
  cusim::sobol_init(state, vectors, 0u, offset);
}
CUSIM_FN void curand_init(const unsigned *vectors, unsigned scramble, unsigned offset,
                          curandStateScrambledSobol32 *state) {
  cusim::sobol_init(state, vectors, scramble, offset);
}
CUSIM_FN void curand_init(const unsigned long long *vectors, unsigned long long offset,
                          curandStateSobol64 *state) {
  cusim::sobol_init(state, vectors, 0ull, offset);
}
CUSIM_FN void curand_init(const unsigned long long *vectors, unsigned long long scramble,
                          unsigned long long offset, curandStateScrambledSobol64 *state) {
  cusim::sobol_init(state, vectors, scramble, offset);
}

#endif
