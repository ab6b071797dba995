// cutlass_gemm.cu: a GEMM of CUTLASS for sm_90a, halves in, floats out, warp-specialised, by TMA and
// wgmma. SCHEDULE names the kernel's, EPILOGUE the epilogue's. Its PTX is what runs; the rest is for the
// host, where make_params makes the kernel's parameters.
#include <cstring>
#include <cuda.h>

#include "cute/tensor.hpp"
#include "cutlass/cutlass.h"
#include "cutlass/epilogue/collective/collective_builder.hpp"
#include "cutlass/gemm/collective/collective_builder.hpp"
#include "cutlass/gemm/device/gemm_universal_adapter.h"
#include "cutlass/gemm/kernel/gemm_universal.hpp"
#include "cutlass/util/packed_stride.hpp"

using Element = cutlass::half_t;
using RowMajor = cutlass::layout::RowMajor;
using ColumnMajor = cutlass::layout::ColumnMajor;
using BlockTile = cute::Shape<cute::_128, cute::_128, cute::_64>;
using OneBlock = cute::Shape<cute::_1, cute::_1, cute::_1>;

using Epilogue = cutlass::epilogue::collective::CollectiveBuilder<
    cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, BlockTile, OneBlock,
    cutlass::epilogue::collective::EpilogueTileAuto, float, float, float, RowMajor, 4, float, RowMajor,
    4, cutlass::epilogue::EPILOGUE>::CollectiveOp;
using Mainloop = cutlass::gemm::collective::CollectiveBuilder<
    cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, Element, RowMajor, 8, Element, ColumnMajor, 8,
    float, BlockTile, OneBlock,
    cutlass::gemm::collective::StageCountAutoCarveout<int(sizeof(Epilogue::SharedStorage))>,
    cutlass::gemm::SCHEDULE>::CollectiveOp;
using Kernel = cutlass::gemm::kernel::GemmUniversal<cute::Shape<int, int, int, int>, Mainloop, Epilogue>;
template __global__ void
cutlass::device_kernel<Kernel>(CUTLASS_GRID_CONSTANT typename Kernel::Params const);

template <class Stride> static Stride packed(int rows, int columns) {
  return cutlass::make_cute_packed_stride(Stride{}, cute::make_shape(rows, columns, 1));
}

// D = A * B + C / 2. Returns 0, the parameters' bytes, and how to launch.
extern "C" int make_params(CUdeviceptr a, CUdeviceptr b, CUdeviceptr c, CUdeviceptr d, int M, int N,
                           int K, void *out, int *bytes, int *smem, int *threads, int *grid) {
  cutlass::KernelHardwareInfo hardware;
  hardware.device_id = 0;
  hardware.sm_count = hardware.max_active_clusters = 4;
  typename Kernel::Arguments arguments{
      cutlass::gemm::GemmUniversalMode::kGemm,
      {M, N, K, 1},
      {(Element *)a, packed<Kernel::StrideA>(M, K), (Element *)b, packed<Kernel::StrideB>(N, K)},
      {{1.0f, 0.5f}, (float *)c, packed<Kernel::StrideC>(M, N), (float *)d, packed<Kernel::StrideD>(M, N)},
      hardware};
  if (!Kernel::can_implement(arguments)) return 1;
  auto params = Kernel::to_underlying_arguments(arguments, nullptr);
  memcpy(out, &params, sizeof params);
  *bytes = sizeof params;
  *smem = Kernel::SharedStorageSize;
  *threads = Kernel::MaxThreadsPerBlock;
  dim3 blocks = Kernel::get_grid_shape(params);
  grid[0] = int(blocks.x), grid[1] = int(blocks.y), grid[2] = int(blocks.z);
  return 0;
}
