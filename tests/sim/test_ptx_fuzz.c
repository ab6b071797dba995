// test_ptx_fuzz.c: PTX texts and fat binaries damaged at random: each is taken or refused with a
// word, and nothing is read beside it: it ends where a page begins that cannot be read. Parsed and
// translated only: no host compiler, no files.
//
// NNGEN_FUZZ_PTX=1000000: so many texts, and a tenth as many fat binaries; NNGEN_FUZZ_FIRST=N:
// other ones. The input of a crash is left in build/ptx_fuzz_input.
#include "tests/sim/device.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>

#include "tests/sim/ptx_lines.h"

typedef CUresult (*Translate)(const char *, char *, size_t, size_t *);

enum { kRoom = 1 << 17, kPacked = 1 << 15 };

static uint64_t seed;
static uint64_t next_random(void) {
  seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
  return seed * 0x2545f4914f6cdd1dull >> 16;
}
static size_t below(size_t n) {
  return n ? next_random() % n : 0;
}

// ---- what is damaged ----------------------------------------------------------------------------

static const char head[] =
    ".version 8.6\n.target sm_90a\n.address_size 64\n.file 1 \"model.cu\"\n"
    ".const .align 4 .u32 table[4] = {10, 20, 30, 40};\n"
    ".global .align 8 .u64 where[2] = {generic(value)+4, 0x7f};\n"
    ".global .align 4 .f32 value = 0f3F800000;\n"
    ".weak .global .u32 pairs[2][2] = {{1, 2}, {3, 4}};\n"
    ".extern .shared .align 16 .b8 dynamic[];\n"
    ".func (.param .b32 r) twice(.param .b32 x)\n{\n.reg .b32 %r<3>;\nld.param.b32 %r1, [x];\n"
    "add.s32 %r2, %r1, %r1;\nst.param.b32 [r], %r2;\nret;\n}\n"
    ".func last(.param .b32 n)\n{\nret;\n}\n.func gone(.param .b32 n);\n.alias gone, last;\n"
    ".visible .entry k(.param .u64 .ptr .global .align 4 out, .param .align 8 .b8 pair[8])\n"
    ".maxntid 128, 1, 1\n.minnctapersm 2\n{\n"
    ".reg .pred %p<9>;\n.reg .b16 %h<9>;\n.reg .b32 %r<40>;\n.reg .b64 %d<20>;\n.reg .f32 %f<40>;\n"
    ".reg .f64 %e<9>;\n.shared .align 1024 .b8 s[2048];\n.shared .align 8 .b64 bar;\n"
    ".local .align 8 .b8 depot[16];\nmov.u32 %r1, %tid.x;\nld.param.u64 %d1, [out];\n"
    "mov.u64 %d2, table;\n";
static const char tail[] = "END:\nret;\n}\n";

static size_t add(char *text, size_t length, const char *line) {
  size_t n = strlen(line);
  memcpy(text + length, line, n + 1);
  return length + n;
}

// A kernel with lines of ptx_lines.h: one, or some that the seed chooses.
static size_t make_text(char *text, const char *line) {
  size_t length = add(text, 0, head);
  if (line)
    length = add(text, add(text, length, line), "\n");
  else
    for (size_t i = below(6) + 1; i > 0; i--)
      length = add(text, add(text, length, ptx_lines[below(kPtxLines)]), "\n");
  return add(text, length, tail);
}

// ---- damage -------------------------------------------------------------------------------------

static size_t line_at(const char *text, size_t at) { // where it begins
  while (at > 0 && text[at - 1] != '\n') at--;
  return at;
}
static size_t line_end(const char *text, size_t length, size_t at) { // behind its end
  while (at < length && text[at] != '\n') at++;
  return at < length ? at + 1 : length;
}

// `bytes` put in the place of those from `begin` to `end`.
static size_t replace(char *text, size_t length, size_t begin, size_t end, const char *bytes,
                      size_t n) {
  if (length - (end - begin) + n >= kRoom) return length;
  memmove(text + begin + n, text + end, length - end);
  memcpy(text + begin, bytes, n);
  return length - (end - begin) + n;
}

static size_t swap_lines(char *text, size_t length) {
  char both[4096];
  size_t a = line_at(text, below(length)), a_end = line_end(text, length, a);
  size_t b_end = line_end(text, length, a_end), n = b_end - a_end, m = a_end - a;
  if (n + m > sizeof both) return length;
  memcpy(both, text + a_end, n);
  memcpy(both + n, text + a, m);
  return replace(text, length, a, b_end, both, n + m);
}

// A line, or a piece of one, up to some thousand times.
static size_t repeat(char *text, size_t length) {
  char piece[4096];
  bool whole = below(2);
  size_t from = whole ? line_at(text, below(length)) : below(length);
  size_t end = whole ? line_end(text, length, from) : from + below(5) + 1;
  if (end > length || end - from > sizeof piece) return length;
  size_t n = end - from, to = below(3) ? end : line_at(text, below(length));
  memcpy(piece, text + from, n);
  for (size_t times = (size_t)1 << below(13); times > 0; times--)
    length = replace(text, length, to, to, piece, n);
  return length;
}

static size_t other_number(char *text, size_t length) {
  static const char *const numbers[] = {
      "0", "-1", "1", "3", "255", "65536", "2147483647", "2147483648", "4294967296",
      "9223372036854775807", "18446744073709551615", "99999999999999999999999", "0x", "0f7f800000",
      "1e400", "0d7ff0000000000001", "99.9", "017777777777777777777777"};
  size_t begin = below(length);
  while (begin < length && (text[begin] < '0' || text[begin] > '9')) begin++;
  size_t end = begin;
  while (end < length && text[end] >= '0' && text[end] <= '9') end++;
  const char *number = numbers[below(sizeof numbers / sizeof *numbers)];
  return replace(text, length, begin, end, number, strlen(number));
}

static size_t other_word(char *text, size_t length) { // of a line that is known
  static const char ends[] = " ,;.[]{}()\n";
  const char *line = ptx_lines[below(kPtxLines)];
  const char *from = line + below(strlen(line));
  size_t begin = below(length), end = begin, n = strcspn(from, ends);
  while (end < length && !strchr(ends, text[end])) end++;
  return replace(text, length, begin, end, from, n);
}

static size_t damage(char *text, size_t length) {
  static const char signs[] = ".;,{}[]()%@!|+-:0\"/*<>=_";
  size_t at = below(length), from = below(length), n = below(40);
  char piece[40];
  switch (below(10)) {
  case 0: return at;
  case 1: return text[at] = (char)(below(255) + 1), length;
  case 2: return text[at] = signs[below(sizeof signs - 1)], length;
  case 3:
    n = n < length - from ? n : length - from;
    memcpy(piece, text + from, n);
    return replace(text, length, at, at, piece, n);
  case 4: return replace(text, length, at, at + n < length ? at + n : length, "", 0);
  case 5: return swap_lines(text, length);
  case 6: return repeat(text, length);
  case 7: return other_number(text, length);
  case 8: return other_word(text, length);
  default: return replace(text, length, line_at(text, at), line_end(text, length, at), "", 0);
  }
}

// ---- running ------------------------------------------------------------------------------------

static Translate translate;
static char *guarded; // kRoom bytes, behind which nothing can be read
static const char *input;
static size_t input_bytes;

static void keep_input(int signal_number) {
  int fd = creat("build/ptx_fuzz_input", 0666);
  if (fd < 0 || write(fd, input, input_bytes) < 0) _exit(98);
  signal(signal_number, SIG_DFL);
  raise(signal_number);
}

static int open_all(void **state) {
  (void)state;
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  *(void **)&translate = dlsym(sim_open(), "cusimTranslatePtx");
  char *at = mmap(NULL, kRoom + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (!translate || at == MAP_FAILED || mprotect(at + kRoom, page, PROT_NONE) != 0) return -1;
  guarded = at;
  return 0;
}

// In place of cmocka's, also where the stack has overflowed.
static void catch_signals(void) {
  static char stack[1 << 16];
  sigaltstack(&(stack_t){.ss_sp = stack, .ss_size = sizeof stack}, NULL);
  for (int i = 0; i < 4; i++)
    sigaction((int[]){SIGSEGV, SIGBUS, SIGABRT, SIGFPE}[i],
              &(struct sigaction){.sa_handler = keep_input, .sa_flags = SA_ONSTACK}, NULL);
}

static CUresult give(const char *bytes, size_t n, char log[256]) {
  size_t c_bytes;
  input = guarded + kRoom - n, input_bytes = n;
  memcpy(guarded + kRoom - n, bytes, n);
  return translate(input, log, 256, &c_bytes);
}

static long asked_count(void) {
  const char *asked = getenv("NNGEN_FUZZ_PTX"), *first = getenv("NNGEN_FUZZ_FIRST");
  seed = 88172645463325252ull + (first ? strtoull(first, NULL, 10) : 0) * 0x9e3779b97f4a7c15ull;
  return asked ? atol(asked) : getenv("NNGEN_TEST_LONG") ? 20000 : 8000;
}

// Every line is right as it stands: else what is behind the parser would not be reached.
static void test_lines(void **state) {
  (void)state;
  static char text[kRoom];
  char log[256];
  int wrong = 0;
  for (size_t i = 0; i < kPtxLines; i++) {
    size_t length = make_text(text, ptx_lines[i]);
    if (give(text, length + 1, log) != CUDA_SUCCESS)
      printf("# %s\n# %s", ptx_lines[i], log), wrong++;
  }
  assert_int_equal(wrong, 0);
}

static void test_texts(void **state) {
  (void)state;
  static char text[kRoom];
  char log[256];
  long count = asked_count(), right = 0;
  catch_signals();
  for (long i = 0; i < count; i++) {
    size_t length = make_text(text, NULL);
    for (size_t k = below(4) + 1; k > 0 && length > 1; k--) length = damage(text, length);
    length = strnlen(text, length);
    text[length] = 0;
    CUresult r = give(text, length + 1, log);
    right += r == CUDA_SUCCESS;
    if (r != CUDA_SUCCESS && !strstr(log, "error: "))
      fail_msg("%d without a word about\n%s", r, text);
  }
  printf("# %ld damaged texts, %ld still right\n", count, right);
  assert_in_range(right, 1, count - 1); // some damage is to names or comments
}

// ---- fat binaries -------------------------------------------------------------------------------

typedef struct Packing {
  const char *name, *library, *symbol;
  uint64_t flag;
} Packing;
static const Packing packings[] = {{"plain", NULL, NULL, 0},
                                   {"LZ4", "liblz4.so.1", "LZ4_compress_default", 0x2000},
                                   {"Zstandard", "libzstd.so.1", "ZSTD_compress", 0x8000}};
enum { kPackings = sizeof packings / sizeof *packings };

// 0: the library is not installed.
static size_t pack(const Packing *p, const char *from, size_t n, char *to) {
  if (!p->library) return memcpy(to, from, n), n;
  void *library = dlopen(p->library, RTLD_NOW);
  void *f = library ? dlsym(library, p->symbol) : NULL;
  int (*lz4)(const char *, char *, int, int);
  size_t (*zstd)(void *, size_t, const void *, size_t, int);
  memcpy(&lz4, &f, sizeof f), memcpy(&zstd, &f, sizeof f);
  if (!f) return 0;
  return p->flag == 0x8000 ? zstd(to, kPacked, from, n, 3) : (size_t)lz4(from, to, (int)n, kPacked);
}

// A header of 16 bytes, then machine code that is none, then the PTX.
static size_t make_fatbin(const Packing *p, char *to) {
  static char text[kRoom];
  size_t plain = make_text(text, NULL) + 1, n = pack(p, text, plain, to + 16 + 72 + 64);
  if (!n) return 0;
  uint64_t padded = (n + 7) & ~7ull, total = 72 + 64 + padded;
  uint32_t words[4] = {0xba55ed50u, 16 << 16 | 1, (uint32_t)total, 0};
  uint32_t code[16] = {2 | 0x101 << 16, 64, 8, 0, 0, 0, 0, 90}, ptx[16] = {1 | 0x101 << 16, 64};
  memcpy(&ptx[2], &padded, 8);
  ptx[4] = p->flag ? (uint32_t)n : 0, ptx[7] = 90;
  memcpy(&ptx[10], &p->flag, 8);
  ptx[14] = p->flag ? (uint32_t)plain : 0;
  memcpy(to, words, 16);
  memcpy(to + 16, code, 64);
  memset(to + 80, 0x5a, 8);
  memcpy(to + 88, ptx, 64);
  memset(to + 152 + n, 0, padded - n);
  return 16 + total;
}

// Bytes and words changed, mostly in the headers, and the end cut off.
static size_t damage_fatbin(char *bytes, size_t n) {
  static const uint64_t values[] = {0, 1, 63, 64, 65, 1 << 20, 1ull << 31, ~0u, 1ull << 32, ~0ull};
  for (size_t k = below(3) + 1; k > 0; k--) {
    size_t at = 4 + below(below(4) ? 148 : n - 4);
    uint64_t value = values[below(sizeof values / sizeof *values)];
    switch (below(4)) {
    case 0: bytes[at] = (char)next_random(); break;
    case 1: bytes[at] ^= (char)(1 << below(8)); break;
    case 2:
      at &= ~(size_t)3;
      memcpy(bytes + at, &value, n - at < 8 ? n - at : below(2) ? 8 : 4);
      break;
    default: n = below(2) ? n : 4 + below(n - 4);
    }
    if (n < 160) return n;
  }
  return n;
}

static void test_fatbins(void **state) {
  (void)state;
  static char bytes[kRoom];
  char log[256];
  long count = asked_count() / 10, right = 0;
  catch_signals();
  for (int i = 0; i < kPackings; i++) {
    size_t n = make_fatbin(&packings[i], bytes);
    if (!n) printf("# not damaged: %s is not installed\n", packings[i].library);
    else if (give(bytes, n, log) != CUDA_SUCCESS) fail_msg("%s: %s", packings[i].name, log);
  }
  for (long i = 0; i < count; i++) {
    const Packing *p = &packings[below(kPackings)];
    size_t n = make_fatbin(p, bytes);
    if (!n) continue;
    n = damage_fatbin(bytes, n);
    CUresult r = give(bytes, n, log);
    right += r == CUDA_SUCCESS;
    if (r != CUDA_SUCCESS && !*log) fail_msg("%s: %d without a word", p->name, r);
  }
  printf("# %ld damaged fat binaries, %ld still right\n", count, right);
  assert_in_range(right, 1, count - 1);
}

int main(void) {
  if (on_gpu()) return puts("1..0 # SKIP only on libcusim"), 0;
  setenv("NNGEN_SIM_DEVICE", "sm_90a", 1);
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_lines), cmocka_unit_test(test_texts),
                                     cmocka_unit_test(test_fatbins)};
  return cmocka_run_group_tests_name("test_ptx_fuzz", tests, open_all, NULL);
}
