// test_prefix.c: what programs begin with is kept, preprocessed, in NNGEN_SIM_PRECOMPILED. The rest
// then means what the preprocessor would make of it; another header, macro or file is another
// beginning. Only on libcusim, where GCC compiles.
#include "tests/sim/device.h"

#include <dirent.h>
#include <sys/stat.h>

static char folder[64], file[512];

typedef struct Program {
  const char *header, *source; // lib/first.h, which the source may include
  const char *option, *disk;   // a further option; a file second.h in the working folder; or null
  int want[8];                 // what the kernel leaves in x[0], x[1]..
} Program;

#define KERNEL(body) "extern \"C\" __global__ void k(int *x) {\n" body "}\n"
#define INCLUDE "// a comment\n\n#line 7 \"other.cu\"\n#include \"lib/first.h\"\n"

static const char macros[] =
    "enum { AGAIN = 2 };\n#define SEVEN 7\n#define NAMED SEVEN\n#define EMPTY\n"
    "#define TWICE(x) ((x) + (x))\n#define SUM(a, b) ((a) + (b))\n#define NONE() 5\n"
    "#define CALL(f, x) f(x)\n"
    "#define TEXT(x) #x\n#define JOIN(a, b) a##b\n#define ANY(...) SUM(__VA_ARGS__)\n"
    "#define NEGATIVE -1\n#define AGAIN (1 + AGAIN)\n#define OPEN TWICE\n#define PLACE __LINE__\n";

// Plain uses; those that only the preprocessor can read; numbers of lines.
static const Program programs[] = {
    {macros,
     INCLUDE KERNEL("x[0] = SEVEN; x[1] = NAMED; x[2] = TWICE(NAMED);\n"
                    "x[3] = SUM(SUM(1, 2), (3, 4));\n"
                    "x[4] = NONE() EMPTY; x[5] = CALL(TWICE, 4); x[6] = -NEGATIVE; /* SEVEN\n"
                    "#if */ x[7] = SUM(1, 2);\n"),
     NULL, NULL, {7, 7, 14, 7, 5, 8, 1, 3}},
    {macros,
     INCLUDE KERNEL("const char *s = \"SEVEN // \\\" TWICE(\"; int TWICE = 4; x[0] = s[0];\n"
                    "x[1] = 'S' == s[0]; x[2] = AGAIN; x[3] = SUM(TWICE, // )\n 0);\n"
                    "x[4] = OPEN(2);\n"
                    "x[5] = SUM(\n1,\n\n2); x[6] = sizeof(TEXT(SEVEN)); x[7] = JOIN(1, 2);\n"),
     NULL, NULL, {'S', 1, 3, 4, 4, 3, 6, 12}},
    {"#define SUM(a, b) ((a) + (b))\n",
     INCLUDE KERNEL("const char *s = \"SEVEN // \\\" SUM(\"; int SUM = 4; x[0] = s[0];\n"
                    "x[1] = SUM;\n"
                    "#pragma unroll\n  for (int i = 2; i < 8; i++)\n  #pragma unroll 4\n"
                    "x[i] = SUM(\n i,\n\n 2 );\n"),
     NULL, NULL, {'S', 4, 4, 5, 6, 7, 8, 9}},
    {"", INCLUDE KERNEL("x[0] = __LINE__; x[1] = 0;\n x[2] = 1'000; x[3] = 0x1'0;\n"
                        "x[4] = sizeof 'a'; x[5] = sizeof(u8R\"(\")\")\n; x[6] = __LINE__;\n"
                        "x[7] = 2;\n"),
     NULL, NULL, {9, 0, 1000, 16, 1, 2, 12, 2}},
    {"#define ONE 1\n",
     INCLUDE "#define TWO (ONE + \\\n ONE)\n"
             KERNEL("x[0] = TWO;\n#if ONE == 1\n x[1] = 1;\n#else\n x[1] = 2;\n#endif\n"),
     NULL, NULL, {2, 1}},
    {"", KERNEL("x[0] = blockDim.x; x[1] = threadIdx.x;\n"), NULL, NULL, {1, 0}},
    // The same first lines, and another header, macro, or file on disk.
    {"#define N 1\n", INCLUDE KERNEL("x[0] = N;\n"), NULL, NULL, {1}},
    {"#define N 2\n", INCLUDE KERNEL("x[0] = N;\n"), NULL, NULL, {2}},
    {"#define N M\n", INCLUDE KERNEL("x[0] = N;\n"), "-DM=3", NULL, {3}},
    {"#define N M\n", INCLUDE KERNEL("x[0] = N;\n"), "-DM=4", NULL, {4}},
    {"#include \"second.h\"\n", INCLUDE KERNEL("x[0] = N;\n"), NULL, "#define N 5\n", {5}},
    {"#include \"second.h\"\n", INCLUDE KERNEL("x[0] = N;\n"), NULL, "#define N 6\n", {6}},
    {"#include \"second.h\"\n", INCLUDE KERNEL("x[0] = N;\n"), NULL, NULL, {7}}, // in memory
    {"#include \"second.h\"\n", INCLUDE KERNEL("x[0] = N;\n"), NULL, "#define N 8\n", {8}},
    // Barriers of a header and of the program, in one line, are not one.
    {"__device__ inline void meet() { __syncthreads(); }\n",
     INCLUDE KERNEL("meet(); __syncthreads(); meet(); x[0] = 1; x[1] = 2;\n"), NULL, NULL, {1, 2}},
};

static void set(const void *user) {
  (void)user;
  setenv("NNGEN_SIM_PRECOMPILED", folder, 1);
}

static void write_text(const char *path, const char *text) {
  FILE *f = fopen(path, "wb");
  assert_non_null(f);
  fputs(text, f);
  fclose(f);
}

static char *image_of(const Program *p) {
  const char *headers[] = {p->header, "#define N 7\n"}, *names[] = {"lib/first.h", "second.h"};
  const char *options[] = {device_arch(), p->option};
  nvrtcProgram program;
  size_t bytes;
  OK((CUresult)nvrtcCreateProgram(&program, p->source, NULL, 2, headers, names));
  if (nvrtcCompileProgram(program, p->option ? 2 : 1, options) != NVRTC_SUCCESS) {
    char log[4096] = "";
    nvrtcGetProgramLogSize(program, &bytes);
    if (bytes < sizeof log) nvrtcGetProgramLog(program, log);
    fail_msg("%s\n%s", log, p->source);
  }
  OK((CUresult)nvrtcGetCUBINSize(program, &bytes));
  char *image = malloc(bytes);
  OK((CUresult)nvrtcGetCUBIN(program, image));
  OK((CUresult)nvrtcDestroyProgram(&program));
  return image;
}

// In the folder, as the working one: there is no other file in it that an include could mean.
static void run(const void *user) {
  const Program *p = user;
  CUmodule module;
  CUfunction f;
  int x[8] = {0};
  CUdeviceptr ptr = device_upload(x, sizeof x);
  assert_int_equal(chdir(folder), 0);
  if (p->disk) write_text("second.h", p->disk);
  char *image = image_of(p);
  if (p->disk) unlink("second.h");
  OK(cuModuleLoadData(&module, image));
  free(image);
  OK(cuModuleGetFunction(&f, module, "k"));
  OK(device_run(f, 1, 1, 0, (void *[]){&ptr}));
  OK(cuMemcpyDtoH(x, ptr, sizeof x));
  for (int i = 0; i < 8; i++)
    if (x[i] != p->want[i]) fail_msg("x[%d] = %d, want %d\n%s", i, x[i], p->want[i], p->source);
}

// How many there are with this ending; `file`: the last.
static int count_files(const char *ending) {
  int count = 0;
  DIR *entries = opendir(folder);
  assert_non_null(entries);
  for (struct dirent *e; (e = readdir(entries));) {
    const char *dot = strrchr(e->d_name, '.');
    if (!dot || strcmp(dot, ending) != 0) continue;
    snprintf(file, sizeof file, "%s/%s", folder, e->d_name);
    count++;
  }
  closedir(entries);
  return count;
}

static void test_meaning(void **state) {
  (void)state;
  for (int turn = 0; turn < 3; turn++) // what is kept is made in the second
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++)
      device_child(set, run, &programs[i]);
}

// Again from what is kept; and where that is damaged.
static void test_kept(void **state) {
  struct stat first, second;
  (void)state;
  for (; count_files(".prefix"); unlink(file)) {
  }
  device_child(set, run, &programs[0]);
  assert_int_equal(count_files(".prefix"), 1);
  assert_int_equal(stat(file, &first), 0);
  assert_int_equal(first.st_size, 0); // until there is a second one
  device_child(set, run, &programs[0]);
  assert_int_equal(stat(file, &first), 0);
  device_child(set, run, &programs[0]);
  assert_int_equal(stat(file, &second), 0);
  assert_true(first.st_ino == second.st_ino && first.st_size == second.st_size);
  write_text(file, "libcusim prefix 1: 0 9 9 0\nsomething");
  device_child(set, run, &programs[0]);
  assert_int_equal(stat(file, &second), 0);
  assert_int_equal(first.st_size, second.st_size);
}

static int finish(void **state) {
  (void)state;
  const char *endings[] = {".prefix", ".gch"};
  for (int i = 0; i < 2; i++)
    for (; count_files(endings[i]); unlink(file)) {
    }
  return rmdir(folder);
}

int main(void) {
  if (on_gpu() || through_nvrtc()) return printf("1..0 # SKIP only with the front end cxx\n"), 0;
  const char *cxx = getenv("NNGEN_CXX");
  if (cxx && strstr(cxx, "clang")) return printf("1..0 # SKIP only with GCC\n"), 0;
  snprintf(folder, sizeof folder, "build/prefix-%d", (int)getpid());
  mkdir(folder, 0777);
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_meaning), cmocka_unit_test(test_kept)};
  return cmocka_run_group_tests(tests, NULL, finish);
}
