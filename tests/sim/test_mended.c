// test_mended.c: what foreign programs found: kernels that are right and were accused, and faults
// that were not seen, with all checks.
#include "tests/sim/device.h"

#include "sim/graph_nodes.h"

typedef struct Case {
  const char *name, *source;
  int threads;
  CUresult want;
  const char *report; // null: nothing is said
} Case;

#define KERNEL(text)                                                                               \
  "#include <cuda_fp16.h>\n#include <cuda_bf16.h>\nextern \"C\" __global__ void k(float *x) {\n"   \
  "  int t = threadIdx.x;\n" text "\n}\n"

// Macros that distinguish NVRTC from the host's compilers, and headers that are built in.
static const char environment[] =
    "#include <cuda_runtime.h>\n#include <vector_types.h>\n#include <math_constants.h>\n"
    "#if defined(__GNUC__) || defined(__clang__) || defined(__linux__) || defined(__NVCC__) || "
    "defined(__x86_64__) || defined(unix)\n#error the host shows\n#endif\n"
    "#ifndef NULL\n#error no NULL\n#endif\n"
    "extern \"C\" __global__ void k(float *x) "
    "{ x[threadIdx.x] = 63 - threadIdx.x + 0 * CUDART_PI_F; }\n";

static const Case cases[] = {
    {"shared halves",
     KERNEL("__shared__ half s[64]; s[t] = __float2half(t); __syncthreads(); "
            "x[t] = __half2float(s[63 - t]);"),
     64, CUDA_SUCCESS, NULL},
    {"shared pairs of halves",
     KERNEL("__shared__ half2 s[64]; s[t] = __float2half2_rn(t); __syncthreads(); "
            "x[t] = __low2float(s[63 - t]);"),
     64, CUDA_SUCCESS, NULL},
    {"shared bfloats",
     KERNEL("__shared__ __nv_bfloat16 s[64]; s[t] = __float2bfloat16(t); __syncthreads(); "
            "x[t] = __bfloat162float(s[63 - t]);"),
     64, CUDA_SUCCESS, NULL},
    {"a shared class with a constructor",
     "struct P { float a; __device__ P() {} __device__ P(float v) : a(v) {} };\n"
     "extern \"C\" __global__ void k(float *x) {\n  int t = threadIdx.x;\n"
     "  __shared__ P s[64]; s[t] = P(t); __syncthreads(); x[t] = s[63 - t].a;\n}\n",
     64, CUDA_SUCCESS, NULL},
    {"NULL", KERNEL("float *p = NULL; if (p == NULL) x[t] = 63 - t;"), 64, CUDA_SUCCESS, NULL},
    {"the host does not show", environment, 64, CUDA_SUCCESS, NULL},
    {"one lane's atomic, told to its warp by a shuffle",
     KERNEL("__shared__ int part[2]; __shared__ unsigned arrived; if (t == 0) arrived = 0;"
            "__syncthreads(); part[t / 32] = 5 + t / 32; __syncwarp(); unsigned old = 0;"
            "if (t % 32 == 0) old = atomicOr(&arrived, 1u << t / 32);"
            "if (__shfl_sync(0xffffffff, old, 0))"
            " for (int i = t % 32; i < 64; i += 32) x[i] = 63 - i + part[0] + part[1] - 11;"),
     64, CUDA_SUCCESS, NULL},
    {"what a lane wrote, behind a shuffle alone",
     KERNEL("__shared__ int s[64], n; if (t == 0) n = 0; __syncthreads(); atomicAdd(&n, 1);"
            "s[t] = t; int y = __shfl_xor_sync(0xffffffff, t, 1); x[t] = s[t ^ 1] - y;"),
     64, CUDA_ERROR_LAUNCH_FAILED, "race on shared memory"},
    {"virtual functions",
     "struct A { int t; __device__ A(int t) : t(t) {} __device__ virtual int f(int n) const "
     "{ return n - t; } };\n"
     "struct B : A { __device__ B(int t) : A(t) {} __device__ int f(int n) const override "
     "{ return 2 * n - (n + t); } };\n"
     "extern \"C\" __global__ void k(float *x) {\n  int t = threadIdx.x;\n"
     "  A a(t); B b(t); const A *p = t % 2 ? &a : &b; x[t] = p->f(63);\n}\n",
     64, CUDA_SUCCESS, NULL},
    {"a shuffle from a lane that is not there",
     KERNEL("x[t] = __shfl_down_sync(0xffffffff, float(t), 8);"), 48, CUDA_ERROR_LAUNCH_FAILED,
     "shuffles from lane"},
    {"a shuffle from a lane that has exited",
     KERNEL("if (t == 5) return; x[t] = __shfl_sync(0xffffffff, float(t), 5);"), 32,
     CUDA_ERROR_LAUNCH_FAILED, "shuffles from lane 5"},
};

static void all_checks(const void *user) {
  (void)user;
  setenv("NNGEN_SIM_CHECK", "all", 1);
}

static void run(const void *user) {
  const Case *c = user;
  float got[64];
  CUfunction f = device_function(c->source, "k");
  CUdeviceptr x = device_upload(NULL, sizeof got);
  assert_non_null(freopen("build/mended", "w", stderr));
  CUresult r = device_run(f, 1, c->threads, 0, (void *[]){&x});
  fflush(stderr);
  char *said = file_read("build/mended");
  bool right = r == c->want && (c->report ? strstr(said, c->report) != NULL : !*said);
  if (right && r == CUDA_SUCCESS) {
    OK(cuMemcpyDtoH(got, x, sizeof got));
    for (int t = 0; t < c->threads; t++) right &= got[t] == (float)(63 - t);
  }
  if (!right) printf("# %s: %d: %s\n", c->name, r, said), fflush(stdout), _exit(1);
}

static void test_cases(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    device_child(all_checks, run, &cases[i]);
}

// ---- a barrier of the grid ----------------------------------------------------------------------

static const char grid_barrier[] =
    "extern \"C\" __global__ void k(float *x, unsigned *count) {\n"
    "  int t = threadIdx.x, n = blockDim.x, b = blockIdx.x, other = gridDim.x - 1 - b;\n"
    "  for (int turn = 1; turn < 4; turn++) {\n"
    "    x[b * n + t] = turn * 1000 + b * n + t;\n"
    "    __syncthreads();\n"
    "    if (t == 0) { __threadfence(); atomicAdd(count, 1); WAIT __threadfence(); }\n"
    "    __syncthreads();\n"
    "    float y = x[other * n + n - 1 - t];\n"
    "    __syncthreads();\n"
    "    if (t == 0) { __threadfence(); atomicAdd(count + 1, 1); AGAIN __threadfence(); }\n"
    "    __syncthreads();\n"
    "    x[b * n + t] = y;\n"
    "  }\n}\n";
static const char *const waits[] = {
    "#define WAIT while (*(volatile unsigned *)count < turn * gridDim.x) {}\n"
    "#define AGAIN while (*(volatile unsigned *)(count + 1) < turn * gridDim.x) {}\n",
    "#define WAIT while (atomicAdd(count, 0) < turn * gridDim.x) {}\n"
    "#define AGAIN while (atomicAdd(count + 1, 0) < turn * gridDim.x) {}\n",
};

static void run_grid(const void *user) {
  char source[4096];
  snprintf(source, sizeof source, "%s%s", (const char *)user, grid_barrier);
  enum { kBlocks = 4, kThreads = 64 };
  CUfunction f = device_function(source, "k");
  unsigned zeros[2] = {0};
  CUdeviceptr x = device_upload(NULL, kBlocks * kThreads * 4),
              count = device_upload(zeros, sizeof zeros);
  OK(cuLaunchCooperativeKernel(f, kBlocks, 1, 1, kThreads, 1, 1, 0, NULL, (void *[]){&x, &count}));
  OK(cuCtxSynchronize());
}

static void test_grid_barrier(void **state) {
  (void)state;
  for (int i = 0; i < 2; i++) device_child(all_checks, run_grid, waits[i]);
}

// ---- names --------------------------------------------------------------------------------------

static const char named[] =
    "static __constant__ float c[4] = {1, 2, 3, 4};\n"
    "static __device__ int v = 5;\n"
    "__device__ static int late{6};\n"
    "namespace ns { static __device__ int q = 7; }\n"
    "struct A { int x; };\ntemplate <class T> struct B { T t; };\n"
    "template <class T> __global__ void k(int *p, T a) { p[threadIdx.x] = v; }\n"
    "static __global__ void sk(int *p) { p[threadIdx.x] = v + late + ns::q + c[1]; }\n"
    "template <class T> static __global__ void tk(T *p) { p[threadIdx.x] = T(v); }\n"
    "namespace { __global__ void ak(int *p) { p[threadIdx.x] = v; } }\n";

typedef struct Named {
  const char *expression, *lowered; // lowered: NVRTC's name; null: it has one of its own
} Named;

static const Named names_asked[] = {
    {"k<A>", "_Z1kI1AEvPiT_"}, {"k< B<A> >", "_Z1kI1BI1AEEvPiT_"}, {"sk", "_Z2skPi"},
    {"tk<int>", "_Z2tkIiEvPT_"}, {"ak", NULL},  {"&c", "c"},  {"&v", "v"}, {"&late", "late"},
    {"&ns::q", NULL}};
enum { kNames = sizeof names_asked / sizeof *names_asked, kKernels = 5 };

static void test_names(void **state) {
  (void)state;
  nvrtcProgram program;
  const char *option = device_arch();
  size_t bytes;
  assert_int_equal(nvrtcCreateProgram(&program, named, "named.cu", 0, NULL, NULL), 0);
  for (int i = 0; i < kNames; i++)
    assert_int_equal(nvrtcAddNameExpression(program, names_asked[i].expression), 0);
  assert_int_equal(nvrtcCompileProgram(program, 1, &option), 0);
  assert_int_equal(nvrtcGetCUBINSize(program, &bytes), 0);
  char *image = malloc(bytes);
  assert_int_equal(nvrtcGetCUBIN(program, image), 0);
  CUmodule module;
  OK(cuModuleLoadData(&module, image));
  for (int i = 0; i < kNames; i++) {
    const char *name;
    CUdeviceptr variable;
    CUfunction f;
    assert_int_equal(nvrtcGetLoweredName(program, names_asked[i].expression, &name), 0);
    if (names_asked[i].lowered) assert_string_equal(name, names_asked[i].lowered);
    if (i < kKernels) OK(cuModuleGetFunction(&f, module, name));
    else OK(cuModuleGetGlobal(&variable, &bytes, module, name));
    if (i >= kKernels) assert_int_equal(bytes, i == kKernels ? 16 : 4);
  }
  // What the program writes, the kernel reads.
  const float c[4] = {0, 100};
  const int ten = 10;
  int got[32];
  CUdeviceptr v, x = device_upload(NULL, sizeof got);
  CUfunction sk;
  OK(cuModuleGetGlobal(&v, NULL, module, "c"));
  OK(cuMemcpyHtoD(v, c, sizeof c));
  OK(cuModuleGetGlobal(&v, NULL, module, "v"));
  OK(cuMemcpyHtoD(v, &ten, sizeof ten));
  OK(cuModuleGetGlobal(&v, NULL, module, "late"));
  OK(cuMemcpyHtoD(v, &ten, sizeof ten));
  OK(cuModuleGetFunction(&sk, module, "_Z2skPi"));
  OK(device_run(sk, 1, 32, 0, (void *[]){&x}));
  OK(cuMemcpyDtoH(got, x, sizeof got));
  assert_int_equal(got[31], 127);
  OK(cuModuleUnload(module));
  nvrtcDestroyProgram(&program);
  free(image);
}

// ---- as many blocks as the device holds at once ------------------------------------------------

static void preset(const void *user) {
  setenv("NNGEN_SIM_DEVICE", user, 1);
}

static const char all_meet[] =
    "extern \"C\" __global__ void k(unsigned *count, unsigned *seen) {\n"
    "  __syncthreads();\n"
    "  if (threadIdx.x == 0) { atomicAdd(count, 1); "
    "while (*(volatile unsigned *)count < gridDim.x); }\n"
    "  __syncthreads();\n"
    "  if (threadIdx.x == 1 && *(volatile unsigned *)count == gridDim.x) atomicAdd(seen, 1);\n}\n";

// Of 1024 threads, of 32: 303 104 of them on sm_100a, or 4736 blocks.
static void run_largest(const void *user) {
  (void)user;
  CUfunction f = device_function(all_meet, "k");
  int processors;
  OK(cuDeviceGetAttribute(&processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0));
  for (int threads = 1024; threads >= 32; threads /= 32) {
    int each;
    unsigned got[2] = {0};
    OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&each, f, threads, 0));
    unsigned blocks = (unsigned)(each * processors);
    CUdeviceptr count = device_upload(got, 4), seen = device_upload(got, 4);
    OK(cuLaunchCooperativeKernel(f, blocks, 1, 1, (unsigned)threads, 1, 1, 0, NULL,
                                 (void *[]){&count, &seen}));
    OK(cuCtxSynchronize());
    OK(cuMemcpyDtoH(got, seen, 4));
    assert_int_equal(got[0], blocks);
  }
}

static void test_largest_grids(void **state) {
  (void)state;
  const char *presets[] = {"sm_80", "sm_90a", "sm_100a"};
  for (size_t i = 0; i < sizeof presets / sizeof *presets; i++)
    device_child(preset, run_largest, presets[i]);
}

// ---- the rest of cuda.h -------------------------------------------------------------------------

static int called;
static void on_stream(CUstream stream, CUresult result, void *data) {
  (void)stream;
  called += result == CUDA_SUCCESS && data == &called;
}

static void test_calls(void **state) {
  (void)state;
  void *sim = sim_open(), *function = NULL;
  CUresult (*absent)(int) = (CUresult(*)(int))dlsym(sim, "cuArrayCreate_v2");
  assert_non_null(absent);
  assert_int_equal(absent(0), 801); // NOT_SUPPORTED
  OK(cuGetProcAddress("cuMipmappedArrayCreate", &function, 12000, 0, NULL));
  assert_non_null(function);
  CUresult (*add)(CUstream, void *, void *, unsigned) =
      (CUresult(*)(CUstream, void *, void *, unsigned))dlsym(sim, "cuStreamAddCallback");
  OK(add(NULL, (void *)on_stream, &called, 0));
  OK(cuCtxSynchronize());
  assert_int_equal(called, 1);
}

// Attributes of streams are kept, copied and refused as the driver does; they change nothing else.
static void test_stream_attributes(void **state) {
  (void)state;
  void *sim = sim_open();
  CUresult (*set)(CUstream, int, const void *), (*get)(CUstream, int, void *);
  CUresult (*copy)(CUstream, CUstream);
  *(void **)&set = dlsym(sim, "cuStreamSetAttribute");
  *(void **)&get = dlsym(sim, "cuStreamGetAttribute");
  *(void **)&copy = dlsym(sim, "cuStreamCopyAttributes");
  struct Window {
    void *base;
    size_t bytes;
    float ratio;
    int hit, miss;
  } window = {&set, 4096, 0.5f, 2, 1}, got = {0};
  CUstream a, b;
  int number = 0;
  OK(cuStreamCreate(&a, 0));
  OK(cuStreamCreate(&b, 0));
  OK(set(a, 1, &window));
  OK(get(b, 1, &got));
  assert_int_equal(got.bytes, 0);
  OK(get(b, 3, &number));
  assert_int_equal(number, 1); // automatic
  OK(set(a, 3, &(int){4}));
  OK(set(a, 8, &(int){-3}));
  OK(copy(b, a));
  OK(get(b, 1, &got));
  assert_memory_equal(&got, &window, sizeof got);
  OK(get(b, 3, &number));
  assert_int_equal(number, 4);
  OK(cuStreamGetPriority(b, &number));
  assert_int_equal(number, -3);
  window.ratio = 1.5f;
  assert_int_equal(set(a, 1, &window), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(set(a, 3, &(int){9}), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(set(a, 2, &(int){1}), CUDA_ERROR_INVALID_VALUE); // cooperative: of launches
  assert_int_equal(get(a, 4, &got), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(set(a, 3, NULL), CUDA_ERROR_INVALID_VALUE);
  OK(cuStreamDestroy(b));
  assert_int_equal(copy(a, b), CUDA_ERROR_INVALID_HANDLE);
  OK(cuStreamDestroy(a));
}

// The host's headers are none of a kernel's, as with NVRTC.
static void test_headers(void **state) {
  (void)state;
  char *image, *log;
  assert_int_equal(device_compile("#include <stdio.h>\n", "a.cu", &image, &log),
                   NVRTC_ERROR_COMPILATION);
  assert_non_null(strstr(log, "stdio.h"));
  free(log);
}

// A graph of a fill, a copy of a part of it in rows, a host call and an empty node, replayed under
// several orders of its nodes.
static void in_order(const void *user) {
  setenv("NNGEN_SIM_SEED", user, 1);
}

static void count_up(void *data) {
  ++*(int *)data;
}

static void run_graph(const void *user) {
  (void)user;
  void *sim = sim_open();
  CUresult (*copy_node)(CUgraphNode *, CUgraph, const CUgraphNode *, size_t, const CUDA_MEMCPY3D *,
                        CUcontext);
  CUresult (*fill_node)(CUgraphNode *, CUgraph, const CUgraphNode *, size_t,
                        const CUDA_MEMSET_NODE_PARAMS *, CUcontext);
  CUresult (*host_node)(CUgraphNode *, CUgraph, const CUgraphNode *, size_t,
                        const CUDA_HOST_NODE_PARAMS *);
  CUresult (*empty_node)(CUgraphNode *, CUgraph, const CUgraphNode *, size_t);
  *(void **)&copy_node = dlsym(sim, "cuGraphAddMemcpyNode");
  *(void **)&fill_node = dlsym(sim, "cuGraphAddMemsetNode");
  *(void **)&host_node = dlsym(sim, "cuGraphAddHostNode");
  *(void **)&empty_node = dlsym(sim, "cuGraphAddEmptyNode");
  unsigned short out[8] = {0};
  int calls = 0;
  CUdeviceptr x = device_upload(out, sizeof out);
  CUgraph graph;
  CUgraphNode fill, none, copy, host;
  CUgraphExec exec;
  OK(cuGraphCreate(&graph, 0));
  CUDA_MEMSET_NODE_PARAMS filled = {x, 0, 7, 2, 8, 1};
  OK(fill_node(&fill, graph, NULL, 0, &filled, NULL));
  OK(empty_node(&none, graph, &fill, 1));
  // Two rows of two elements of device memory, of four each, to the host's rows of four.
  CUDA_MEMCPY3D rows = {.srcMemoryType = CU_MEMORYTYPE_DEVICE, .srcDevice = x, .srcPitch = 8,
                        .srcXInBytes = 2, .dstMemoryType = CU_MEMORYTYPE_HOST, .dstHost = out,
                        .dstPitch = 8, .WidthInBytes = 4, .Height = 2, .Depth = 1};
  OK(copy_node(&copy, graph, &none, 1, &rows, NULL));
  OK(host_node(&host, graph, &copy, 1, &(CUDA_HOST_NODE_PARAMS){count_up, &calls}));
  rows.dstPitch = 2;
  assert_int_equal(copy_node(&copy, graph, &none, 1, &rows, NULL), CUDA_ERROR_INVALID_VALUE);
  OK(cuGraphInstantiate(&exec, graph, 0));
  for (int i = 0; i < 2; i++) OK(cuGraphLaunch(exec, NULL));
  OK(cuCtxSynchronize());
  assert_int_equal(calls, 2);
  for (int i = 0; i < 8; i++) assert_int_equal(out[i], i % 4 < 2 ? 7 : 0);
  OK(cuGraphExecDestroy(exec));
  OK(cuGraphDestroy(graph));
}

static void test_graph_nodes(void **state) {
  (void)state;
  const char *seeds[] = {"0", "1", "2", "3"};
  for (int i = 0; i < 4; i++) device_child(in_order, run_graph, seeds[i]);
}

static void test_libraries(void **state) {
  (void)state;
  void *sim = sim_open();
  CUresult (*load)(CUmodule *, const void *, void *, void *, unsigned, void *, void *, unsigned);
  CUresult (*kernel)(CUfunction *, CUmodule, const char *);
  *(void **)&load = dlsym(sim, "cuLibraryLoadData");
  *(void **)&kernel = dlsym(sim, "cuLibraryGetKernel");
  char *image, *log;
  assert_int_equal(device_compile(cases[4].source, "a.cu", &image, &log), NVRTC_SUCCESS);
  CUmodule library;
  CUfunction f;
  OK(load(&library, image, NULL, NULL, 0, NULL, NULL, 0));
  OK(kernel(&f, library, "k"));
  CUdeviceptr x = device_upload(NULL, 256);
  OK(device_run(f, 1, 64, 0, (void *[]){&x}));
  free(image);
  free(log);
}

// What a library holds: its kernels, and where their parameters lie; from PTX as from C++.
static void test_library_contents(void **state) {
  (void)state;
  static const char source[] =
      "extern \"C\" __global__ void first(float *x) { x[0] = 1; }\n"
      "extern \"C\" __global__ void second(char a, double b, short c, float4 d, float *x) {\n"
      "  x[0] = a + float(b) + c + d.z;\n}\n";
  static const size_t places[][2] = {{0, 1}, {8, 8}, {16, 2}, {32, 16}, {48, 8}};
  void *sim = sim_open();
  CUresult (*count)(unsigned *, CUmodule), (*all)(CUfunction *, unsigned, CUmodule);
  CUresult (*param)(CUfunction, size_t, size_t *, size_t *);
  CUresult (*library)(CUmodule *, CUfunction), (*name)(const char **, CUfunction);
  *(void **)&count = dlsym(sim, "cuLibraryGetKernelCount");
  *(void **)&all = dlsym(sim, "cuLibraryEnumerateKernels");
  *(void **)&param = dlsym(sim, "cuKernelGetParamInfo");
  *(void **)&library = dlsym(sim, "cuKernelGetLibrary");
  *(void **)&name = dlsym(sim, "cuKernelGetName");
  CUmodule module = device_module(source), owner;
  CUfunction kernels[3] = {NULL}, second = NULL;
  unsigned n = 0;
  const char *words;
  size_t offset, bytes;
  OK(count(&n, module));
  assert_int_equal(n, 2);
  OK(all(kernels, 3, module));
  assert_true(kernels[0] && kernels[1] && !kernels[2] && kernels[0] != kernels[1]);
  for (int i = 0; i < 2; i++) {
    OK(library(&owner, kernels[i]));
    assert_ptr_equal(owner, module);
    OK(name(&words, kernels[i]));
    if (!strcmp(words, "second")) second = kernels[i];
  }
  for (size_t i = 0; i < 5; i++) {
    OK(param(second, i, &offset, &bytes));
    assert_int_equal(offset, places[i][0]);
    assert_int_equal(bytes, places[i][1]);
  }
  assert_int_equal(param(second, 5, &offset, &bytes), CUDA_ERROR_INVALID_VALUE);
}

// A local array that the usual stack does not hold, in a fiber that ran before, too.
static void test_stack_limit(void **state) {
  (void)state;
  static const char source[] =
      "extern \"C\" __global__ void small(float *x) { __syncthreads(); x[threadIdx.x] = 1; }\n"
      "extern \"C\" __global__ void k(float *x, int n) {\n  volatile int a[20000];\n"
      "  for (int i = 0; i < 20000; i++) a[i] = i;\n  __syncthreads();\n"
      "  x[threadIdx.x] = a[threadIdx.x * n];\n}\n";
  CUresult (*set)(int, size_t), (*get)(size_t *, int);
  *(void **)&set = dlsym(sim_open(), "cuCtxSetLimit");
  *(void **)&get = dlsym(sim_open(), "cuCtxGetLimit");
  char *image, *log;
  assert_int_equal(device_compile(source, "a.cu", &image, &log), NVRTC_SUCCESS);
  CUmodule module;
  CUfunction small, k;
  OK(cuModuleLoadData(&module, image));
  OK(cuModuleGetFunction(&small, module, "small"));
  OK(cuModuleGetFunction(&k, module, "k"));
  CUdeviceptr x = device_upload(NULL, 256);
  float out[64];
  int n = 300;
  size_t bytes = 0;
  OK(device_run(small, 1, 64, 0, (void *[]){&x}));
  OK(set(0, 100000));
  OK(get(&bytes, 0));
  assert_int_equal(bytes, 100000);
  assert_int_equal(set(77, 1), CUDA_ERROR_INVALID_VALUE);
  OK(device_run(k, 1, 64, 0, (void *[]){&x, &n}));
  OK(cuMemcpyDtoH(out, x, sizeof out));
  assert_true(out[63] == 63 * 300);
  OK(cuModuleUnload(module));
  free(image), free(log);
}

int main(void) {
  if (on_gpu()) return puts("1..0 # SKIP only on libcusim"), 0;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_cases), cmocka_unit_test(test_grid_barrier),
      cmocka_unit_test_setup(test_calls, device_setup),
      cmocka_unit_test_setup(test_stream_attributes, device_setup),
      cmocka_unit_test(test_names), cmocka_unit_test(test_headers),
      cmocka_unit_test(test_graph_nodes), cmocka_unit_test(test_libraries),
      cmocka_unit_test(test_library_contents),
      cmocka_unit_test_setup(test_stack_limit, device_setup),
      cmocka_unit_test(test_largest_grids)}; // a minute
  size_t count = sizeof tests / sizeof *tests - !getenv("NNGEN_TEST_LONG");
  return _cmocka_run_group_tests("test_mended", tests, count, NULL, NULL);
}
