// test_headers.c: CUDA's own headers that programs include most: cooperative groups, cuda::atomic,
// barriers, pipelines, complex numbers, wmma; or NVIDIA's (NNGEN_SIM_FRONTEND=nvrtc).
#include "tests/sim/device.h"

typedef struct Case {
  const char *name, *source; // kernel k(float *x), which must leave x[i] == i + 1
  int blocks, threads, smem;
  bool cooperative;
} Case;

#define HEAD                                                                                       \
  "#include <cooperative_groups.h>\n#include <cooperative_groups/reduce.h>\n"                      \
  "#include <cooperative_groups/memcpy_async.h>\nnamespace cg = cooperative_groups;\n"
#define KERNEL                                                                                     \
  "extern \"C\" __global__ void k(float *x) {\n int t = threadIdx.x, i = blockIdx.x * blockDim.x " \
  "+ t;\n"

static const Case cases[] = {
    {"blocks and tiles",
     HEAD KERNEL
     " auto b = cg::this_thread_block(); __shared__ int s[128]; s[t] = t; b.sync();\n"
     " auto w = cg::tiled_partition<32>(b); auto q = cg::tiled_partition<4>(w);\n"
     " int sum = 0; for (int j = 16; j; j /= 2) { int o = w.shfl_xor(t, j); sum += o ^ t; }\n"
     " int first = q.shfl(t, 0), up = q.shfl_up(t, 1), down = q.shfl_down(t, 1);\n"
     " bool ok = sum == 31 && first == t / 4 * 4 && up == (t % 4 ? t - 1 : t)\n"
     "   && down == (t % 4 < 3 ? t + 1 : t) && q.thread_rank() == t % 4 && w.any(t % 32 == 3)\n"
     "   && q.ballot(t % 4 == 2) == 4u && q.meta_group_rank() == t % 32 / 4\n"
     "   && b.size() == 128 && s[127 - t] == 127 - t;\n"
     " x[i] = ok ? i + 1 : -1; }\n",
     2, 128, 0, false},
    {"reductions",
     HEAD KERNEL
     " auto w = cg::tiled_partition<32>(cg::this_thread_block());\n"
     " auto e = cg::tiled_partition<8>(cg::this_thread_block());\n"
     " int a = cg::reduce(w, t % 32, cg::plus<int>()), b = cg::reduce(e, t, cg::greater<int>());\n"
     " float f = cg::reduce(e, 0.5f, cg::plus<float>());\n"
     " x[i] = a == 496 && b == t / 8 * 8 + 7 && f == 4 ? i + 1 : -1; }\n",
     1, 64, 0, false},
    {"lanes that are together",
     HEAD KERNEL " if (t % 3 == 0) { auto g = cg::coalesced_threads();\n"
                 "   int n = g.size(), r = g.thread_rank(), v = g.shfl(t, 0);\n"
                 "   x[i] = n == 11 && r == (t - v) / 3 && v == (t < 32 ? 0 : 33) ? i + 1 : -1;\n"
                 " } else x[i] = i + 1; }\n",
     1, 64, 0, false},
    {"the grid",
     HEAD KERNEL " auto g = cg::this_grid(); int n = g.size();\n"
                 " for (int turn = 0; turn < 3; turn++) {\n"
                 "   x[i] = turn * 1000 + i; g.sync(); float y = x[n - 1 - i]; g.sync();\n"
                 "   if (y != turn * 1000 + n - 1 - i) { x[i] = -1; return; } }\n"
                 " x[i] = g.thread_rank() + 1; }\n",
     6, 64, 0, true},
    {"copies of a group",
     HEAD KERNEL " __shared__ float s[64]; auto b = cg::this_thread_block(); x[i] = i; b.sync();\n"
                 " cg::memcpy_async(b, s, x + blockIdx.x * 64, 256); cg::wait(b);\n"
                 " x[i] = s[t] + 1; }\n",
     2, 64, 0, false},
    {"cuda::atomic",
     "#include <cuda/atomic>\n" KERNEL
     " __shared__ cuda::atomic<int, cuda::thread_scope_block> n; __shared__ int m;\n"
     " if (t == 0) { n.store(0); m = 0; } __syncthreads();\n"
     " cuda::atomic_ref<int, cuda::thread_scope_device> r(m);\n"
     " n.fetch_add(2, cuda::memory_order_relaxed); r.fetch_max(t); __syncthreads();\n"
     " bool ok = sizeof n == 4 && n.load() == 2 * blockDim.x && r.load(cuda::memory_order_acquire) "
     "== 63;\n"
     " x[i] = ok ? i + 1 : -1; }\n",
     2, 64, 0, false},
    {"cuda::barrier",
     "#include <cuda/barrier>\n" KERNEL
     " __shared__ cuda::barrier<cuda::thread_scope_block> bar; __shared__ float s[64];\n"
     " if (t == 0) init(&bar, blockDim.x); __syncthreads();\n"
     " for (int turn = 0; turn < 3; turn++) { s[t] = turn + t; auto token = bar.arrive();\n"
     "   bar.wait(static_cast<decltype(token) &&>(token)); float y = s[63 - t]; "
     "bar.arrive_and_wait();\n"
     "   if (y != turn + 63 - t) { x[i] = -1; return; } }\n"
     " x[i] = i + 1; }\n",
     2, 64, 0, false},
    {"cuda::pipeline",
     "#include <cuda/pipeline>\n#include <cuda_pipeline.h>\n" KERNEL
     " __shared__ float s[2][64]; x[i] = i; __syncthreads();\n"
     " auto p = cuda::make_pipeline(); float sum = 0;\n"
     " p.producer_acquire(); cuda::memcpy_async(&s[0][t], &x[i], sizeof(float), p); "
     "p.producer_commit();\n"
     " for (int j = 0; j < 4; j++) {\n"
     "   if (j < 3) { p.producer_acquire(); cuda::memcpy_async(&s[(j + 1) % 2][t], &x[i], "
     "sizeof(float), p);\n"
     "     p.producer_commit(); }\n"
     "   p.consumer_wait(); sum += s[j % 2][t]; p.consumer_release(); }\n"
     " __pipeline_memcpy_async(&s[0][t], &x[i], 4); __pipeline_commit(); "
     "__pipeline_wait_prior(0);\n"
     " x[i] = (sum + s[0][t]) / 5 + 1; }\n",
     2, 64, 0, false},
    {"complex numbers",
     "#include <cuComplex.h>\n" KERNEL " cuFloatComplex a = make_cuFloatComplex(3, 4), b = "
                                       "cuCmulf(a, cuConjf(a)), c = cuCdivf(b, a);\n"
     " bool ok = cuCrealf(b) == 25 && cuCimagf(b) == 0 && cuCabsf(a) == 5 &&\n"
     "   fabsf(cuCrealf(c) - 3) < 1e-5f && fabsf(cuCimagf(c) + 4) < 1e-5f;\n"
     " cuDoubleComplex d = cuCadd(make_cuDoubleComplex(1, 2), make_cuDoubleComplex(3, 4));\n"
     " x[i] = ok && d.x == 4 && d.y == 6 ? i + 1 : -1; }\n",
     1, 64, 0, false},
    {"nvcuda::wmma",
     "#include <mma.h>\n#include <cuda_fp16.h>\nusing namespace nvcuda;\n" KERNEL
     " __shared__ half a[256], b[256]; __shared__ float c[256];\n"
     " for (int j = t; j < 256; j += 32) { a[j] = __int2half_rn(j + 1); b[j] = __int2half_rn(j / "
     "16 == j % 16); }\n"
     " __syncwarp();\n"
     " wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;\n"
     " wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> fb;\n"
     " wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc; wmma::fill_fragment(fc, 0.f);\n"
     " wmma::load_matrix_sync(fa, a, 16); wmma::load_matrix_sync(fb, b, 16); wmma::mma_sync(fc, "
     "fa, fb, fc);\n"
     " for (int j = 0; j < fc.num_elements; j++) fc.x[j] *= 2;\n"
     " wmma::store_matrix_sync(c, fc, 16, wmma::mem_row_major); __syncwarp(); x[i] = c[t] / 2; }\n",
     1, 32, 0, false},
};

static CUfunction build(const char *source) {
  nvrtcProgram program;
  const char *options[] = {device_arch(), "--std=c++17", "-I/usr/local/cuda/include/cccl"};
  size_t bytes;
  assert_int_equal(nvrtcCreateProgram(&program, source, "headers.cu", 0, NULL, NULL), 0);
  if (nvrtcCompileProgram(program, 3, options)) {
    assert_int_equal(nvrtcGetProgramLogSize(program, &bytes), 0);
    char *log = malloc(bytes);
    assert_int_equal(nvrtcGetProgramLog(program, log), 0);
    fail_msg("%s", log);
  }
  assert_int_equal(nvrtcGetCUBINSize(program, &bytes), 0);
  char *image = malloc(bytes);
  assert_int_equal(nvrtcGetCUBIN(program, image), 0);
  CUmodule module;
  CUfunction f;
  OK(cuModuleLoadData(&module, image));
  OK(cuModuleGetFunction(&f, module, "k"));
  free(image);
  nvrtcDestroyProgram(&program);
  return f;
}

static void run(const void *user) {
  const Case *c = user;
  CUfunction f = build(c->source);
  int n = c->blocks * c->threads;
  float *got = calloc((size_t)n, 4);
  CUdeviceptr x = device_upload(got, (size_t)n * 4);
  CUresult r = c->cooperative
                   ? cuLaunchCooperativeKernel(f, (unsigned)c->blocks, 1, 1, (unsigned)c->threads,
                                               1, 1, (unsigned)c->smem, NULL, (void *[]){&x})
                   : cuLaunchKernel(f, (unsigned)c->blocks, 1, 1, (unsigned)c->threads, 1, 1,
                                    (unsigned)c->smem, NULL, (void *[]){&x}, NULL);
  if (r == CUDA_SUCCESS) r = cuCtxSynchronize();
  if (r != CUDA_SUCCESS) fail_msg("%s: %d", c->name, r);
  OK(cuMemcpyDtoH(got, x, (size_t)n * 4));
  for (int i = 0; i < n; i++)
    if (got[i] != (float)(i + 1)) fail_msg("%s: x[%d] is %g", c->name, i, (double)got[i]);
}

static void checks(const void *user) {
  setenv("NNGEN_SIM_CHECK", user, 1);
}

static void ordered(const void *user) {
  setenv("NNGEN_SIM_CHECK", "all", 1);
  setenv("NNGEN_SIM_SEED", user, 1);
}

static const Case *now;
static void run_now(const void *user) {
  (void)user;
  run(now);
}

// Plainly; with all checks, which accuse nothing; under another order.
static void test_cases(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    now = &cases[i];
    device_child(checks, run_now, "basic");
    device_child(checks, run_now, "all");
    device_child(ordered, run_now, "3");
  }
}

int main(void) {
  if (on_gpu()) return puts("1..0 # SKIP only on libcusim"), 0;
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_cases)};
  return cmocka_run_group_tests_name("test_headers", tests, NULL, NULL);
}
