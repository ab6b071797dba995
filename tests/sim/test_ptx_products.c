// test_ptx_products.c: the order of a warp group's products and what touches their registers: reads
// before a wait, in whatever block, and writes behind a fence are faults; what compilers write is
// none.
#include "tests/sim/device.h"

#define HEAD                                                                                       \
  ".version 8.6\n.target sm_90a\n.address_size 64\n.entry k(.param .u64 out, .param .u32 n)\n"    \
  "{\n.reg .f32 %f<16>;\n.reg .b32 %r<9>;\n.reg .b64 %rd<9>;\n.reg .pred %p<4>;\n"                \
  ".shared .align 1024 .b8 s[16384];\nmov.u32 %r1, %tid.x;\nld.param.u64 %rd1, [out];\n"          \
  "mul.wide.u32 %rd2, %r1, 4;\nadd.u64 %rd3, %rd1, %rd2;\nld.param.u32 %r5, [n];\n"               \
  "setp.ne.u32 %p2, %r5, 0;\nmov.u32 %r4, s;\nshl.b32 %r3, %r1, 2;\nadd.u32 %r3, %r3, %r4;\n"     \
  "mov.u32 %r2, 0;\nZ: st.shared.u32 [%r3], 0x3c003c00;\nadd.u32 %r3, %r3, 512;\n"                \
  "add.u32 %r2, %r2, 512;\nsetp.lt.u32 %p1, %r2, 16384;\n@%p1 bra Z;\n"                           \
  "fence.proxy.async.shared::cta;\nbar.sync 0;\nshr.u32 %r4, %r4, 4;\ncvt.u64.u32 %rd4, %r4;\n"   \
  "or.b64 %rd4, %rd4, 0x0000000800080000;\n"                                                       \
  "mov.f32 %f1, 0f00000000;\nmov.f32 %f2, %f1;\nmov.f32 %f3, %f1;\nmov.f32 %f4, %f1;\n"           \
  "mov.f32 %f5, %f1;\nmov.f32 %f6, %f1;\nmov.f32 %f7, %f1;\nmov.f32 %f8, %f1;\n"
#define FENCE "wgmma.fence.sync.aligned;\n"
#define PRODUCT_OF(a, b, c, d)                                                                     \
  "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {" a "," b "," c "," d "}, %rd4, %rd4, 1, "  \
  "1, 1, 0, 0;\n"
#define PRODUCT PRODUCT_OF("%f1", "%f2", "%f3", "%f4")
#define OTHER PRODUCT_OF("%f5", "%f6", "%f7", "%f8")
#define COMMIT "wgmma.commit_group.sync.aligned;\n"
#define WAIT(groups) "wgmma.wait_group.sync.aligned " groups ";\n"
#define STORE(from) "st.global.f32 [%rd3], " from ";\n"
#define END "ret;\n}\n"
#define BRANCH "@%p2 bra L;\nmov.u32 %r2, 1;\nL:\n"
// Thread 0 overwrites an operand: by itself, or by a copy that ends at once.
#define FIRST "setp.eq.u32 %p3, %r1, 0;\n"
#define WRITE "bar.sync 0;\n" FIRST "@%p3 st.shared.u32 [s+128], %r2;\n"
#define BAR                                                                                        \
  ".shared .align 8 .b64 bar;\n" FIRST "@%p3 mbarrier.init.shared.b64 [bar], 1;\n"                \
  "fence.mbarrier_init.release.cluster;\nbar.sync 0;\n"
#define COPY                                                                                       \
  "@%p3 mbarrier.arrive.expect_tx.shared.b64 _, [bar], 256;\n"                                     \
  "@%p3 cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [s], [s+8192], "    \
  "256, [bar];\nw: mbarrier.try_wait.parity.shared.b64 %p1, [bar], 0;\n@!%p1 bra w;\n"
#define OVERWRITTEN "not ordered after its wgmma.wait_group"
#define EARLY "before wgmma.wait_group"
#define UNFENCED "wgmma.fence is missing"

typedef struct Order {
  const char *name, *text, *report; // null: it is right, and gives 16, or want
  float want;
} Order;

static const Order orders[] = {
    {"right", HEAD FENCE PRODUCT COMMIT WAIT("0") STORE("%f1") END, NULL, 16},
    {"read at once", HEAD FENCE PRODUCT COMMIT STORE("%f2") WAIT("0") END, EARLY, 0},
    {"read behind a branch", HEAD FENCE PRODUCT COMMIT BRANCH STORE("%f2") WAIT("0") END, EARLY, 0},
    {"read behind a predicate", HEAD FENCE PRODUCT COMMIT "@%p2 " STORE("%f2") WAIT("0") END, EARLY,
     0},
    {"no wait, and a branch", HEAD FENCE PRODUCT COMMIT BRANCH STORE("%f1") END, EARLY, 0},
    {"a wait that is jumped over",
     HEAD FENCE PRODUCT COMMIT "@%p2 bra L;\n" WAIT("0") "L:\n" STORE("%f1") END, EARLY, 0},
    {"not committed", HEAD FENCE PRODUCT WAIT("0") STORE("%f1") END, EARLY, 0},
    {"one group may be under way", HEAD FENCE PRODUCT COMMIT WAIT("1") STORE("%f1") END, EARLY, 0},
    {"the newer of two groups", HEAD FENCE PRODUCT COMMIT OTHER COMMIT WAIT("1") STORE("%f5") END,
     EARLY, 0},
    {"the older of two groups", HEAD FENCE PRODUCT COMMIT OTHER COMMIT WAIT("1") STORE("%f1") END,
     NULL, 16},
    {"a copy, read at once",
     HEAD FENCE PRODUCT COMMIT "mov.f32 %f9, %f1;\n" BRANCH STORE("%f9") WAIT("0") END, EARLY, 0},
    {"a copy, read behind the wait",
     HEAD FENCE PRODUCT COMMIT "mov.f32 %f9, %f1;\n" BRANCH WAIT("0") STORE("%f9") END, NULL, 16},
    {"a copy of the older group while the newer is made",
     HEAD FENCE PRODUCT COMMIT WAIT("0") "mov.f32 %f9, %f1;\n" FENCE PRODUCT COMMIT STORE("%f9")
     WAIT("0") END, NULL, 16},
    {"a copy of copies goes on as an accumulator",
     HEAD FENCE PRODUCT COMMIT "mov.f32 %f5, %f1;\nmov.f32 %f6, %f2;\nmov.f32 %f7, %f3;\n"
     "mov.f32 %f8, %f4;\n" OTHER COMMIT WAIT("0") STORE("%f5") END, NULL, 32},
    {"in a loop", HEAD "mov.u32 %r2, 0;\nL:\n" FENCE PRODUCT COMMIT WAIT("1")
     "add.u32 %r2, %r2, 1;\nsetp.lt.u32 %p3, %r2, 4;\n@%p3 bra L;\n" WAIT("0") STORE("%f3") END,
     NULL, 64},
    {"a constant behind the fence, as compilers have it",
     HEAD FENCE "mov.f32 %f1, 0f3F800000;\n" PRODUCT COMMIT WAIT("0") STORE("%f1") END, NULL, 17},
    {"no fence", HEAD PRODUCT COMMIT WAIT("0") STORE("%f1") END, UNFENCED, 0},
    {"a sum behind the fence",
     HEAD FENCE "add.f32 %f1, %f1, 0f3F800000;\n" PRODUCT COMMIT WAIT("0") STORE("%f1") END,
     UNFENCED, 0},
    {"a sum behind the fence, copied",
     HEAD FENCE "add.f32 %f9, %f1, 0f3F800000;\nmov.f32 %f1, %f9;\n" PRODUCT COMMIT WAIT("0")
     STORE("%f1") END, UNFENCED, 0},
    {"a sum before the fence, copied behind",
     HEAD "add.f32 %f9, %f1, 0f3F800000;\n" FENCE "mov.f32 %f1, %f9;\n" PRODUCT COMMIT WAIT("0")
     STORE("%f1") END, NULL, 17},
    {"a sum between products, and a fence",
     HEAD FENCE PRODUCT COMMIT WAIT("0") "add.f32 %f1, %f1, 0f3F800000;\n" FENCE PRODUCT COMMIT
     WAIT("0") STORE("%f1") END, NULL, 33},
    {"a sum between products, and none",
     HEAD FENCE PRODUCT COMMIT WAIT("0") "add.f32 %f1, %f1, 0f3F800000;\n" PRODUCT COMMIT
     WAIT("0") STORE("%f1") END, UNFENCED, 0},
    {"an operand is overwritten before the wait",
     HEAD FENCE PRODUCT COMMIT WRITE WAIT("0") STORE("%f1") END, OVERWRITTEN, 0},
    {"an operand is overwritten behind the wait",
     HEAD FENCE PRODUCT COMMIT WAIT("0") WRITE STORE("%f1") END, NULL, 16},
    {"the newer group reads it, too",
     HEAD FENCE PRODUCT COMMIT OTHER COMMIT WAIT("1") WRITE WAIT("0") STORE("%f1") END, OVERWRITTEN,
     0},
    {"what no product reads is overwritten",
     HEAD FENCE PRODUCT COMMIT "bar.sync 0;\n" FIRST "@%p3 st.shared.u32 [s+2048], %r2;\n"
     WAIT("0") STORE("%f1") END, NULL, 16},
    {"an operand is copied over before the wait",
     HEAD BAR FENCE PRODUCT COMMIT COPY WAIT("0") STORE("%f1") END, OVERWRITTEN, 0},
    {"an operand is copied over behind the wait",
     HEAD BAR FENCE PRODUCT COMMIT WAIT("0") COPY STORE("%f1") END, NULL, 16},
};

static void run_order(const void *user) {
  enum { kThreads = 128 };
  const Order *order = user;
  CUmodule module;
  CUfunction f;
  int n = 1;
  float got[kThreads];
  OK(cuModuleLoadData(&module, order->text));
  OK(cuModuleGetFunction(&f, module, "k"));
  CUdeviceptr out = device_upload(NULL, sizeof got);
  assert_non_null(freopen("build/ptx_products", "w", stderr));
  CUresult r = device_run(f, 1, kThreads, 0, (void *[]){&out, &n});
  fflush(stderr);
  char *said = file_read("build/ptx_products");
  bool right = order->report ? r == CUDA_ERROR_LAUNCH_FAILED && strstr(said, order->report)
                             : r == CUDA_SUCCESS && !*said;
  if (right && !order->report) {
    OK(cuMemcpyDtoH(got, out, sizeof got));
    for (int i = 0; i < kThreads; i++) right &= got[i] == order->want;
  }
  if (!right) printf("# %s: %d, %g: %s\n", order->name, r, got[0], said), fflush(stdout), _exit(1);
}

static void all_on(const void *user) {
  (void)user;
  setenv("NNGEN_SIM_CHECK", "all", 1);
}

static void test_orders(void **state) {
  (void)state;
  int faults = 0, right = 0;
  for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
    device_child(all_on, run_order, &orders[i]);
    *(orders[i].report ? &faults : &right) += 1;
  }
  printf("# %d planted faults are caught, %d right texts run\n", faults, right);
}

int main(void) {
  if (on_gpu()) return puts("1..0 # SKIP only on libcusim"), 0;
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_orders)};
  return cmocka_run_group_tests_name("test_ptx_products", tests, NULL, NULL);
}
