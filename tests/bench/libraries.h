// libraries.h: the same contractions by cuBLAS and cuDNN, which are opened with dlopen. A program
// built without their headers, or run where they are not, has no peers and says so.
#ifndef NNGEN_TESTS_BENCH_LIBRARIES_H
#define NNGEN_TESTS_BENCH_LIBRARIES_H

#include <dlfcn.h>

#include "base/base.h"
#include "data/data.h"

#if __has_include(<cudnn.h>) && __has_include(<cublas_v2.h>)
#define HAVE_LIBRARIES 1
#include <cublas_v2.h>
#include <cudnn.h>
#else
#define HAVE_LIBRARIES 0
#endif

typedef struct Shape { // of a contraction; batch: products (matmul) or groups (convolution)
  bool conv, a_transposed, transposed; // a is stored (k, m), b is stored (n, k)
  int64_t m, n, k, batch;
  int x[4], w[4], y[4]; // NCHW, KCRS, NKPQ
  int stride[2], pad[2], dilation[2];
  Dtype dtype; // f16 or bf16
} Shape;

typedef struct Libraries {
  Device *device;
  char why[256]; // there are none; empty: there are
#if HAVE_LIBRARIES
  cublasHandle_t blas;
  cudnnHandle_t dnn;
  CUdeviceptr workspace;
  CUdeviceptr a, b, c; // operands of the shape at hand
  // the call that the graph under way captures
  cudnnTensorDescriptor_t xd, yd;
  cudnnFilterDescriptor_t wd;
  cudnnConvolutionDescriptor_t cd;
  cudnnConvolutionFwdAlgo_t algo;
  size_t algo_bytes;
#define BLAS_CALLS(F) F(cublasCreate_v2) F(cublasDestroy_v2) F(cublasSetStream_v2) \
  F(cublasSetWorkspace_v2) F(cublasGemmStridedBatchedEx)
#define DNN_CALLS(F) F(cudnnCreate) F(cudnnDestroy) F(cudnnSetStream) F(cudnnGetErrorString)       \
  F(cudnnCreateTensorDescriptor) F(cudnnSetTensor4dDescriptor) F(cudnnDestroyTensorDescriptor)     \
  F(cudnnCreateFilterDescriptor) F(cudnnSetFilter4dDescriptor) F(cudnnDestroyFilterDescriptor)     \
  F(cudnnCreateConvolutionDescriptor) F(cudnnSetConvolution2dDescriptor)                           \
  F(cudnnSetConvolutionGroupCount) F(cudnnSetConvolutionMathType)                                  \
  F(cudnnDestroyConvolutionDescriptor) F(cudnnFindConvolutionForwardAlgorithmEx)                   \
  F(cudnnConvolutionForward)
#define DECLARE(call) __typeof__(call) *call##_p;
  BLAS_CALLS(DECLARE) DNN_CALLS(DECLARE)
#undef DECLARE
#endif
} Libraries;

#if HAVE_LIBRARIES

enum { kWorkspace = 256 << 20, kElements = 1 << 21 }; // bytes; random elements, repeated

#define BLAS(l, call, ...) library_check((l), (int)(l)->call##_p(__VA_ARGS__), "cuBLAS", #call)
#define DNN(l, call, ...) library_check((l), (int)(l)->call##_p(__VA_ARGS__), "cuDNN", #call)

static bool library_check(Libraries *l, int status, const char *library, const char *call) {
  if (status && !l->why[0])
    snprintf(l->why, sizeof l->why, "%s: %s gives %d", library, call, status);
  return !status;
}

static void *library_symbol(Libraries *l, void *library, const char *name) {
  void *address = dlsym(library, name);
  if (!address && !l->why[0]) snprintf(l->why, sizeof l->why, "%s is missing", name);
  return address;
}

static bool library_load(Libraries *l) {
  FoundLibrary found;
  void *blas = find_library(FindCublas, NULL, 0, &found);
  find_free(&found);
  void *dnn = find_library(FindCudnn, NULL, 0, &found);
  find_free(&found);
  if (!blas || !dnn) snprintf(l->why, sizeof l->why, "%s is not found", blas ? "cuDNN" : "cuBLAS");
  if (!blas || !dnn) return false;
#define LOAD_BLAS(call) *(void **)&l->call##_p = library_symbol(l, blas, #call);
#define LOAD_DNN(call) *(void **)&l->call##_p = library_symbol(l, dnn, #call);
  BLAS_CALLS(LOAD_BLAS) DNN_CALLS(LOAD_DNN)
  return !l->why[0];
}

static void libraries_open(Libraries *l, Device *device) {
  *l = (Libraries){.device = device};
  if (!library_load(l)) return;
  if (device_info(device)->kind != DeviceCuda) {
    snprintf(l->why, sizeof l->why, "libcusim runs no cuBLAS and no cuDNN");
    return;
  }
  cudaStream_t stream = (cudaStream_t)device->stream;
  if (device->api.cuMemAlloc(&l->workspace, kWorkspace))
    snprintf(l->why, sizeof l->why, "no memory for the workspace");
  else if (BLAS(l, cublasCreate_v2, &l->blas) && BLAS(l, cublasSetStream_v2, l->blas, stream) &&
           BLAS(l, cublasSetWorkspace_v2, l->blas, (void *)l->workspace, kWorkspace) &&
           DNN(l, cudnnCreate, &l->dnn))
    DNN(l, cudnnSetStream, l->dnn, stream);
}

static void libraries_close(Libraries *l) {
  if (l->blas) l->cublasDestroy_v2_p(l->blas);
  if (l->dnn) l->cudnnDestroy_p(l->dnn);
  if (l->workspace) l->device->api.cuMemFree(l->workspace);
}

// ---- operands: random normal values -------------------------------------------------------------

static CUdeviceptr random_operand(Libraries *l, int64_t count, Dtype dtype) {
  static uint16_t pattern[2][kElements];
  uint16_t *values = pattern[dtype == DtBf16];
  const DriverApi *api = &l->device->api;
  CUdeviceptr at = 0;
  uint64_t state = 1;
  for (int i = 0; !values[kElements - 1] && i < kElements; i++) {
    float sum = -6; // of twelve uniform numbers: variance 1
    for (int k = 0; k < 12; k++) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      sum += (float)(state >> 40) * 0x1p-24f;
    }
    values[i] = dtype == DtBf16 ? bf16_from_float(sum) : half_from_float(sum);
  }
  if (api->cuMemAlloc(&at, (size_t)count * 2)) {
    if (!l->why[0]) snprintf(l->why, sizeof l->why, "no memory for the operands of the libraries");
    return 0;
  }
  for (int64_t done = 0; done < count; done += kElements)
    api->cuMemcpyHtoD(at + (CUdeviceptr)done * 2, values,
                      (size_t)(count - done < kElements ? count - done : kElements) * 2);
  return at;
}

static int64_t volume(const int dim[4]) {
  return (int64_t)dim[0] * dim[1] * dim[2] * dim[3];
}

static bool take_operands(Libraries *l, const Shape *s) {
  int64_t a = s->conv ? volume(s->x) : s->batch * s->m * s->k;
  int64_t b = s->conv ? volume(s->w) : s->batch * s->n * s->k;
  l->a = random_operand(l, a, s->dtype);
  l->b = random_operand(l, b, s->dtype);
  l->c = random_operand(l, s->conv ? volume(s->y) : s->batch * s->m * s->n, s->dtype);
  return l->a && l->b && l->c;
}

static void free_operands(Libraries *l) {
  CUdeviceptr *all[] = {&l->a, &l->b, &l->c};
  for (int i = 0; i < 3; i++) {
    if (*all[i]) l->device->api.cuMemFree(*all[i]);
    *all[i] = 0;
  }
}

// ---- the calls ----------------------------------------------------------------------------------

// Row-major c = a b is column-major c' = b' a'.
static bool call_blas(Libraries *l, const Shape *s) {
  const float one = 1, zero = 0;
  cudaDataType_t type = s->dtype == DtBf16 ? CUDA_R_16BF : CUDA_R_16F;
  int m = (int)s->m, n = (int)s->n, k = (int)s->k;
  return BLAS(l, cublasGemmStridedBatchedEx, l->blas, s->transposed ? CUBLAS_OP_T : CUBLAS_OP_N,
              s->a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N, n, m, k, &one, (const void *)l->b, type,
              s->transposed ? k : n, (long long)n * k, (const void *)l->a, type,
              s->a_transposed ? m : k, (long long)m * k, &zero, (void *)l->c, type, n,
              (long long)m * n, (int)s->batch, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
}

static bool call_dnn(Libraries *l, const Shape *s) {
  const float one = 1, zero = 0;
  (void)s;
  return DNN(l, cudnnConvolutionForward, l->dnn, &one, l->xd, (const void *)l->a, l->wd,
             (const void *)l->b, l->cd, l->algo, (void *)l->workspace, l->algo_bytes, &zero, l->yd,
             (void *)l->c);
}

static bool describe_conv(Libraries *l, const Shape *s) {
  cudnnDataType_t type = s->dtype == DtBf16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_HALF;
  const cudnnTensorFormat_t nhwc = CUDNN_TENSOR_NHWC;
  return DNN(l, cudnnCreateTensorDescriptor, &l->xd) &&
         DNN(l, cudnnCreateTensorDescriptor, &l->yd) &&
         DNN(l, cudnnCreateFilterDescriptor, &l->wd) &&
         DNN(l, cudnnCreateConvolutionDescriptor, &l->cd) &&
         DNN(l, cudnnSetTensor4dDescriptor, l->xd, nhwc, type, s->x[0], s->x[1], s->x[2],
             s->x[3]) &&
         DNN(l, cudnnSetTensor4dDescriptor, l->yd, nhwc, type, s->y[0], s->y[1], s->y[2],
             s->y[3]) &&
         DNN(l, cudnnSetFilter4dDescriptor, l->wd, type, nhwc, s->w[0], s->w[1], s->w[2],
             s->w[3]) &&
         DNN(l, cudnnSetConvolution2dDescriptor, l->cd, s->pad[0], s->pad[1], s->stride[0],
             s->stride[1], s->dilation[0], s->dilation[1], CUDNN_CROSS_CORRELATION,
             CUDNN_DATA_FLOAT) &&
         DNN(l, cudnnSetConvolutionGroupCount, l->cd, (int)s->batch) &&
         DNN(l, cudnnSetConvolutionMathType, l->cd, CUDNN_TENSOR_OP_MATH);
}

// cuDNN times its algorithms on these operands, and the fastest that fits is taken.
static bool find_algorithm(Libraries *l) {
  cudnnConvolutionFwdAlgoPerf_t found[8];
  int count = 0;
  if (!DNN(l, cudnnFindConvolutionForwardAlgorithmEx, l->dnn, l->xd, (const void *)l->a, l->wd,
           (const void *)l->b, l->cd, l->yd, (void *)l->c, 8, &count, found, (void *)l->workspace,
           kWorkspace))
    return false;
  for (int i = 0; i < count; i++) // sorted by time
    if (found[i].status == CUDNN_STATUS_SUCCESS && found[i].memory <= kWorkspace) {
      l->algo = found[i].algo;
      l->algo_bytes = found[i].memory;
      return DNN(l, cudnnSetConvolutionMathType, l->cd, found[i].mathType);
    }
  return library_check(l, -1, "cuDNN", "no algorithm for this shape");
}

static void forget_conv(Libraries *l) {
  if (l->xd) l->cudnnDestroyTensorDescriptor_p(l->xd);
  if (l->yd) l->cudnnDestroyTensorDescriptor_p(l->yd);
  if (l->wd) l->cudnnDestroyFilterDescriptor_p(l->wd);
  if (l->cd) l->cudnnDestroyConvolutionDescriptor_p(l->cd);
  l->xd = l->yd = NULL, l->wd = NULL, l->cd = NULL;
}

// ---- as a graph ---------------------------------------------------------------------------------

static bool capture_calls(Libraries *l, const Shape *s, int launches, CUgraphExec *exec) {
  const DriverApi *api = &l->device->api;
  CUgraph graph = NULL;
  bool good = (s->conv ? call_dnn : call_blas)(l, s); // once outside: whatever is set up lazily
  if (api->cuStreamSynchronize(l->device->stream) ||
      api->cuStreamBeginCapture(l->device->stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL))
    good = library_check(l, -1, "driver", "capture");
  for (int i = 0; good && i < launches; i++) good = (s->conv ? call_dnn : call_blas)(l, s);
  if (api->cuStreamEndCapture(l->device->stream, &graph) || !graph)
    good = library_check(l, -1, "driver", "cuStreamEndCapture");
  if (good && api->cuGraphInstantiate(exec, graph, 0))
    good = library_check(l, -1, "driver", "cuGraphInstantiate");
  if (graph) api->cuGraphDestroy(graph);
  return good;
}

// The shape `launches` times as a graph; null: l->why says why not. Ends with libraries_drop.
static CUgraphExec libraries_graph(Libraries *l, const Shape *s, int launches) {
  CUgraphExec exec = NULL;
  if (!l->blas || !l->dnn) return NULL; // why: as libraries_open said
  l->why[0] = 0;
  bool ready = take_operands(l, s) &&
               (!s->conv || (describe_conv(l, s) && find_algorithm(l)));
  return ready && capture_calls(l, s, launches, &exec) ? exec : NULL;
}

static void libraries_drop(Libraries *l, CUgraphExec exec) {
  if (exec) l->device->api.cuGraphExecDestroy(exec);
  forget_conv(l);
  free_operands(l);
}

#else

static void libraries_open(Libraries *l, Device *device) {
  *l = (Libraries){.device = device, .why = "built without the headers of cuBLAS and cuDNN"};
}
static void libraries_close(Libraries *l) { (void)l; }
static CUgraphExec libraries_graph(Libraries *l, const Shape *s, int launches) {
  (void)l, (void)s, (void)launches;
  return NULL;
}
static void libraries_drop(Libraries *l, CUgraphExec exec) { (void)l, (void)exec; }

#endif
#endif
