// bulk_tensor.c: the boxes of tensor copies: tiled, or pixels of im2col; interleaved
// tensors, too.
//
// Channels of an interleaved tensor are stored in slices of 16 or 32 bytes: NC/8HWC8 of 16-bit
// elements. The map's dimensions stay those of NHWC, in elements; a slice of an image is all its
// pixels, so slices are the outermost spatial dimension's stride, times its size, apart. The box
// has the same order: slice by slice, and in each every pixel's channels.
#include "sim/exec/bulk.h"

enum { kMostRank = 5 };

// Address bits [4,7) ^= [7,10) and the other modes: the swizzle of a box in shared memory.
static unsigned char *swizzled(unsigned char *smem, size_t offset, int mode) {
  static const unsigned masks[] = {0, 1, 3, 7};
  uintptr_t address = (uintptr_t)smem + offset;
  return (unsigned char *)(address ^ ((address >> 7 & masks[mode & 3]) << 4));
}

// Elements of a slice; 0: the tensor is not interleaved.
static int slice_elements(const CusimTensorMap *map) {
  return map->interleave ? (8 << map->interleave) / bulk_type_bytes(map->type) : 0;
}

// The element's place in global memory; null: outside of the tensor.
static unsigned char *place(const CusimTensorMap *map, const int *index) {
  int bytes = bulk_type_bytes(map->type), slice = slice_elements(map), rank = map->rank + 1;
  uint64_t address = map->address;
  for (int d = 0; d < rank; d++)
    if (index[d] < 0 || (unsigned)index[d] >= map->dims[d]) return NULL;
  for (int d = 1; d < rank; d++) address += (uint64_t)index[d] * map->strides[d - 1];
  if (!slice) return (unsigned char *)(address + (uint64_t)index[0] * (unsigned)bytes);
  uint64_t apart = map->strides[rank - 3] * map->dims[rank - 2];
  address += (uint64_t)(index[0] / slice) * apart;
  return (unsigned char *)(address + (unsigned)(index[0] % slice * bytes));
}

static void move(const BulkCopy *copy, const int *index, size_t number) {
  static const unsigned char zeros[8], nans[8] = {255, 255, 255, 255, 255, 255, 255, 127};
  const CusimTensorMap *map = &copy->map;
  int bytes = bulk_type_bytes(map->type);
  unsigned char *gmem = place(map, index);
  if (gmem) bulk_trace(copy, gmem, (unsigned)bytes, !copy->load);
  unsigned char *smem = swizzled(copy->smem, number * (size_t)bytes, map->swizzle);
  if (copy->load)
    bulk_move_element(smem, gmem ? gmem : map->fill ? nans + 8 - bytes : zeros, map->type, 0);
  else if (gmem)
    bulk_move_element(gmem, smem, map->type, copy->reduce);
}

// Elements from one that is moved to the next, along a dimension; ignored for dimension 0.
static int step_of(const CusimTensorMap *map, int d) {
  return d && map->steps[d] ? map->steps[d] : 1;
}

// Elements of a dimension that a box moves.
static int count_of(const CusimTensorMap *map, int d) {
  return (map->box[d] + step_of(map, d) - 1) / step_of(map, d);
}

static size_t box_elements(const CusimTensorMap *map) {
  size_t n = 1;
  for (int d = 0; d <= map->rank; d++) n *= (size_t)count_of(map, d);
  return n;
}

// Splits the next index below `count` off an element's number.
static int take(size_t *rest, int count) {
  int i = (int)(*rest % (size_t)count);
  *rest /= (size_t)count;
  return i;
}

static void tiled(const BulkCopy *copy) {
  const CusimTensorMap *map = &copy->map;
  int last = map->rank, counts[kMostRank], steps[kMostRank];
  for (int d = 0; d <= last; d++) counts[d] = count_of(map, d), steps[d] = step_of(map, d);
  int slice = slice_elements(map), inner = slice ? slice : counts[0];
  size_t all = box_elements(map);
  for (size_t n = 0; n < all; n++) {
    int index[kMostRank];
    size_t rest = n;
    index[0] = copy->at[0] + take(&rest, inner);
    for (int d = 1; d <= last; d++) {
      if (d == last && slice) index[0] += slice * take(&rest, counts[0] / slice);
      index[d] = copy->at[d] + take(&rest, counts[d]) * steps[d];
    }
    move(copy, index, n);
  }
}

// im2col: pixels of the bounding box, from the given position on, row by row and image by image;
// each with its channels, at the filter's offset.
static void im2col(const BulkCopy *copy) {
  const CusimTensorMap *map = &copy->map;
  int spatial = map->rank - 1, where[3] = {0}, image = copy->at[map->rank];
  int slice = slice_elements(map), inner = slice ? slice : map->channels;
  for (int i = 0; i < spatial; i++) where[i] = copy->at[1 + i];
  for (int p = 0; p < map->pixels; p++) {
    int index[kMostRank];
    for (int i = 0; i < spatial; i++) index[1 + i] = where[i] + copy->offsets[i];
    index[map->rank] = image;
    for (int c = 0; c < map->channels; c++) {
      index[0] = copy->at[0] + c;
      move(copy, index, ((size_t)(c / inner) * map->pixels + (size_t)p) * (size_t)inner +
                            (size_t)(c % inner));
    }
    int d = 0;
    for (; d < spatial; d++) {
      where[d] += step_of(map, 1 + d);
      if (where[d] < (int)map->dims[1 + d] + map->upper[d]) break;
      where[d] = map->lower[d];
    }
    if (d == spatial) image++;
  }
}

void bulk_move_tensor(const BulkCopy *copy) {
  if (copy->map.im2col)
    im2col(copy);
  else
    tiled(copy);
}

unsigned bulk_tensor_bytes(const CusimTensorMap *map) {
  size_t n = map->im2col ? (size_t)map->pixels * map->channels : box_elements(map);
  return (unsigned)(n * (size_t)bulk_type_bytes(map->type));
}

const char *bulk_tensor_wrong(const CusimTensorMap *map, const int *at, int rank) {
  if (!map->address || map->rank + 1 != rank || !bulk_type_bytes(map->type))
    return "it is of a tensor with another number of dimensions";
  if (!map->interleave) return NULL;
  if (map->interleave > 2 || rank < 3) return "interleaved are tensors of 3 to 5 dimensions";
  int slice = slice_elements(map), channels = map->im2col ? map->channels : map->box[0];
  if (map->interleave == 2 && (map->swizzle != 1 || map->address % 32))
    return "interleaved by 32 bytes it needs the swizzle of 32, and to lie at a multiple of 32";
  if (map->steps[0] > 1) return "steps along interleaved channels are not modelled";
  if (channels % slice || at[0] % slice)
    return "parts of a slice of interleaved channels are not modelled";
  return NULL;
}
