// test_clusters.c: clusters of several blocks, from PTX: their barrier, each other's shared memory,
// arrivals and copies at each other's mbarriers, multicast; what is refused, and planted faults
// with their twins.
#include "tests/sim/device.h"

static const char head[] =
    ".version 8.5\n.target sm_90a\n.address_size 64\n"
    ".visible .entry k(.param .u64 x)\n{\n"
    " .reg .pred %p<8>; .reg .b16 %h<4>; .reg .b32 %r<40>; .reg .b64 %d<20>;\n"
    " .shared .align 128 .b8 s[1024]; .shared .align 8 .b64 bar;\n"
    " ld.param.u64 %d1, [x]; cvta.to.global.u64 %d1, %d1;\n"
    " mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x;\n"
    " mov.u32 %r4, %cluster_ctarank; mov.u32 %r5, %cluster_nctarank;\n"
    " mad.lo.u32 %r6, %r2, %r3, %r1; mul.wide.u32 %d2, %r6, 4; add.u64 %d2, %d1, %d2;\n"
    " mov.u32 %r10, s; mov.u32 %r11, bar; shl.b32 %r12, %r1, 2; add.u32 %r13, %r10, %r12;\n"
    " add.u32 %r7, %r4, 1; rem.u32 %r7, %r7, %r5; setp.eq.u32 %p1, %r1, 0;\n";
static const char tail[] = " ret;\n}\n";

#define ARRIVE " barrier.cluster.arrive.release.aligned;\n"
#define WAIT " barrier.cluster.wait.acquire.aligned;\n"
#define MEET ARRIVE WAIT
// The bar of one arrival and %d bytes is ready for the whole cluster.
#define BAR(count)                                                                                 \
  " @%p1 mbarrier.init.shared.b64 [%r11], " #count ";\n "                                          \
                                                   "fence.mbarrier_init.release.cluster;\n" MEET
#define SPIN(label)                                                                                \
  label ": mbarrier.try_wait.parity.shared.b64 %p2, [%r11], 0; @!%p2 bra " label ";\n"

typedef struct Case {
  const char *name, *body;
  int size; // of a cluster
  CUresult want;
  const char *report; // null: x[i] is what `expected` says
  int kind;           // of that
} Case;

enum { kThreads = 64, kBlocks = 8, NextRank, OwnPlace, BytesOfFirst };

static const Case cases[] = {
    {"the next block's shared memory",
     " st.shared.u32 [%r13], %r6;\n" MEET
     " mapa.shared::cluster.u32 %r14, %r13, %r7; ld.shared::cluster.u32 %r15, [%r14];\n"
     " st.global.u32 [%d2], %r15;\n" MEET,
     4, CUDA_SUCCESS, NULL, NextRank},
    {"the same through generic addresses",
     " st.shared.u32 [%r13], %r6;\n" MEET
     " cvta.shared.u64 %d3, %d3; cvt.u64.u32 %d4, %r13; cvta.shared.u64 %d4, %d4;\n"
     " mapa.u64 %d5, %d4, %r7; ld.u32 %r15, [%d5]; getctarank.u64 %r16, %d5;\n"
     " setp.ne.u32 %p3, %r16, %r7; @%p3 trap; isspacep.shared::cluster %p4, %d5; @!%p4 trap;\n"
     " isspacep.shared::cta %p5, %d5; @%p5 trap;\n"
     " st.global.u32 [%d2], %r15;\n" MEET,
     2, CUDA_SUCCESS, NULL, NextRank},
    {"places in the cluster",
     " mov.u32 %r14, %cluster_ctaid.x; mov.u32 %r15, %cluster_nctaid.x; mov.u32 %r16, "
     "%clusterid.x;\n"
     " mad.lo.u32 %r17, %r16, %r15, %r14; setp.ne.u32 %p3, %r17, %r2; @%p3 trap;\n"
     " mov.u32 %r18, %nclusterid.x; mul.lo.u32 %r18, %r18, %r5; mov.u32 %r19, %nctaid.x;\n"
     " setp.ne.u32 %p4, %r18, %r19; @%p4 trap; setp.ne.u32 %p5, %r14, %r4; @%p5 trap;\n"
     " st.global.u32 [%d2], %r6;\n",
     4, CUDA_SUCCESS, NULL, OwnPlace},
    {"atomics and stores into another block",
     " mov.u32 %r20, 0; @%p1 st.shared.u32 [%r10], %r20;\n" MEET
     " mapa.shared::cluster.u32 %r14, %r10, 0; atom.shared::cluster.add.u32 %r15, [%r14], 1;\n" MEET
     " ld.shared::cluster.u32 %r15, [%r14]; mul.lo.u32 %r16, %r5, %r3;\n"
     " setp.ne.u32 %p3, %r15, %r16; @%p3 trap; st.global.u32 [%d2], %r6;\n" MEET,
     8, CUDA_SUCCESS, NULL, OwnPlace},
    {"arrivals at another block's mbarrier",
     BAR(64) " st.shared.u32 [%r13], %r6;\n mapa.shared::cluster.u32 %r14, %r11, %r7;\n"
             " mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r14];\n" SPIN(
                 "W") " add.u32 %r8, %r4, %r5; sub.u32 %r8, %r8, 1; rem.u32 %r8, %r8, %r5;\n"
                      " mapa.shared::cluster.u32 %r15, %r13, %r8; ld.shared::cluster.u32 %r16, "
                      "[%r15];\n"
                      " sub.u32 %r17, %r6, %r16; st.global.u32 [%d2], %r6;\n" MEET,
     2, CUDA_SUCCESS, NULL, OwnPlace},
    {"st.async to the next block",
     BAR(1) " @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r11], 256;\n"
            " mapa.shared::cluster.u32 %r14, %r13, %r7; mapa.shared::cluster.u32 %r15, %r11, %r7;\n"
            " mul.lo.u32 %r16, %r7, %r3; sub.u32 %r17, %r2, %r4; mul.lo.u32 %r17, %r17, %r3;\n"
            " add.u32 %r16, %r16, %r17; add.u32 %r16, %r16, %r1;\n"
            " st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r14], %r16, "
            "[%r15];\n" SPIN("W") " ld.shared.u32 %r18, [%r13]; st.global.u32 [%d2], %r18;\n" MEET,
     4, CUDA_SUCCESS, NULL, OwnPlace},
    {"a bulk copy to the next block",
     " mul.lo.u32 %r16, %r7, %r3; sub.u32 %r17, %r2, %r4; mul.lo.u32 %r17, %r17, %r3;\n"
     " add.u32 %r16, %r16, %r17; add.u32 %r16, %r16, %r1; add.u32 %r19, %r13, 512;\n"
     " st.shared.u32 [%r19], %r16; fence.proxy.async.shared::cta;\n" BAR(
         1) " @!%p1 bra W; mbarrier.arrive.expect_tx.shared.b64 _, [%r11], 256;\n"
            " mapa.shared::cluster.u32 %r14, %r10, %r7; mapa.shared::cluster.u32 %r15, %r11, %r7;\n"
            " add.u32 %r19, %r10, 512;\n"
            " cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r14], "
            "[%r19], 256, [%r15];\n" SPIN(
                "W") " ld.shared.u32 %r18, [%r13]; st.global.u32 [%d2], %r18;\n" MEET,
     4, CUDA_SUCCESS, NULL, OwnPlace},
    {"multicast from global memory",
     BAR(1) " @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r11], 256;\n"
            " setp.ne.u32 %p3, %r4, 0; or.pred %p3, %p3, !%p1; mov.b16 %h1, 15; add.u64 %d6, %d1, "
            "4096;\n"
            " setp.eq.u32 %p3, %r4, 0; and.pred %p3, %p3, %p1;\n"
            " @%p3 "
            "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster"
            " [%r10], [%d6], 256, [%r11], %h1;\n" SPIN(
                "W") " ld.shared.u32 %r18, [%r13]; st.global.u32 [%d2], %r18;\n" MEET,
     4, CUDA_SUCCESS, NULL, BytesOfFirst},
    {"a thread that exits is not waited for",
     " setp.gt.u32 %p3, %r1, 31; @%p3 st.global.u32 [%d2], %r6; @%p3 bra E;\n" MEET
     " st.global.u32 [%d2], %r6;\nE:\n",
     2, CUDA_SUCCESS, NULL, OwnPlace},
    // Planted faults.
    {"no barrier before a block leaves the others alone: a read of what nobody wrote",
     " mapa.shared::cluster.u32 %r14, %r13, %r7; ld.shared::cluster.u32 %r15, [%r14];\n"
     " st.shared.u32 [%r13], %r15; st.global.u32 [%d2], %r15;\n",
     2, CUDA_ERROR_LAUNCH_FAILED, "no thread of this block wrote", 0},
    {"one block does not arrive",
     " setp.eq.u32 %p3, %r4, 1; @%p3 bra W;\n" ARRIVE WAIT
     "W: mov.u32 %r9, 0; @%p3 mbarrier.init.shared.b64 [%r11], 1;\n"
     "V: @%p3 mbarrier.try_wait.parity.shared.b64 %p2, [%r11], 0; @%p3 bra V;\n",
     2, CUDA_ERROR_LAUNCH_FAILED, "deadlock", 0},
    {"a wait without an arrival", WAIT, 2, CUDA_ERROR_LAUNCH_FAILED, "without having arrived", 0},
    {"two arrivals without a wait", ARRIVE ARRIVE WAIT, 2, CUDA_ERROR_LAUNCH_FAILED,
     "without a wait", 0},
    {"a block that is not there",
     " mapa.shared::cluster.u32 %r14, %r13, %r5;\n st.shared::cluster.u32 [%r14], %r6;\n" MEET, 2,
     CUDA_ERROR_ILLEGAL_INSTRUCTION, "there is no block 2", 0},
};

static char *seed;

static void checks(const void *user) {
  (void)user;
  setenv("NNGEN_SIM_CHECK", "all", 1);
  setenv("NNGEN_SIM_SEED", seed, 1);
}

static CUresult launch(CUfunction f, unsigned blocks, unsigned size, CUdeviceptr x) {
  CUlaunchAttribute attribute = {.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
                                 .value.clusterDim = {size, 1, 1}};
  CUlaunchConfig config = {.gridDimX = blocks,
                           .gridDimY = 1,
                           .gridDimZ = 1,
                           .blockDimX = kThreads,
                           .blockDimY = 1,
                           .blockDimZ = 1,
                           .attrs = &attribute,
                           .numAttrs = 1};
  CUresult (*launch_ex)(const CUlaunchConfig *, CUfunction, void **, void **);
  *(void **)&launch_ex = dlsym(sim_open(), "cuLaunchKernelEx");
  return launch_ex(&config, f, (void *[]){&x}, NULL);
}

static unsigned expected(const Case *c, unsigned i) {
  unsigned size = (unsigned)c->size, block = i / kThreads, t = i % kThreads, rank = block % size;
  if (c->kind == OwnPlace) return i;
  if (c->kind == BytesOfFirst) return 1000 + t;
  return (block - rank + (rank + 1) % size) * kThreads + t;
}

static CUfunction load(const char *body) {
  char text[8192];
  CUmodule module;
  CUfunction f;
  snprintf(text, sizeof text, "%s%s%s", head, body, tail);
  OK(cuModuleLoadData(&module, text));
  OK(cuModuleGetFunction(&f, module, "k"));
  return f;
}

static void run(const void *user) {
  const Case *c = user;
  CUfunction f = load(c->body);
  unsigned in[2048] = {0}, out[kBlocks * kThreads];
  for (unsigned i = 0; i < kThreads; i++) in[1024 + i] = 1000 + i;
  CUdeviceptr x = device_upload(in, sizeof in);
  assert_non_null(freopen("build/clusters", "w", stderr));
  CUresult r = launch(f, kBlocks, (unsigned)c->size, x);
  if (r == CUDA_SUCCESS) r = cuCtxSynchronize();
  fflush(stderr);
  char *said = file_read("build/clusters");
  bool right = r == c->want && (c->report ? strstr(said, c->report) != NULL : !*said);
  if (right && r == CUDA_SUCCESS) {
    OK(cuMemcpyDtoH(out, x, sizeof out));
    for (unsigned i = 0; i < kBlocks * kThreads; i++)
      if (out[i] != expected(c, i)) {
        printf("# %s: x[%u] is %u, not %u\n", c->name, i, out[i], expected(c, i));
        fflush(stdout);
        _exit(1);
      }
  }
  if (!right) printf("# %s: %d: %s\n", c->name, r, said), fflush(stdout), _exit(1);
}

static void test_cases(void **state) {
  (void)state;
  int faults = 0, right = 0;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    for (char s[] = "0"; *s < '3'; ++*s) seed = s, device_child(checks, run, &cases[i]);
    *(cases[i].report ? &faults : &right) += 1;
  }
  printf("# %d planted faults are caught, %d right texts run\n", faults, right);
}

static void plain(const void *user) {
  (void)user;
}

static void run_refused(const void *user) {
  (void)user;
  assert_non_null(freopen("/dev/null", "w", stderr));
  CUfunction f = load(" st.global.u32 [%d2], %r6;\n");
  CUdeviceptr x = device_upload(NULL, 8192);
  assert_int_equal(launch(f, 8, 3, x), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(launch(f, 32, 16, x), 912); // INVALID_CLUSTER_SIZE
  OK(cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1));
  OK(launch(f, 32, 16, x));
  assert_int_equal(launch(f, 32, 32, x), 912);
  OK(cuCtxSynchronize());
}

static void test_refused(void **state) {
  (void)state;
  device_child(plain, run_refused, NULL);
}

// ---- __cluster_dims__ in C++ --------------------------------------------------------------------

static const char dims[] =
    "#include \"lib/prim.cuh\"\n#define GIVE { out[blockIdx.x] = nn_cluster_size(); }\n"
    "extern \"C\" __cluster_dims__(2, 1, 1) __global__ void before(int *out) GIVE\n"
    "extern \"C\" __global__ void __launch_bounds__(64, 2) __cluster_dims__(4)\n"
    "both(int *out) GIVE\n"
    "extern \"C\" __global__ void __cluster_dims__(2, 2, 2) __maxnreg__(64) cube(int *out) GIVE\n"
    "template <int N> __global__ void __cluster_dims__(N, 1, 1) many(int *out) GIVE\n"
    "template __global__ void many<8>(int *);\n"
    "extern \"C\" __global__ void __cluster_dims__(4, 1, 1) ahead(int *out);\n"
    "extern \"C\" __global__ void ahead(int *out) GIVE\n"
    "extern \"C\" __global__ void alone(int *out) GIVE\n";

static const struct {
  const char *name;
  unsigned grid[3];
  int size, threads;
} kernels[] = {{"before", {8, 1, 1}, 2, 1024}, {"both", {8, 1, 1}, 4, 64},
               {"cube", {8, 2, 2}, 8, 1024},   {"_Z4manyILi8EEvPi", {8, 1, 1}, 8, 1024},
               {"ahead", {8, 1, 1}, 4, 1024},  {"alone", {8, 1, 1}, 1, 1024}};

static void run_dims(const void *user) {
  (void)user;
  CUmodule module = device_module(dims);
  CUdeviceptr out = device_upload(NULL, 4 * kBlocks);
  for (size_t k = 0; k < sizeof kernels / sizeof *kernels; k++) {
    const unsigned *grid = kernels[k].grid;
    CUfunction f;
    int got[kBlocks], threads = 0;
    OK(cuModuleGetFunction(&f, module, kernels[k].name));
    OK(cuFuncGetAttribute(&threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, f));
    OK(cuLaunchKernel(f, grid[0], grid[1], grid[2], 1, 1, 1, 0, NULL, (void *[]){&out}, NULL));
    OK(cuMemcpyDtoH(got, out, sizeof got));
    for (int i = 0; i < kBlocks; i++) assert_int_equal(got[i], kernels[k].size);
    assert_int_equal(threads, kernels[k].threads);
  }
}

static void test_dims(void **state) {
  (void)state;
  device_child(plain, run_dims, NULL);
}

int main(void) {
  if (on_gpu()) return puts("1..0 # SKIP only on libcusim"), 0;
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_cases), cmocka_unit_test(test_refused),
                                     cmocka_unit_test(test_dims)};
  return cmocka_run_group_tests_name("test_clusters", tests, NULL, NULL);
}
