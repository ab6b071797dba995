// cutlass_sm80.cu: for sm_80, by mma.sync and cp.async: a GEMM of CUTLASS, or with CONV an implicit-GEMM
// convolution (forward), halves in, floats out. For what, see cutlass_gemm.cu.
#include <cstring>
#include <cuda.h>

#include "cutlass/conv/kernel/default_conv2d_fprop.h"
#include "cutlass/cutlass.h"
#include "cutlass/gemm/device/gemm.h"

using Element = cutlass::half_t;
using Epilogue = cutlass::epilogue::thread::LinearCombination<float, 4, float, float>;
using BlockTile = cutlass::gemm::GemmShape<128, 128, 32>;
using WarpTile = cutlass::gemm::GemmShape<64, 64, 32>;
using Instruction = cutlass::gemm::GemmShape<16, 8, 16>;
using Swizzle = cutlass::gemm::threadblock::GemmIdentityThreadblockSwizzle<>;

#ifdef CONV
using NHWC = cutlass::layout::TensorNHWC;
using Kernel = typename cutlass::conv::kernel::DefaultConv2dFprop<
    Element, NHWC, Element, NHWC, float, NHWC, float, cutlass::arch::OpClassTensorOp, cutlass::arch::Sm80,
    BlockTile, WarpTile, Instruction, Epilogue, Swizzle, 3, cutlass::arch::OpMultiplyAdd,
    cutlass::conv::IteratorAlgorithm::kOptimized>::Kernel;
#else
using Kernel = typename cutlass::gemm::device::Gemm<
    Element, cutlass::layout::RowMajor, Element, cutlass::layout::ColumnMajor, float,
    cutlass::layout::RowMajor, float, cutlass::arch::OpClassTensorOp, cutlass::arch::Sm80, BlockTile,
    WarpTile, Instruction, Epilogue, Swizzle, 3>::GemmKernel;
#endif
template __global__ void cutlass::Kernel<Kernel>(typename Kernel::Params);

static int give(const Kernel::Params &params, dim3 blocks, void *out, int *bytes, int *smem, int *threads,
                int *grid) {
  memcpy(out, &params, sizeof params);
  *bytes = sizeof params;
  *smem = int(sizeof(typename Kernel::SharedStorage));
  *threads = Kernel::kThreadCount;
  grid[0] = int(blocks.x), grid[1] = int(blocks.y), grid[2] = int(blocks.z);
  return 0;
}

#ifdef CONV
// n, h, w, c, k, r, s, pad of D = conv(A, B) + C / 2: what the reference computes.
extern "C" const int conv_shape[8] = {2, 12, 12, 32, 64, 3, 3, 1};
extern "C" int make_params(CUdeviceptr a, CUdeviceptr b, CUdeviceptr c, CUdeviceptr d, int, int, int, void *out,
                           int *bytes, int *smem, int *threads, int *grid) {
  const int *q = conv_shape;
  cutlass::conv::Conv2dProblemSize problem({q[0], q[1], q[2], q[3]}, {q[4], q[5], q[6], q[3]},
                                           {q[7], q[7], q[7], q[7]}, {1, 1}, {1, 1},
                                           {q[0], q[1], q[2], q[4]},
                                           cutlass::conv::Mode::kCrossCorrelation, 1);
  auto in = NHWC::packed({q[0], q[1], q[2], q[3]}), filter = NHWC::packed({q[4], q[5], q[6], q[3]}),
       result = NHWC::packed({q[0], q[1], q[2], q[4]});
  typename Kernel::Arguments arguments(problem, {(Element *)a, in}, {(Element *)b, filter},
                                       {(float *)c, result}, {(float *)d, result}, {1.0f, 0.5f});
  Kernel::Params params(arguments);
  Swizzle swizzle;
  return give(params, swizzle.get_grid_shape(params.grid_tiled_shape), out, bytes, smem, threads, grid);
}
#else
// D = A * B + C / 2.
extern "C" int make_params(CUdeviceptr a, CUdeviceptr b, CUdeviceptr c, CUdeviceptr d, int M, int N, int K,
                           void *out, int *bytes, int *smem, int *threads, int *grid) {
  Swizzle swizzle;
  cutlass::gemm::GemmCoord size(M, N, K),
      tiles = swizzle.get_tiled_shape(size, {BlockTile::kM, BlockTile::kN, BlockTile::kK}, 1);
  Kernel::Params params(size, tiles, {(Element *)a, K}, {(Element *)b, K}, {(float *)c, N}, {(float *)d, N},
                        {1.0f, 0.5f});
  return give(params, swizzle.get_grid_shape(tiles), out, bytes, smem, threads, grid);
}
#endif
