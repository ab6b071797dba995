// test_ptx.c: PTX text as a module: kernels that run, faults that name their line. What is refused:
// test_ptx_refused.c.
#include <math.h>
#include <sys/resource.h>

#include "tests/sim/device.h"

#define HEAD ".version 8.6\n.target sm_90\n.address_size 64\n"

static CUfunction load(const char *text, const char *name) {
  CUmodule module;
  CUfunction f;
  OK(cuModuleLoadData(&module, text));
  OK(cuModuleGetFunction(&f, module, name));
  return f;
}

// ---- kernels that run ---------------------------------------------------------------------------

// Each thread: through a function, a table in constant memory, static and dynamic shared memory,
// an indirect branch, a local array, and a neighbour's value behind a barrier.
static const char whole[] = HEAD
    ".const .align 4 .u32 table[4] = {10, 20, 30, 40};\n"
    ".global .align 8 .u64 where = generic(value);\n"
    ".global .align 4 .u32 value = 7;\n"
    ".extern .shared .align 16 .b8 dynamic[];\n"
    ".func (.param .b32 r) twice(.param .b32 x)\n{\n .reg .b32 %r<3>;\n"
    " ld.param.b32 %r1, [x];\n add.s32 %r2, %r1, %r1;\n st.param.b32 [r], %r2;\n ret;\n}\n"
    ".entry k(.param .u64 .ptr .global .align 4 out, .param .align 8 .b8 pair[8])\n"
    ".maxntid 64, 1, 1\n{\n"
    " .reg .pred %p<3>;\n .reg.b32 %r<40>;\n .reg .b64 %rd<20>;\n"
    " .shared .align 4 .b8 fixed[256];\n .local .align 8 .b8 depot[16];\n"
    " mov.u32 %r1, %tid.x;\n and.b32 %r2, %r1, 3;\n"
    " mov.u64 %rd1, table;\n mul.wide.u32 %rd2, %r2, 4;\n add.s64 %rd3, %rd1, %rd2;\n"
    " ld.const.u32 %r3, [%rd3];\n"
    " {\n .param .b32 p0;\n st.param.b32 [p0+0], %r3;\n .param .b32 r0;\n"
    " call.uni (r0), twice, (p0);\n ld.param.b32 %r4, [r0+0];\n }\n"
    " shl.b32 %r5, %r1, 2;\n mov.u32 %r6, fixed;\n add.u32 %r7, %r6, %r5;\n"
    " st.shared.u32 [%r7], %r4;\n bar.sync 0;\n"
    " xor.b32 %r8, %r5, 4;\n add.u32 %r9, %r6, %r8;\n ld.shared.u32 %r10, [%r9];\n"
    " mov.u32 %r11, dynamic;\n add.u32 %r12, %r11, %r5;\n st.shared.u32 [%r12], %r10;\n"
    " cvt.u64.u32 %rd4, %r12;\n cvta.shared.u64 %rd5, %rd4;\n ld.u32 %r13, [%rd5];\n"
    " ld.global.u64 %rd6, [where];\n ld.u32 %r14, [%rd6];\n add.u32 %r13, %r13, %r14;\n"
    " mov.u64 %rd7, depot;\n st.local.v2.u32 [%rd7], {%r13, %r1};\n ld.local.u32 %r15, [%rd7+4];\n"
    " ld.local.u32 { %r16 }, [%rd7];\n"
    "targets: .branchtargets even, odd;\n and.b32 %r17, %r15, 1;\n brx.idx %r17, targets;\n"
    "even: add.u32 %r16, %r16, 1000;\n bra.uni done;\nodd: add.u32 %r16, %r16, 2000;\n"
    "done: setp.eq.u32 %p1|%p2, %r1, 5;\n"
    " ld.param.u32 %r18, [pair+4];\n @%p1 add.u32 %r16, %r16, %r18;\n"
    " @!%p1 add.u32 %r16, %r16, 1;\n"
    " {\n .reg .b32 t;\n mov.b32 t, %r16;\n mov.b32 %r19, t;\n }\n"
    " ld.param.u64 %rd8, [out];\n mul.wide.u32 %rd9, %r1, 4;\n add.s64 %rd10, %rd8, %rd9;\n"
    " st.global.u32 [%rd10], {%r19};\n ret;\n}\n";

static void test_whole(void **state) {
  (void)state;
  enum { kThreads = 64 };
  unsigned out[kThreads], pair[2] = {3, 50000};
  CUdeviceptr ptr = device_upload(NULL, sizeof out);
  CUfunction f = load(whole, "k");
  int bytes = 0, threads = 0;
  OK(cuFuncGetAttribute(&bytes, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, f));
  OK(cuFuncGetAttribute(&threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, f));
  assert_int_equal(bytes, 256);
  assert_int_equal(threads, kThreads);
  OK(device_run(f, 1, kThreads, 4 * kThreads, (void *[]){&ptr, pair}));
  OK(cuMemcpyDtoH(out, ptr, sizeof out));
  for (unsigned t = 0; t < kThreads; t++) {
    unsigned want = 20 * ((t ^ 1) % 4 + 1) + 7 + (t % 2 ? 2000 : 1000) + (t == 5 ? 50000 : 1);
    assert_int_equal(out[t], want);
  }
}

// .local variables of a kernel and of what it calls, more than a stack has: each thread has room
// for them, and an attribute says how much that is.
static void test_local(void **state) {
  (void)state;
  static const char text[] =
      HEAD ".func (.param .b32 r) inner(.param .b32 x)\n{\n .reg .b32 %r<4>; .reg .b64 %d<3>;\n"
      " .local .align 4 .b8 a[300000];\n ld.param.b32 %r1, [x]; mov.u64 %d1, a;\n"
      " st.local.u32 [%d1], %r1; ld.local.u32 %r2, [%d1]; add.u32 %r2, %r2, 1;\n"
      " st.local.u32 [%d1+299996], %r2; ld.local.u32 %r3, [%d1+299996]; st.param.b32 [r], %r3;\n"
      " ret;\n}\n"
      ".entry k(.param .u64 out)\n{\n .reg .b32 %r<6>; .reg .b64 %d<5>;\n"
      " .local .align 8 .b8 b[200000];\n mov.u32 %r1, %tid.x; mov.u64 %d1, b;\n"
      " st.local.u32 [%d1], %r1; ld.local.u32 %r2, [%d1]; st.local.u32 [%d1+199996], %r2;\n"
      " bar.sync 0; { .param .b32 p; .param .b32 q; st.param.b32 [p], %r2;\n"
      " call (q), inner, (p); ld.param.b32 %r3, [q]; }\n"
      " ld.local.u32 %r4, [%d1+199996]; add.u32 %r3, %r3, %r4; ld.param.u64 %d2, [out];\n"
      " mul.wide.u32 %d3, %r1, 4; add.u64 %d3, %d3, %d2; st.global.u32 [%d3], %r3; ret;\n}\n";
  unsigned out[64];
  int bytes = 0;
  CUfunction f = load(text, "k");
  CUdeviceptr ptr = device_upload(NULL, sizeof out);
  OK(cuFuncGetAttribute(&bytes, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, f));
  assert_int_equal(bytes, 500000);
  OK(device_run(f, 1, 64, 0, (void *[]){&ptr}));
  OK(cuMemcpyDtoH(out, ptr, sizeof out));
  for (unsigned t = 0; t < 64; t++) assert_int_equal(out[t], 2 * t + 1);
}

// Seconds of processors, the compiler's among them, to load one function of so many bytes of text,
// which has not been loaded before.
static double load_time(size_t bytes) {
  static int times;
  static char text[1 << 19];
  size_t n = (size_t)sprintf(text, HEAD ".entry k%d_%d(.param .u64 a)\n{\n.reg .b64 %%d<4>;\n"
                                        ".reg .f32 %%f<200>;\n.reg .pred %%p;\n.reg .b32 %%r<4>;\n"
                                        "ld.param.u64 %%d1, [a];\nmov.u32 %%r1, %%tid.x;\n",
                            (int)getpid(), times++);
  for (int i = 0; n < bytes; i++) {
    n += (size_t)sprintf(text + n, "ld.global.f32 %%f%d, [%%d1+%d];\n"
                                   "fma.rn.f32 %%f%d, %%f%d, %%f%d, %%f%d;\n",
                         i % 190 + 1, i % 1000 * 4, (i + 1) % 190 + 1, i % 190 + 1,
                         (i + 7) % 190 + 1, (i + 3) % 190 + 1);
    if (i % 20 == 0)
      n += (size_t)sprintf(text + n, "setp.gt.u32 %%p, %%r1, %d; @%%p bra L%d;\n"
                                     "st.global.f32 [%%d1+%d], %%f%d; L%d:\n",
                           i % 100, i, i % 1000 * 4, i % 190 + 1, i);
  }
  strcpy(text + n, "ret;\n}\n");
  CUmodule module;
  struct rusage before, now;
  getrusage(RUSAGE_CHILDREN, &before);
  OK(cuModuleLoadData(&module, text));
  getrusage(RUSAGE_CHILDREN, &now);
  OK(cuModuleUnload(module));
  return (double)(now.ru_utime.tv_sec - before.ru_utime.tv_sec) +
         1e-6 * (double)(now.ru_utime.tv_usec - before.ru_utime.tv_usec);
}

// Three times the text takes three times the time, not nine times: less than 5.4, by the least of
// some tries, for who shares processors and their caches makes a load up to 1.8 times as long.
static void test_long(void **state) {
  (void)state;
  double third = INFINITY, whole_text = INFINITY;
  for (int turn = 0; turn == 0 || (turn < 3 && whole_text >= 5.4 * third); turn++) {
    third = fmin(third, load_time(100000));
    whole_text = fmin(whole_text, load_time(300000));
  }
  printf("# 0.1 MB load in %.2f s, 0.3 MB in %.2f s\n", third, whole_text);
  assert_true(whole_text < 5.4 * third);
}

static void test_globals(void **state) {
  (void)state;
  CUmodule module;
  CUdeviceptr ptr;
  size_t bytes;
  unsigned value = 0;
  OK(cuModuleLoadData(&module, whole));
  OK(cuModuleGetGlobal(&ptr, &bytes, module, "value"));
  assert_int_equal(bytes, 4);
  OK(cuMemcpyDtoH(&value, ptr, 4));
  assert_int_equal(value, 7);
  OK(cuModuleGetGlobal(&ptr, &bytes, module, "table"));
  assert_int_equal(bytes, 16);
  OK(cuModuleUnload(module));
}

// ---- faults -------------------------------------------------------------------------------------

// A thread's address is out + 4 * tid + offset; what it does there follows.
#define AT(offset, what)                                                                           \
  HEAD ".file 1 \"model.cu\"\n.entry k(.param .u64 out)\n{\n.reg .b32 %r<9>;\n.reg .b64 %rd<9>;\n" \
       ".reg .pred %p<4>;\n.shared .align 16 .b8 s[1024];\n"                                       \
       "mov.u32 %r1, %tid.x;\nld.param.u64 %rd1, [out];\nmul.wide.u32 %rd2, %r1, 4;\n"             \
       "add.s64 %rd3, %rd1, %rd2;\nadd.s64 %rd4, %rd3, " offset ";\nshl.b32 %r2, %r1, 2;\n"        \
       "mov.u32 %r3, s;\nadd.u32 %r4, %r3, %r2;\nxor.b32 %r5, %r4, 4;\nmov.u32 %r6, 1;\n" what     \
       "\nret;\n}\n"

typedef struct Fault {
  const char *name, *text, *checks;
  CUresult error;
  const char *report; // null: none, it runs
} Fault;

#define SWAP(wait)                                                                                 \
  "st.shared.u32 [%r4], %r1;\n" wait "\nld.shared.u32 %r6, [%r5];\nst.global.u32 [%rd3], %r6;"
#define ASYNC(wait)                                                                                \
  "st.global.u32 [%rd3], %r1;\n.shared .align 16 .b8 c[256];\nmov.u32 %r7, c;\n"                   \
  "add.u32 %r7, %r7, %r2;\n"                                                                       \
  "cp.async.ca.shared.global [%r7], [%rd3], 4;\n" wait "\nld.shared.u32 %r8, [%r7];\n"             \
  "setp.ne.u32 %p1, %r8, %r1;\n@%p1 trap;"
#define BAR(init)                                                                                  \
  ".shared .align 8 .b64 bar;\nsetp.eq.u32 %p1, %r1, 0;\n" init "\nbar.sync 0;\n.reg .b64 %x;\n"   \
  "mbarrier.arrive.shared.b64 %x, [bar];\nw: mbarrier.try_wait.parity.shared.b64 %p2, [bar], 0;\n" \
  "@!%p2 bra w;"
#define BULK(expected, bytes, distance)                                                            \
  "st.global.u32 [%rd3], %r1;\n.shared .align 8 .b64 bar;\nsetp.eq.u32 %p1, %r1, 0;\n"             \
  "@%p1 mbarrier.init.shared.b64 [bar], 1;\nfence.mbarrier_init.release.cluster;\nbar.sync 0;\n"   \
  "@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [bar], " expected ";\n"                            \
  "@%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "                        \
  "[s+" distance "], [%rd1], " bytes ", [bar];\n"                                                  \
  "w: mbarrier.try_wait.parity.shared.b64 %p2, [bar], 0;\n@!%p2 bra w;\n"                          \
  "ld.shared.u32 %r8, [%r4];\nsetp.ne.u32 %p3, %r8, %r1;\n@%p3 trap;"
#define STORE(fence)                                                                               \
  "st.shared.u32 [%r4], %r1;\n" fence "\nbar.sync 0;\nsetp.eq.u32 %p1, %r1, 0;\n"                  \
  "@%p1 cp.async.bulk.global.shared::cta.bulk_group [%rd1], [s], 256;\n"                           \
  "@%p1 cp.async.bulk.commit_group;\n@%p1 cp.async.bulk.wait_group 0;"
// By each thread, of one of two places: the same one, or every other thread the second.
#define STORES(mask)                                                                               \
  "st.shared.u32 [%r4], %r1;\nst.shared.u32 [%r4+256], %r6;\nfence.proxy.async.shared::cta;\n"     \
  "bar.sync 0;\nand.b32 %r7, %r1, " mask ";\nshl.b32 %r7, %r7, 8;\nadd.u32 %r7, %r7, %r3;\n"       \
  "cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r7], 256;\n"                              \
  "cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;"
// Each thread takes 16 bytes, writes four at a distance, gives them back, and something more.
#define HEAP(distance, more)                                                                       \
  HEAD ".extern .func (.param .b64 p) malloc(.param .b64 n);\n"                                    \
       ".extern .func free(.param .b64 p);\n.entry k(.param .u64 out)\n{\n.reg .b32 %r<9>;\n"     \
       ".reg .b64 %rd<9>;\n.param .b64 n;\n.param .b64 f;\nst.param.b64 [n], 16;\n"               \
       "call.uni (f), malloc, (n);\nld.param.b64 %rd1, [f];\nmov.u32 %r1, 5;\n"                   \
       "st.u32 [%rd1+" distance "], %r1;\nld.u32 %r2, [%rd1+" distance "];\n"                      \
       "call.uni free, (f);\n" more "ret;\n}\n"

#define LOCAL(at)                                                                                  \
  "{ .local .align 8 .b8 v[64]; .reg .b64 p;\nmov.u64 p, v;\nadd.u64 p, p, " at ";\n"              \
  "st.local.u32 [p], %r6;\nld.local.u32 %r6, [p]; }"

static const Fault faults[] = {
    {"past the end", AT("0", ".loc 1 77 0\nst.global.u32 [%rd4+256], %r6;"), "all",
     CUDA_ERROR_ILLEGAL_ADDRESS, "model.cu:77"},
    {"inside", AT("0", "st.global.u32 [%rd4], %r6;"), "all", CUDA_SUCCESS, NULL},
    {"before the beginning", AT("-8", "st.global.u32 [%rd4], %r6;"), "address",
     CUDA_ERROR_ILLEGAL_ADDRESS, "before allocation"},
    {"misaligned", AT("2", ".loc 1 78 0\nst.global.u32 [%rd4], %r6;"), "basic",
     CUDA_ERROR_MISALIGNED_ADDRESS, "model.cu:78"},
    {"misaligned vector", AT("0", "st.global.v2.u32 [%rd4], {%r6, %r6};"), "basic",
     CUDA_ERROR_MISALIGNED_ADDRESS, "not a multiple of 8"},
    {"aligned halves", AT("2", "{ .reg .b16 h; mov.u16 h, 1; st.global.u16 [%rd3+2], h; }"), "all",
     CUDA_SUCCESS, NULL},
    {"unwritten", AT("0", "ld.global.u32 %r6, [%rd4];\nst.global.u32 [%rd4], %r6;"), "all",
     CUDA_ERROR_LAUNCH_FAILED, "nobody wrote"},
    {"unwritten shared", AT("0", "ld.shared.u32 %r6, [%r4];"), "all", CUDA_ERROR_LAUNCH_FAILED,
     "no thread of this block wrote"},
    {"no barrier", AT("0", SWAP("")), "all", CUDA_ERROR_LAUNCH_FAILED, NULL},
    {"barrier", AT("0", SWAP("bar.sync 0;")), "all", CUDA_SUCCESS, NULL},
    {"half a barrier", AT("0", SWAP("setp.lt.u32 %p1, %r1, 32;\n@%p1 bar.sync 0;")), "all",
     CUDA_ERROR_LAUNCH_FAILED, NULL},
    {"one word by all", AT("0", "st.global.u32 [%rd1], %r1;"), "race", CUDA_ERROR_LAUNCH_FAILED,
     "race on global memory"},
    {"one word by atomics", AT("0", "red.global.add.u32 [%rd1], %r6;"), "race", CUDA_SUCCESS, NULL},
    {"trap", AT("0", ".loc 1 79 0\ntrap;"), "basic", CUDA_ERROR_LAUNCH_FAILED, "model.cu:79"},
    {"brkpt", AT("0", ".loc 1 80 0\nbrkpt;"), "basic", CUDA_ERROR_LAUNCH_FAILED, "model.cu:80"},
    {"barrier of 16", AT("0", "mov.u32 %r6, 20;\nbarrier.sync 1, %r6;"), "basic",
     CUDA_ERROR_LAUNCH_FAILED, "not a multiple of 32"},
    {"deadlock", AT("0", "setp.lt.u32 %p1, %r1, 32;\n@%p1 bar.sync 2, 64;"), "basic",
     CUDA_ERROR_LAUNCH_FAILED, "deadlock"},
    {"shared past the end", AT("0", "st.shared.u32 [%r4+1024], %r6;"), "all",
     CUDA_ERROR_ILLEGAL_ADDRESS, "out of bounds"},
    {"cp.async without a wait", AT("0", ASYNC("")), "basic", CUDA_ERROR_LAUNCH_FAILED, "trapped"},
    {"cp.async with its wait", AT("0", ASYNC("cp.async.wait_all;")), "basic", CUDA_SUCCESS, NULL},
    {"mbarrier that is none", AT("0", BAR("")), "basic", CUDA_ERROR_LAUNCH_FAILED,
     "never initialised"},
    {"mbarrier", AT("0", BAR("@%p1 mbarrier.init.shared.b64 [bar], 64;")), "all", CUDA_SUCCESS,
     NULL},
    {"mbarrier for one more", AT("0", BAR("@%p1 mbarrier.init.shared.b64 [bar], 65;")), "basic",
     CUDA_ERROR_LAUNCH_FAILED, "never completes"},
    {"bulk copy, bytes too many", AT("0", BULK("512", "256", "0")), "basic",
     CUDA_ERROR_LAUNCH_FAILED, "deadlock"},
    {"bulk copy, bytes too few", AT("0", BULK("128", "256", "0")), "basic",
     CUDA_ERROR_LAUNCH_FAILED, "deadlock"},
    {"bulk copy", AT("0", BULK("256", "256", "0")), "basic", CUDA_SUCCESS, NULL},
    {"bulk copy, misaligned", AT("0", BULK("256", "256", "8")), "basic",
     CUDA_ERROR_MISALIGNED_ADDRESS, "not aligned to 16"},
    {"bulk store, no proxy fence", AT("0", STORE("")), "race", CUDA_ERROR_LAUNCH_FAILED,
     "without fence.proxy.async"},
    {"bulk store", AT("0", STORE("fence.proxy.async.shared::cta;")), "all", CUDA_SUCCESS, NULL},
    {"one bulk store by each thread", AT("0", STORES("0")), "all", CUDA_SUCCESS, NULL},
    {"two bulk stores into one place", AT("0", STORES("1")), "race", CUDA_ERROR_LAUNCH_FAILED,
     "race on global memory"},
    {"a tensor map of nothing",
     AT("0", "setp.eq.u32 %p1, %r1, 0;\n.shared .align 8 .b64 bar;\n"
             "@%p1 cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd1, {%r6, %r6}], [s];"),
     "basic", CUDA_ERROR_ILLEGAL_INSTRUCTION, "tensor map"},
    {"inside of a local variable", AT("0", LOCAL("60")), "all", CUDA_SUCCESS, NULL},
    {"behind a local variable", AT("0", ".loc 1 81 0\n" LOCAL("64")), "address",
     CUDA_ERROR_ILLEGAL_ADDRESS, "local variables"},
    {"behind it, and its line", AT("0", ".loc 1 81 0\n" LOCAL("64")), "address",
     CUDA_ERROR_ILLEGAL_ADDRESS, "model.cu:81"},
    {"before a local variable", AT("0", "{ .local .b32 v[16];\nld.local.u32 %r6, [v-4]; }"), "all",
     CUDA_ERROR_ILLEGAL_ADDRESS, "read of 4 bytes"},
    {"malloc and free", HEAP("0", ""), "all", CUDA_SUCCESS, NULL},
    {"behind the end of what malloc gave", HEAP("16", ""), "all", CUDA_ERROR_ILLEGAL_ADDRESS,
     "write of 4 bytes"},
    {"freed twice", HEAP("0", "call.uni free, (f);\n"), "basic", CUDA_ERROR_LAUNCH_FAILED,
     "freed before"},
    {"not in its mask", AT("0", "shfl.sync.bfly.b32 %r6, %r1, 1, 31, 0xf;"), "basic",
     CUDA_ERROR_LAUNCH_FAILED, "not in its own mask"},
};

static void set_checks(const void *user) {
  setenv("NNGEN_SIM_CHECK", ((const Fault *)user)->checks, 1);
}

static void run_with(const Fault *fault, int threads) {
  enum { kThreads = 64 };
  CUfunction f = load(fault->text, "k");
  CUdeviceptr out = device_upload(NULL, 4 * kThreads);
  assert_non_null(freopen("build/ptx_fault", "w", stderr));
  CUresult r = device_run(f, 1, threads, 0, (void *[]){&out});
  fflush(stderr);
  char *said = file_read("build/ptx_fault");
  if (r != fault->error || (fault->report && !strstr(said, fault->report)) ||
      (r == CUDA_SUCCESS && *said))
    printf("# %s: %d instead of %d: %s\n", fault->name, r, fault->error, said),
        fflush(stdout), _exit(1);
}

static void run_fault(const void *user) {
  run_with(user, 64);
}

static void run_group(const void *user) {
  run_with(user, 128);
}

// A product of a warp group whose result is stored, before or behind its wait.
static const char *accumulator(bool early) {
  static char texts[2][8192];
  char *text = texts[early], *at = text;
  static const char wait[] = "wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n";
  at += sprintf(at, ".version 8.6\n.target sm_90a\n.address_size 64\n.entry k(.param .u64 out)\n"
                    "{\n.reg .f32 %%d<9>;\n.reg .b32 %%r<9>;\n.reg .b64 %%rd<9>;\n"
                    ".reg .pred %%p<4>;\n.shared .align 1024 .b8 s[4096];\nmov.u32 %%r1, %%tid.x;\n"
                    "ld.param.u64 %%rd1, [out];\nmov.u32 %%r3, s;\nshl.b32 %%r4, %%r1, 2;\n"
                    "add.u32 %%r5, %%r3, %%r4;\nmov.u32 %%r6, 0;\n");
  for (int i = 0; i < 4096; i += 512) at += sprintf(at, "st.shared.u32 [%%r5+%d], %%r6;\n", i);
  at += sprintf(at, "fence.proxy.async.shared::cta;\nbar.sync 0;\nshr.u32 %%r7, %%r3, 4;\n"
                    "cvt.u64.u32 %%rd2, %%r7;\n"
                    "or.b64 %%rd2, %%rd2, 0x0000001000080000;\nwgmma.fence.sync.aligned;\n"
                    "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 "
                    "{%%d1, %%d2, %%d3, %%d4}, %%rd2, %%rd2, 0, 1, 1, 0, 0;\n");
  at += sprintf(at, "%smov.f32 %%d5, %%d1;\nsetp.eq.u32 %%p1, %%r1, 0;\nadd.f32 %%d6, %%d5, %%d2;\n"
                    "%s@%%p1 st.global.f32 [%%rd1], %%d6;\nret;\n}\n",
                early ? "" : wait, early ? wait : "");
  return text;
}

static void test_accumulators(void **state) {
  (void)state;
  const Fault early = {"accumulator read early", accumulator(true), "basic",
                       CUDA_ERROR_LAUNCH_FAILED, "before wgmma.wait_group"},
              late = {"accumulator", accumulator(false), "all", CUDA_SUCCESS, NULL};
  device_child(set_checks, run_group, &early);
  device_child(set_checks, run_group, &late);
}

// Sums of 32 products 127 * 127, added to 0x7ffffff0: to the end of s32, or around it.
static void run_saturated(const void *user) {
  (void)user;
  for (int saturate = 0; saturate < 3; saturate++) { // the word before, or behind the types
    char text[4096], *at = text;
    uint32_t got = 0, want = saturate ? 0x7fffffff : 0x7ffffff0u + 32 * 127 * 127;
    at += sprintf(at, ".version 8.6\n.target sm_90a\n.address_size 64\n.entry k(.param .u64 out)\n"
                      "{\n.reg .b32 %%r<12>;\n.reg .b64 %%d<4>;\n.reg .pred %%p;\n"
                      ".shared .align 1024 .b8 s[4096];\nmov.u32 %%r1, %%tid.x;\n"
                      "ld.param.u64 %%d1, [out];\nmov.u32 %%r2, s;\nshl.b32 %%r3, %%r1, 2;\n"
                      "add.u32 %%r3, %%r3, %%r2;\nmov.u32 %%r4, 0x7f7f7f7f;\n");
    for (int i = 0; i < 4096; i += 512) at += sprintf(at, "st.shared.u32 [%%r3+%d], %%r4;\n", i);
    for (int i = 5; i < 9; i++) at += sprintf(at, "mov.u32 %%r%d, 0x7ffffff0;\n", i);
    sprintf(at, "fence.proxy.async.shared::cta;\nbar.sync 0;\nshr.u32 %%r9, %%r2, 4;\n"
                "cvt.u64.u32 %%d2, %%r9;\nor.b64 %%d2, %%d2, 0x0000001000080000;\n"
                "wgmma.fence.sync.aligned;\n"
                "wgmma.mma_async.sync.aligned.m64n8k32%s.s32.s8.s8%s "
                "{%%r5, %%r6, %%r7, %%r8}, %%d2, %%d2, 1;\nwgmma.commit_group.sync.aligned;\n"
                "wgmma.wait_group.sync.aligned 0;\nsetp.eq.u32 %%p, %%r1, 77;\n"
                "@%%p st.global.u32 [%%d1], %%r8;\nret;\n}\n",
            saturate == 1 ? ".satfinite" : "", saturate == 2 ? ".satfinite" : "");
    CUfunction f = load(text, "k");
    CUdeviceptr out = device_upload(NULL, 4);
    OK(device_run(f, 1, 128, 0, (void *[]){&out}));
    OK(cuMemcpyDtoH(&got, out, 4));
    assert_int_equal(got, want);
  }
}

static void all_on(const void *user) {
  (void)user;
  setenv("NNGEN_SIM_CHECK", "all", 1);
}

static void test_saturated(void **state) {
  (void)state;
  device_child(all_on, run_saturated, NULL);
}

// Three warp groups: the first gives registers up or does not, the others ask for more.
#define GROUPS(first, more)                                                                        \
  ".version 8.6\n.target sm_90a\n.address_size 64\n.entry k(.param .u64 out)\n{\n"               \
  ".reg .b32 %r<4>;\n.reg .pred %p<2>;\nmov.u32 %r1, %tid.x;\nsetp.lt.u32 %p1, %r1, 128;\n"       \
  "@%p1 bra A;\nsetmaxnreg.inc.sync.aligned.u32 " more ";\nbra B;\nA:\n" first "\nB:\nret;\n}\n"
static const Fault registers[] = {
    {"registers given up", GROUPS("setmaxnreg.dec.sync.aligned.u32 40;", "232"), "all",
     CUDA_SUCCESS, NULL},
    {"registers not given up", GROUPS("", "232"), "basic", CUDA_ERROR_LAUNCH_FAILED,
     "that no warp of its block gives up"},
    {"all registers there are", GROUPS("setmaxnreg.dec.sync.aligned.u32 32;", "240"), "all",
     CUDA_SUCCESS, NULL},
    {"eight more than there are", GROUPS("setmaxnreg.dec.sync.aligned.u32 40;", "240"), "basic",
     CUDA_ERROR_LAUNCH_FAILED, "setmaxnreg"},
};

static void run_three(const void *user) {
  run_with(user, 384);
}

static void test_registers(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof registers / sizeof *registers; i++)
    device_child(set_checks, run_three, &registers[i]);
}

// A function that ends its thread, under two names.
static const char ending[] =
    ".version 8.6\n.target sm_90a\n.address_size 64\n"
    ".func leave(.param .b32 n)\n{\n.reg .b32 %r<3>;\n.reg .pred %p;\nld.param.b32 %r1, [n];\n"
    "setp.gt.u32 %p, %r1, 39;\n@%p exit;\nret;\n}\n"
    ".func other(.param .b32 n);\n.alias other, leave;\n"
    ".entry k(.param .u64 out)\n{\n.reg .b32 %r<4>;\n.reg .b64 %rd<4>;\n.reg .pred %p;\n"
    "ld.param.u64 %rd1, [out];\nmov.u32 %r1, %tid.x;\nmul.wide.u32 %rd2, %r1, 4;\n"
    "add.u64 %rd3, %rd1, %rd2;\nmov.u32 %r2, 0;\nst.global.u32 [%rd3], %r2;\n"
    "{ .param .b32 a; st.param.b32 [a], %r1; call.uni other, (a); }\n"
    "bar.sync 0;\nmov.u32 %r2, 7;\nst.global.u32 [%rd3], %r2;\nret;\n}\n";

static void run_ending(const void *user) {
  unsigned got[64];
  CUfunction f = load(user, "k");
  CUdeviceptr out = device_upload(NULL, sizeof got);
  OK(device_run(f, 1, 64, 0, (void *[]){&out}));
  OK(cuMemcpyDtoH(got, out, sizeof got));
  for (int i = 0; i < 64; i++) assert_int_equal(got[i], i < 40 ? 7 : 0);
}

static void none_on(const void *user) {
  (void)user;
}

static void test_ending(void **state) {
  (void)state;
  device_child(all_on, run_ending, ending);
  device_child(none_on, run_ending, ending);
}

static void test_faults(void **state) {
  (void)state;
  int planted = 0, all = sizeof faults / sizeof *faults;
  for (int i = 0; i < all; i++) {
    device_child(set_checks, run_fault, &faults[i]);
    planted += faults[i].error != CUDA_SUCCESS;
  }
  printf("# %d planted faults are caught, %d right texts run\n", planted, all - planted);
}

int main(void) {
  if (on_gpu()) return puts("1..0 # SKIP only on libcusim"), 0;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_accumulators),
      cmocka_unit_test(test_saturated),
      cmocka_unit_test(test_registers),
      cmocka_unit_test(test_ending),
      cmocka_unit_test(test_faults), // first: its processes are made before a device is opened
      cmocka_unit_test_setup(test_whole, device_setup),
      cmocka_unit_test(test_local),
      cmocka_unit_test(test_long),
      cmocka_unit_test(test_globals),
  };
  return cmocka_run_group_tests_name("test_ptx", tests, NULL, NULL);
}
