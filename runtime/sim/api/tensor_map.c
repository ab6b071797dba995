// tensor_map.c: tensor maps, which describe a tensor in global memory and the box that a copy
// moves.
#include "sim/api/api.h"

#include <string.h>

enum { kTypes = 13, kMostBox = 256 };
enum { InterleaveNone, Interleave16, Interleave32 }; // as cuda.h numbers them

// cuda.h's numbers of the types in the order of tensormap.replace, which the map keeps.
static const unsigned char numbers[kTypes] = {0, 1, 2, 3, 4, 5, 6, 7, 9, 10, 8, 11, 12};
static const unsigned char type_bytes[kTypes] = {1, 2, 4, 4, 8, 8, 2, 4, 4, 8, 2, 4, 4};

static CUresult bad(const char *what) {
  return sim_refuse(CUDA_ERROR_INVALID_VALUE, "a tensor map: %s", what);
}

static bool is_float(int type) { // cuda.h's number
  return type >= 6;
}

static CUresult check_modes(int type, unsigned rank, const void *address, int interleave,
                            int swizzle, int fill) {
  if (swizzle < 0 || swizzle > 3) return bad("this swizzle mode is not modelled");
  if (fill < 0 || fill > 1) return bad("unknown fill mode");
  if (fill && !is_float(type)) return bad("elements that are no floats are filled with zeros only");
  if (interleave < 0 || interleave > Interleave32) return bad("unknown interleave layout");
  if (interleave && rank < 3) return bad("interleaved are tensors of 3 to 5 dimensions");
  if (interleave != Interleave32) return CUDA_SUCCESS;
  if (swizzle != 1) return bad("interleaved by 32 bytes, it must have the swizzle of 32 bytes");
  if ((uintptr_t)address % 32)
    return bad("interleaved by 32 bytes, its tensor is not aligned to 32 bytes");
  return CUDA_SUCCESS;
}

// Common to tiled and im2col maps.
static CUresult encode(CusimTensorMap *map, int type, unsigned rank, const void *address,
                       const uint64_t *dims, const uint64_t *strides, const uint32_t *steps,
                       int interleave, int swizzle, int fill) {
  if (!map || !address || !dims || !steps || rank < 1 || rank > 5 || (rank > 1 && !strides))
    return bad("an argument is missing, or the rank is not 1 to 5");
  if (type < 0 || type >= kTypes) return bad("there is no such type");
  if ((uintptr_t)map % 64) return bad("it is not aligned to 64 bytes");
  if ((uintptr_t)address % 16) return bad("its tensor is not aligned to 16 bytes");
  CUresult r = check_modes(type, rank, address, interleave, swizzle, fill);
  if (r != CUDA_SUCCESS) return r;
  unsigned apart = interleave == Interleave32 ? 32 : 16;
  *map = (CusimTensorMap){.address = (uintptr_t)address, .rank = (unsigned char)(rank - 1),
                          .type = numbers[type], .swizzle = (unsigned char)swizzle,
                          .interleave = (unsigned char)interleave, .fill = (unsigned char)fill};
  for (unsigned d = 0; d < rank; d++) {
    if (!dims[d] || dims[d] > 1ull << 32) return bad("a dimension is not 1 to 2^32");
    if (!steps[d] || steps[d] > 8) return bad("an element stride is not 1 to 8");
    map->dims[d] = dims[d] >> 32 ? ~0u : (unsigned)dims[d]; // coordinates end at 2^31
    map->steps[d] = (unsigned char)steps[d];
    if (d == 0) continue;
    if (strides[d - 1] % apart || strides[d - 1] >= 1ull << 40)
      return bad("a stride is not a multiple of 16 (interleaved by 32: of 32) bytes, or too large");
    map->strides[d - 1] = strides[d - 1];
  }
  return CUDA_SUCCESS;
}

static CUresult check_inner(const CusimTensorMap *map, unsigned elements) {
  if (map->interleave != InterleaveNone) return CUDA_SUCCESS; // slices are whole swizzle units
  unsigned bytes = elements * type_bytes[map->type], span = map->swizzle ? 16u << map->swizzle : 0;
  if (bytes % 16) return bad("the box's inner dimension is not a multiple of 16 bytes");
  if (span && bytes > span) return bad("the box's inner dimension exceeds the swizzle's span");
  return CUDA_SUCCESS;
}

CUresult cuTensorMapEncodeTiled(void *out, int type, unsigned rank, void *address,
                                const uint64_t *dims, const uint64_t *strides, const uint32_t *box,
                                const uint32_t *steps, int interleave, int swizzle, int promotion,
                                int fill) {
  (void)promotion;
  CusimTensorMap *map = out;
  CUresult r = encode(map, type, rank, address, dims, strides, steps, interleave, swizzle, fill);
  if (r != CUDA_SUCCESS) return r;
  if (!box) return bad("the box is missing");
  for (unsigned d = 0; d < rank; d++) {
    if (!box[d] || box[d] > kMostBox) return bad("a dimension of the box is not 1 to 256");
    map->box[d] = (unsigned short)box[d];
  }
  return check_inner(map, box[0]);
}

CUresult cuTensorMapEncodeIm2col(void *out, int type, unsigned rank, void *address,
                                 const uint64_t *dims, const uint64_t *strides, const int *lower,
                                 const int *upper, uint32_t channels, uint32_t pixels,
                                 const uint32_t *steps, int interleave, int swizzle, int promotion,
                                 int fill) {
  (void)promotion;
  CusimTensorMap *map = out;
  if (rank < 3) return bad("im2col is of 3 to 5 dimensions");
  CUresult r = encode(map, type, rank, address, dims, strides, steps, interleave, swizzle, fill);
  if (r != CUDA_SUCCESS) return r;
  if (!lower || !upper || !channels || channels > kMostBox || !pixels || pixels > 1024)
    return bad("corners are missing, or channels or pixels are out of range");
  static const int most[] = {32767, 127, 15}; // by the number of spatial dimensions
  for (unsigned i = 0; i < rank - 2; i++) {
    int most_here = most[rank - 3];
    if (lower[i] < -most_here - 1 || lower[i] > most_here || upper[i] < -most_here - 1 ||
        upper[i] > most_here)
      return bad("a corner of the bounding box is out of range");
    if ((int64_t)dims[1 + i] + upper[i] - lower[i] <= 0) return bad("the bounding box is empty");
  }
  map->im2col = 1;
  map->channels = (unsigned short)channels;
  map->pixels = (unsigned short)pixels;
  for (unsigned i = 0; i < rank - 2; i++) {
    map->lower[i] = (short)lower[i];
    map->upper[i] = (short)upper[i];
  }
  return check_inner(map, channels);
}

CUresult cuTensorMapReplaceAddress(void *map, void *address) {
  if (!map || (uintptr_t)address % 16) return bad("its tensor is not aligned to 16 bytes");
  ((CusimTensorMap *)map)->address = (uintptr_t)address;
  return CUDA_SUCCESS;
}
