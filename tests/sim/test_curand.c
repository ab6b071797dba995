// test_curand.c: libcusim's curand_kernel.h gives the numbers of NVIDIA's, which runs beside it as
// PTX: integers and uniform numbers bit for bit, normal ones to a few units of the last place.
#include <math.h>

#include "tests/sim/both.h"

enum { kThreads = 32, kEach = 32 };

#define KERNEL(T)                                                                                  \
  "#include <curand_kernel.h>\nextern \"C\" __global__ void k(" T " *out) {\n"                     \
  " int t = threadIdx.x, n = 0; out += t * 32;\n"
// A lane's seed, subsequence and offset: small, and using all bits.
#define START_IN(more)                                                                             \
  " unsigned long long seed = t < 8 ? t : t * 0x9e3779b97f4a7c15ull;\n"                            \
  " unsigned long long sub = t % 4 == 0 ? 0 : t < 16 ? t : t * 0xd1342543de82ef95ull;\n"           \
  " unsigned long long off = t % 3 == 0 ? 0 : t < 24 ? t * 5 : t * 0xaf251af3b0f025b5ull;\n"       \
  more " curand_init(seed, sub, off, &s);\n"
#define START START_IN("")
#define XORWOW(T) KERNEL(T) " curandState s;\n" START
#define PHILOX(T) KERNEL(T) " curandStatePhilox4_32_10_t s;\n" START
#define MRG(T) KERNEL(T) " curandStateMRG32k3a s;\n" START_IN("sub >>= 13;")
#define SOBOL(T, state, word, scramble)                                                            \
  KERNEL(T) " curandState" state " s; " word " v[8 * sizeof(" word ")], c = 0; (void)c;\n"         \
  " for (int i = 0; i < 8 * sizeof(" word "); i++)\n"                                              \
  "  v[i] = (" word ")(1ull << 8 * sizeof v[0] - 1 - i ^ i * t * 0x9e3779b97f4a7c15ull >> i);\n"   \
  " c = (" word ")(t * 0xd1342543de82ef95ull);\n"                                                  \
  " curand_init(v, " scramble " (" word ")(t % 5 == 0 ? 0 : ~0ull * t * t), &s);\n"
#define FOUR(call)                                                                                 \
  " { auto v = " call "; out[n++] = v.x; out[n++] = v.y; out[n++] = v.z; out[n++] = v.w; }\n"
#define FOUR_BITS(call)                                                                            \
  " { auto v = " call "; out[n++] = __float_as_uint(v.x); out[n++] = __float_as_uint(v.y);\n"      \
  "   out[n++] = __float_as_uint(v.z); out[n++] = __float_as_uint(v.w); }\n"
#define DOUBLE_BITS(call)                                                                          \
  " { auto v = __double_as_longlong(" call "); out[n++] = unsigned(v); out[n++] = v >> 32; }\n"

#define FLOATS "#define F(name) name\n"
#define DOUBLES "#define F(name) name##_double\n"

static void *get(const char *front, const char *source, size_t each) {
  return both_get(front, source, kThreads, kThreads * kEach * each);
}

// NVRTC and the host's compiler take seconds for each program: without NNGEN_TEST_LONG=1 only those
// of Philox and of the first Sobol' generator are compared.
static bool is_short(void) {
  return !getenv("NNGEN_TEST_LONG");
}

static void check_bits(const char *what, const char *source) {
  unsigned *ours = get("cxx", source, 4), *theirs = get("nvrtc", source, 4);
  if (!theirs) return;
  for (int i = 0; i < kThreads * kEach; i++)
    if (ours[i] != theirs[i])
      fail_msg("%s: thread %d, number %d: %08x, not %08x", what, i / kEach, i % kEach, ours[i],
               theirs[i]);
}

static void test_integers(void **state) {
  (void)state;
  static const char more[] =
      " for (int i = 0; i < 7; i++) out[n++] = curand(&s);\n"
      " skipahead(t * 3ull, &s); out[n++] = curand(&s); skipahead(1ull << t, &s);\n"
      " out[n++] = curand(&s); skipahead_sequence(3, &s); out[n++] = curand(&s);\n"
      " for (int i = 0; i < 3; i++) out[n++] = __float_as_uint(curand_uniform(&s));\n" DOUBLE_BITS(
          "curand_uniform_double(&s)");
  char source[4096];
  snprintf(source, sizeof source, "%s%s}\n", XORWOW("unsigned"), more);
  if (!is_short()) check_bits("XORWOW", source);
  snprintf(source, sizeof source, "%s%s%s}\n", PHILOX("unsigned"), more,
           FOUR("curand4(&s)") FOUR_BITS("curand_uniform4(&s)") " curand(&s);\n" FOUR("curand4(&s)")
               DOUBLE_BITS("curand_uniform2_double(&s).y"));
  check_bits("Philox", source);
  if (is_short()) return;
  snprintf(source, sizeof source, "%s%s%s}\n", MRG("unsigned"), more,
           " skipahead_subsequence(t * 0xd1342543de82ef95ull >> 13, &s); out[n++] = curand(&s);\n"
           " skipahead_sequence(~0ull << t, &s); out[n++] = curand(&s);\n"
           " for (int i = 0; i < 9; i++) out[n++] = (unsigned)curand_MRG32k3a(&s);\n");
  check_bits("MRG32k3a", source);
}

// Without NVIDIA's: Random123's published answer for a counter and key of zeros, and XORWOW's first
// numbers for seed 0.
static void test_known(void **state) {
  (void)state;
  static const unsigned known[] = {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};
  static const char philox[] = KERNEL("unsigned") " curandStatePhilox4_32_10_t s;\n"
                                                  " curand_init(0, 0, 0, &s);\n"
                                                  " for (; n < 4; n++) out[n] = curand(&s); }\n";
  static const char xorwow[] = KERNEL("unsigned") " curandState s;\n"
                                                  " curand_init(0, 0, 0, &s);\n"
                                                  " for (; n < 4; n++) out[n] = curand(&s); }\n";
  assert_memory_equal(get("cxx", philox, 4), known, sizeof known);
  static const unsigned first[] = {0xbd7f03b6, 0x703e556d, 0x845af0c5, 0x283067fd};
  assert_memory_equal(get("cxx", xorwow, 4), first, sizeof first);
  // The paper's generator with 12345 six times.
  static const unsigned combined[] = {545508589, 1368065410};
  static const char mrg[] = KERNEL("unsigned") " curandStateMRG32k3a s;\n"
                                               " curand_init(0, 0, 0, &s);\n"
                                               " for (; n < 2; n++)\n"
                                               "  out[n] = (unsigned)curand_MRG32k3a(&s); }\n";
  assert_memory_equal(get("cxx", mrg, 4), combined, sizeof combined);
}

static void refuse(const void *user) {
  char *image, *log;
  nvrtcResult r = device_compile(user, "absent.cu", &image, &log);
  if (r == NVRTC_SUCCESS || !strstr(log, "has no curand"))
    printf("# %s\n", log), fflush(stdout), _exit(1);
}

static void set_nothing(const void *user) {
  (void)user;
}

static void test_absent(void **state) {
  (void)state;
  CXX_ONLY("its header has these");
  device_child(set_nothing, refuse, XORWOW("unsigned") " *out = curand_poisson(&s, 3.0); }\n");
  device_child(set_nothing, refuse, MRG("unsigned") " *out = curand_discrete(&s, out); }\n");
}

static void check_near(const char *what, const char *source, double unit) {
  double *ours = get("cxx", source, 8), *theirs = get("nvrtc", source, 8), worst = 0;
  if (!theirs) return;
  for (int i = 0; i < kThreads * kEach; i++) {
    double off = fabs(ours[i] - theirs[i]) / (fabs(theirs[i]) + 1) / unit;
    if (!(off < 8) || isnan(ours[i]))
      fail_msg("%s: thread %d, number %d: %.17g, not %.17g", what, i / kEach, i % kEach, ours[i],
               theirs[i]);
    worst = fmax(worst, off);
  }
  printf("# %s: at most %.2f units\n", what, worst);
}

static void test_sobol(void **state) {
  (void)state;
#define WORDS                                                                                      \
  " for (int i = 0; i < 5; i++) { auto x = curand(&s); out[n++] = (unsigned)x;\n"                  \
  "  out[n++] = (unsigned)((unsigned long long)x >> 32); }\n"                                      \
  " skipahead(t * 3, &s); for (int i = 0; i < 5; i++) { out[n++] = (unsigned)curand(&s);\n"        \
  "  out[n++] = __float_as_uint(curand_uniform(&s)); }\n"                                          \
  " for (int i = 0; i < 4; i++)" DOUBLE_BITS("curand_uniform_double(&s)")
#define NORMALS                                                                                    \
  " for (int i = 0; i < 8; i++) out[n++] = F(curand_normal)(&s);\n"                                \
  " for (int i = 0; i < 8; i++) out[n++] = F(curand_log_normal)(&s, 0.5f, 0.25f);\n"
  check_bits("Sobol32", SOBOL("unsigned", "Sobol32", "unsigned", "") WORDS "}\n");
  if (is_short()) return;
  check_bits("Sobol64", SOBOL("unsigned", "Sobol64", "unsigned long long", "") WORDS "}\n");
  check_bits("scrambled Sobol32",
             SOBOL("unsigned", "ScrambledSobol32", "unsigned", "c,") WORDS "}\n");
  check_bits("scrambled Sobol64",
             SOBOL("unsigned", "ScrambledSobol64", "unsigned long long", "c,") WORDS "}\n");
  check_near("Sobol32, floats", FLOATS SOBOL("double", "Sobol32", "unsigned", "") NORMALS "}\n",
             0x1p-24);
  check_near("Sobol32, doubles", DOUBLES SOBOL("double", "Sobol32", "unsigned", "") NORMALS "}\n",
             0x1p-53);
  check_near("Sobol64, doubles",
             DOUBLES SOBOL("double", "ScrambledSobol64", "unsigned long long", "c,") NORMALS "}\n",
             0x1p-53);
}

static void test_normals(void **state) {
  (void)state;
#define ONES                                                                                       \
  " for (int i = 0; i < 5; i++) out[n++] = F(curand_normal)(&s);\n"                                \
  " out[n++] = F(curand_log_normal)(&s, 0.5f, 0.25f);\n"                                           \
  " out[n++] = F(curand_normal)(&s); out[n++] = F(curand_log_normal)(&s, 0.5f, 0.25f);\n"          \
  " { auto v = F(curand_normal2)(&s); out[n++] = v.x; out[n++] = v.y; }\n"                         \
  " { auto v = F(curand_log_normal2)(&s, 0.5f, 0.25f); out[n++] = v.x; out[n++] = v.y; }\n"
#define FOURS FOUR("F(curand_normal4)(&s)") FOUR("F(curand_log_normal4)(&s, 0.5f, 0.25f)")
  check_near("Philox, floats", FLOATS PHILOX("double") ONES FOURS "}\n", 0x1p-24);
  if (is_short()) return;
  check_near("Philox, doubles", DOUBLES PHILOX("double") ONES FOURS "}\n", 0x1p-53);
  check_near("XORWOW, floats", FLOATS XORWOW("double") ONES "}\n", 0x1p-24);
  check_near("XORWOW, doubles", DOUBLES XORWOW("double") ONES "}\n", 0x1p-53);
  check_near("MRG32k3a, floats", FLOATS MRG("double") ONES "}\n", 0x1p-24);
  check_near("MRG32k3a, doubles", DOUBLES MRG("double") ONES "}\n", 0x1p-53);
}

int main(void) {
  if (on_gpu()) return puts("1..0 # SKIP only on libcusim"), 0;
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_known), cmocka_unit_test(test_integers),
                                     cmocka_unit_test(test_sobol), cmocka_unit_test(test_absent),
                                     cmocka_unit_test(test_normals)};
  return cmocka_run_group_tests_name("test_curand", tests, NULL, NULL);
}
