// test_abi.c: libcusim exports every symbol of cuda_api.def and no other of such a name, and
// cuda_api.h agrees with NVIDIA's headers, constant by constant and struct by struct, where those
// are installed (else skipped).
#include "tests/sim/device.h"

#include <elf.h>

static const char *symbols[] = {
#define CUDA_API(name, symbol, params) #symbol,
#define NVRTC_API(name, symbol, params) #symbol,
#define NVRTC_TEXT(name, symbol, params) #symbol,
#include "cuda_api.def"
#define NEWER_API(name, symbol, since, params) #symbol,
#include "sim/newer.def"
#define ABSENT(name) #name,
#include "sim/absent.def"
#define PER_THREAD(name, end) #name #end,
#include "sim/per_thread.def"
};
enum { kSymbols = sizeof symbols / sizeof *symbols };

static void test_exports(void **state) {
  (void)state;
  void *sim = dlopen("build/libcusim.so", RTLD_NOW);
  assert_non_null(sim);
  for (int i = 0; i < kSymbols; i++)
    if (!dlsym(sim, symbols[i])) fail_msg("libcusim lacks %s", symbols[i]);
}

static bool is_listed(const char *name) {
  int i = 0;
  while (i < kSymbols && strcmp(symbols[i], name)) i++;
  return i < kSymbols;
}

// Nothing of the driver's or NVRTC's names is exported that no list has.
static void test_exports_no_more(void **state) {
  (void)state;
  char *image = file_read("build/libcusim.so");
  assert_non_null(image);
  const Elf64_Ehdr *h = (const Elf64_Ehdr *)image;
  const Elf64_Shdr *s = (const Elf64_Shdr *)(image + h->e_shoff);
  int exported = 0;
  for (int i = 0; i < h->e_shnum; i++) {
    if (s[i].sh_type != SHT_DYNSYM) continue;
    const Elf64_Sym *symbol = (const Elf64_Sym *)(image + s[i].sh_offset);
    for (size_t k = 0; k < s[i].sh_size / sizeof *symbol; k++) {
      const char *name = image + s[s[i].sh_link].sh_offset + symbol[k].st_name;
      bool api =
          (!strncmp(name, "cu", 2) && strncmp(name, "cusim", 5)) || !strncmp(name, "nvrtc", 5);
      if (symbol[k].st_shndx == SHN_UNDEF || !api) continue;
      if (!is_listed(name)) fail_msg("cuda_api.def lacks %s", name);
      exported++;
    }
  }
  assert_int_equal(exported, kSymbols);
  free(image);
}

static void test_get_proc_address(void **state) {
  (void)state;
  void *function = NULL;
  int status = -1;
  OK(cuGetProcAddress("cuMemAlloc", &function, 12000, 0, &status));
  assert_ptr_equal(function, (void *)cuMemAlloc);
  assert_int_equal(status, 0);
  for (int i = 0; i < kSymbols; i++) // names of threads' own streams are asked for by a flag
    if (symbols[i][0] == 'c' && !strstr(symbols[i], "_pt"))
      OK(cuGetProcAddress(symbols[i], &function, 12000, 0, &status));
  assert_int_equal(cuGetProcAddress("cuNothing", &function, 12000, 0, &status),
                   CUDA_ERROR_NOT_FOUND);
  assert_null(function);
}

// A call by its other name, as a program has it that was built for threads' own streams.
static void test_per_thread(void **state) {
  (void)state;
  if (on_gpu()) skip();
  void *sim = dlopen("build/libcusim.so", RTLD_NOW);
  CUresult (*set)(CUdeviceptr, unsigned, size_t), (*wait)(CUstream);
  *(void **)&set = dlsym(sim, "cuMemsetD32_v2_ptds");
  *(void **)&wait = dlsym(sim, "cuStreamSynchronize_ptsz");
  unsigned got[4] = {0};
  CUdeviceptr ptr = device_upload(NULL, sizeof got);
  OK(set(ptr, 7, 4));
  OK(wait(NULL));
  OK(cuMemcpyDtoH(got, ptr, sizeof got));
  assert_int_equal(got[3], 7);
}

// The newest form that the version knows.
static void test_versions(void **state) {
  (void)state;
  if (on_gpu()) skip();
  void *old, *new;
  OK(cuGetProcAddress("cuGraphGetEdges", &old, 12000, 0, NULL));
  OK(cuGetProcAddress("cuGraphGetEdges", &new, 13000, 0, NULL));
  assert_ptr_equal(old, (void *)cuGraphGetEdges);
  assert_ptr_not_equal(old, new);
  CUresult (*create)(CUcontext *, CUctxCreateParams *, unsigned, CUdevice);
  CUctxCreateParams params = {.cigParams = &params};
  CUcontext ctx;
  OK(cuGetProcAddress("cuCtxCreate", (void **)&create, 13000, 0, NULL));
  assert_int_equal(create(&ctx, &params, 0, 0), CUDA_ERROR_NOT_SUPPORTED);
  OK(create(&ctx, NULL, 0, 0));
  OK(cuCtxDestroy(ctx));
}

// Every constant and offset, once in our spelling and once in NVIDIA's.
#define CONSTANTS(X)                                                                               \
  X(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK) X(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X)              \
  X(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z) X(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X)                     \
  X(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z) X(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK)         \
  X(CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY) X(CU_DEVICE_ATTRIBUTE_WARP_SIZE)                    \
  X(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK) X(CU_DEVICE_ATTRIBUTE_CLOCK_RATE)                 \
  X(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT) X(CU_DEVICE_ATTRIBUTE_INTEGRATED)                    \
  X(CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY) X(CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS)             \
  X(CU_DEVICE_ATTRIBUTE_ECC_ENABLED) X(CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE)                      \
  X(CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH) X(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)              \
  X(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR) X(CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT)  \
  X(CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING) X(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)        \
  X(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)                                                  \
  X(CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED)                                               \
  X(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR)                                      \
  X(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR) X(CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY)    \
  X(CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH)                                                        \
  X(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)                                         \
  X(CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR)                                             \
  X(CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK)                                          \
  X(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED) X(CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH)              \
  X(CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED) X(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK)    \
  X(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES) X(CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES)                     \
  X(CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES) X(CU_FUNC_ATTRIBUTE_NUM_REGS)                              \
  X(CU_FUNC_ATTRIBUTE_PTX_VERSION) X(CU_FUNC_ATTRIBUTE_BINARY_VERSION)                             \
  X(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)                                               \
  X(CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT)                                            \
  X(CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED) X(CU_POINTER_ATTRIBUTE_CONTEXT)           \
  X(CU_POINTER_ATTRIBUTE_MEMORY_TYPE) X(CU_POINTER_ATTRIBUTE_DEVICE_POINTER)                       \
  X(CU_POINTER_ATTRIBUTE_HOST_POINTER) X(CU_POINTER_ATTRIBUTE_IS_MANAGED)                          \
  X(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL) X(CU_POINTER_ATTRIBUTE_RANGE_START_ADDR)                  \
  X(CU_POINTER_ATTRIBUTE_RANGE_SIZE) X(CU_POINTER_ATTRIBUTE_MAPPED) X(CU_MEMORYTYPE_HOST)          \
  X(CU_MEMORYTYPE_DEVICE) X(CU_MEMORYTYPE_ARRAY) X(CU_MEMORYTYPE_UNIFIED)                          \
  X(CU_STREAM_NON_BLOCKING) X(CU_EVENT_BLOCKING_SYNC) X(CU_EVENT_DISABLE_TIMING)                   \
  X(CU_EVENT_RECORD_EXTERNAL) X(CU_EVENT_WAIT_EXTERNAL) X(CU_MEMHOSTALLOC_PORTABLE)                \
  X(CU_MEMHOSTALLOC_DEVICEMAP) X(CU_MEMHOSTALLOC_WRITECOMBINED) X(CU_STREAM_CAPTURE_MODE_GLOBAL)   \
  X(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL) X(CU_STREAM_CAPTURE_MODE_RELAXED)                         \
  X(CU_STREAM_CAPTURE_STATUS_ACTIVE) X(CU_STREAM_CAPTURE_STATUS_INVALIDATED)                       \
  X(CU_GRAPH_NODE_TYPE_KERNEL) X(CU_GRAPH_NODE_TYPE_MEMCPY) X(CU_GRAPH_NODE_TYPE_MEMSET)           \
  X(CU_GRAPH_NODE_TYPE_HOST) X(CU_GRAPH_NODE_TYPE_EMPTY) X(CU_GRAPH_NODE_TYPE_EVENT_RECORD)        \
  X(CU_GRAPH_NODE_TYPE_MEM_ALLOC) X(CU_GRAPH_NODE_TYPE_MEM_FREE)                                   \
  X(CU_GRAPH_EXEC_UPDATE_ERROR) X(CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED)                     \
  X(CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED) X(CU_GRAPH_EXEC_UPDATE_ERROR_FUNCTION_CHANGED)   \
  X(CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED) X(CU_MEMPOOL_ATTR_RELEASE_THRESHOLD)            \
  X(CU_MEMPOOL_ATTR_USED_MEM_HIGH) X(CU_MEM_ALLOCATION_TYPE_PINNED)                                \
  X(CU_MEM_LOCATION_TYPE_DEVICE) X(CU_JIT_MAX_REGISTERS) X(CU_JIT_INFO_LOG_BUFFER)                 \
  X(CU_JIT_ERROR_LOG_BUFFER) X(CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES)                                 \
  X(CU_LAUNCH_ATTRIBUTE_COOPERATIVE) X(CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)                      \
  X(CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION) X(CU_LAUNCH_ATTRIBUTE_PRIORITY)         \
  X(sizeof(CUdeviceptr)) X(sizeof(CUmemPoolProps)) X(offsetof(CUmemPoolProps, maxSize))            \
  X(sizeof(CUDA_MEMCPY2D)) X(offsetof(CUDA_MEMCPY2D, dstXInBytes))                                 \
  X(offsetof(CUDA_MEMCPY2D, dstPitch)) X(offsetof(CUDA_MEMCPY2D, Height))                          \
  X(sizeof(CUlaunchAttribute)) X(offsetof(CUlaunchAttribute, value)) X(sizeof(CUlaunchConfig))     \
  X(offsetof(CUlaunchConfig, hStream)) X(offsetof(CUlaunchConfig, numAttrs))                       \
  X(sizeof(CUDA_KERNEL_NODE_PARAMS)) X(offsetof(CUDA_KERNEL_NODE_PARAMS, kernelParams))            \
  X(offsetof(CUDA_KERNEL_NODE_PARAMS, ctx)) X(sizeof(CUgraphExecUpdateResultInfo))                 \
  X(sizeof(CUgraphEdgeData)) X(sizeof(CUctxCreateParams))                                          \
  X(offsetof(CUctxCreateParams, cigParams)) X(sizeof(CUresult)) X(sizeof(nvrtcResult))

static const struct {
  const char *text;
  long long value;
} constants[] = {
#define CONSTANT(x) {#x, (long long)(x)},
    CONSTANTS(CONSTANT)
#define CUDA_CONSTANT(name, code, text) {"CUDA_ERROR_" #name, code},
    CUDA_ERRORS(CUDA_CONSTANT)
#define NVRTC_CONSTANT(name, code) {#name, code},
    NVRTC_ERRORS(NVRTC_CONSTANT)};

static const char *cuda_include(void) {
  static const char *folders[] = {"/usr/local/cuda/include", "/usr/include"};
  for (int i = 0; i < 2; i++) {
    char path[128];
    snprintf(path, sizeof path, "%s/cuda.h", folders[i]);
    FILE *f = fopen(path, "r");
    if (f) return fclose(f), folders[i];
  }
  return NULL;
}

// Compiles static assertions of our values against cuda.h and nvrtc.h.
static void test_headers(void **state) {
  (void)state;
  const char *folder = cuda_include();
  if (!folder) skip();
  FILE *f = fopen("build/abi_check.c", "w");
  assert_non_null(f);
  fprintf(f, "#include <stddef.h>\n#include <cuda.h>\n#include <nvrtc.h>\n");
  for (size_t i = 0; i < sizeof constants / sizeof *constants; i++)
    fprintf(f, "_Static_assert((long long)(%s) == %lld, \"%s\");\n", constants[i].text,
            constants[i].value, constants[i].text);
  assert_int_equal(fclose(f), 0);
  char command[256];
  snprintf(command, sizeof command, "cc -std=c11 -fsyntax-only -I%s build/abi_check.c 1>&2",
           folder);
  assert_int_equal(system(command), 0);
}

// What cuda.h makes of each name of cuda_api.def is exported, and handed out for that version.
static void test_header_names(void **state) {
  (void)state;
  static const char *const names[] = {
#define CUDA_API(name, symbol, params) #name,
#define NVRTC_API(name, symbol, params)
#define NVRTC_TEXT(name, symbol, params)
#include "cuda_api.def"
  };
  const char *folder = cuda_include();
  if (!folder || on_gpu()) skip();
  FILE *f = fopen("build/abi_names.c", "w");
  assert_non_null(f);
  fprintf(f, "#include <cuda.h>\n#define TEXT(x) #x\n#define ROW(name, x) row name TEXT(x)\n");
  fprintf(f, "version CUDA_VERSION\n");
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    fprintf(f, "ROW(\"%s\", %s)\n", names[i], names[i]);
  assert_int_equal(fclose(f), 0);
  char command[256], line[256], name[128], symbol[128];
  snprintf(command, sizeof command, "cc -E -P -I%s build/abi_names.c", folder);
  FILE *pipe = popen(command, "r");
  void *sim = dlopen("build/libcusim.so", RTLD_NOW), *function;
  size_t rows = 0;
  int version = 0;
  while (fgets(line, sizeof line, pipe)) {
    sscanf(line, "version %d", &version);
    if (sscanf(line, "row \"%127[^\"]\" \"%127[^\"]\"", name, symbol) != 2) continue;
    rows++;
    if (!dlsym(sim, symbol)) fail_msg("libcusim lacks %s", symbol);
    OK(cuGetProcAddress(name, &function, version, 0, NULL));
    if (function != dlsym(sim, symbol)) fail_msg("%s: not %s, version %d", name, symbol, version);
  }
  assert_int_equal(pclose(pipe), 0);
  assert_true(rows == sizeof names / sizeof *names && version >= 12000);
}

static void test_error_texts(void **state) {
  (void)state;
  const char *text;
  OK(cuGetErrorName(CUDA_ERROR_OUT_OF_MEMORY, &text));
  assert_string_equal(text, "CUDA_ERROR_OUT_OF_MEMORY");
  OK(cuGetErrorString(CUDA_ERROR_OUT_OF_MEMORY, &text));
  assert_string_equal(text, "out of memory");
  OK(cuGetErrorName(CUDA_SUCCESS, &text));
  assert_string_equal(text, "CUDA_SUCCESS");
  assert_int_equal(cuGetErrorName((CUresult)12345, &text), CUDA_ERROR_INVALID_VALUE);
  assert_null(text);
  assert_string_equal(nvrtcGetErrorString(NVRTC_ERROR_COMPILATION), "NVRTC_ERROR_COMPILATION");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_exports), cmocka_unit_test(test_exports_no_more),
      cmocka_unit_test(test_get_proc_address), cmocka_unit_test(test_versions),
      cmocka_unit_test(test_per_thread),
      cmocka_unit_test(test_headers), cmocka_unit_test(test_header_names),
      cmocka_unit_test(test_error_texts)};
  return cmocka_run_group_tests(tests, device_setup, NULL);
}
