// bulk.c: the copies of sm_90's asynchronous proxy: bulk and tensor, into shared memory and out of
// it.
//
// A load lands as late as the program allows: when its mbarrier is all that the block waits for. A
// store reads shared memory when its thread waits for its group, or ends. What a copy moves counts
// as its thread's access, made when it lands.
#include "sim/exec/exec.h"

#include <stdlib.h>
#include <string.h>

typedef struct BulkCopy {
  struct BulkCopy *next;
  bool load, tensor;
  unsigned char *smem, *gmem;
  unsigned bytes;
  unsigned long long *bar;
  CusimTensorMap map;
  int at[5], offsets[3];
  int rank, reduce, type;
  unsigned group;
  int thread;
  Fiber *fiber;
  const void *pc;
} BulkCopy;

enum { kWidest = 16 };

// A reduction changes each element in one step, as atomics do.
static void trace(const BulkCopy *copy, const void *address, unsigned bytes, bool writes) {
  if (!sim_settings()->trace) return;
  AccessKind kind = copy->reduce && writes ? AccessAtomic : AccessAsync;
  for (unsigned i = 0; i < bytes; i += kWidest)
    trace_access(copy->fiber, (uintptr_t)address + i,
                 (int)(bytes - i < kWidest ? bytes - i : kWidest), writes, kind, copy->pc);
  if (!writes) trace_proxy_read(copy->fiber, (uintptr_t)address, (int)bytes, copy->pc);
}

// ---- elements -----------------------------------------------------------------------------------

static int type_bytes(int type) { // as tensormap.replace numbers them
  static const unsigned char bytes[] = {1, 2, 4, 4, 8, 8, 2, 4, 4, 8, 2, 4, 4};
  return type < (int)sizeof bytes ? bytes[type] : 0;
}

// Address bits [4,7) ^= [7,10) and its like, which shared memory of a swizzled box has.
static unsigned char *swizzled(unsigned char *smem, size_t offset, int mode) {
  static const unsigned masks[] = {0, 1, 3, 7};
  uintptr_t address = (uintptr_t)smem + offset;
  return (unsigned char *)(address ^ ((address >> 7 & masks[mode & 3]) << 4));
}

enum {
  ReduceNone,
  ReduceAdd,
  ReduceMin,
  ReduceMax,
  ReduceInc,
  ReduceDec,
  ReduceAnd,
  ReduceOr,
  ReduceXor
};

#define REDUCE(T)                                                                                  \
  {                                                                                                \
    T a, b;                                                                                        \
    memcpy(&a, to, sizeof a), memcpy(&b, from, sizeof b);                                          \
    T r = how == ReduceAdd ? (T)(a + b) : how == ReduceMin ? (a < b ? a : b) : a > b ? a : b;      \
    memcpy(to, &r, sizeof r);                                                                      \
    break;                                                                                         \
  }

static float half_value(uint16_t h) {
  float sign = h & 0x8000 ? -1.0f : 1.0f;
  int exponent = h >> 10 & 31, mantissa = h & 0x3ff;
  union {
    uint32_t bits;
    float f;
  } u = {exponent == 31 ? 0x7f800000u | (unsigned)mantissa << 13
                        : (unsigned)(exponent + 112) << 23 | (unsigned)mantissa << 13};
  return exponent ? sign * u.f : sign * (float)mantissa * 0x1p-24f;
}

static uint16_t half_bits(float x) { // to nearest, ties to even
  union {
    float f;
    uint32_t bits;
  } u = {x};
  uint32_t sign = u.bits >> 16 & 0x8000, size = u.bits & 0x7fffffff;
  if (size > 0x7f800000) return 0x7fff;
  if (size >= 0x477ff000) return (uint16_t)(sign | 0x7c00);
  if (size < 0x38800000) {
    u.bits = size;
    u.f += 0.5f;
    return (uint16_t)(sign | (u.bits - 0x3f000000));
  }
  return (uint16_t)(sign | (size + 0xfff + (size >> 13 & 1) - 0x38000000) >> 13);
}

static void reduce_16(void *to, const void *from, int how, bool brain) {
  uint16_t a, b;
  memcpy(&a, to, 2), memcpy(&b, from, 2);
  union {
    uint32_t bits;
    float f;
  } x = {(uint32_t)a << 16}, y = {(uint32_t)b << 16};
  if (!brain) x.f = half_value(a), y.f = half_value(b);
  float r = how == ReduceAdd ? x.f + y.f : how == ReduceMin ? (x.f < y.f ? x.f : y.f)
                                                            : (x.f > y.f ? x.f : y.f);
  x.f = r;
  uint16_t narrow = !brain   ? half_bits(r)
                    : r != r ? 0x7fff
                             : (uint16_t)((x.bits + 0x7fff + (x.bits >> 16 & 1)) >> 16);
  memcpy(to, &narrow, 2);
}

static void reduce_bits(unsigned char *to, const unsigned char *from, int bytes, int how) {
  for (int i = 0; i < bytes; i++)
    to[i] = how == ReduceAnd  ? to[i] & from[i]
            : how == ReduceOr ? to[i] | from[i]
                              : to[i] ^ from[i];
}

static void count_32(void *to, const void *from, bool down) { // as atom.inc and atom.dec
  uint32_t old, most;
  memcpy(&old, to, 4), memcpy(&most, from, 4);
  uint32_t r = down ? (old == 0 || old > most ? most : old - 1) : old >= most ? 0 : old + 1;
  memcpy(to, &r, 4);
}

static void combine(unsigned char *to, const unsigned char *from, int type, int how) {
  if (how >= ReduceAnd) {
    reduce_bits(to, from, type_bytes(type), how);
    return;
  }
  if (how >= ReduceInc) {
    count_32(to, from, how == ReduceDec);
    return;
  }
  switch (type) {
  case 0: REDUCE(uint8_t)
  case 1: REDUCE(uint16_t)
  case 2: REDUCE(uint32_t)
  case 3: REDUCE(int32_t)
  case 4: REDUCE(uint64_t)
  case 5: REDUCE(int64_t)
  case 7:
  case 8:
  case 11:
  case 12: REDUCE(float)
  case 9: REDUCE(double)
  default: reduce_16(to, from, how, type == 10);
  }
}

// Blocks on other OS threads may reduce into the same place: each element in one step.
#define IN_ONE_STEP(T)                                                                             \
  {                                                                                                \
    T old = __atomic_load_n((T *)to, __ATOMIC_RELAXED), made;                                      \
    do {                                                                                           \
      made = old;                                                                                  \
      combine((unsigned char *)&made, from, type, how);                                            \
    } while (!__atomic_compare_exchange_n((T *)to, &old, made, true, __ATOMIC_ACQ_REL,             \
                                          __ATOMIC_RELAXED));                                      \
    break;                                                                                         \
  }

static void move_element(unsigned char *to, const unsigned char *from, int type, int how) {
  int bytes = type_bytes(type);
  if (how == ReduceNone) {
    memcpy(to, from, (size_t)bytes);
    return;
  }
  switch (bytes) {
  case 1: IN_ONE_STEP(uint8_t)
  case 2: IN_ONE_STEP(uint16_t)
  case 4: IN_ONE_STEP(uint32_t)
  default: IN_ONE_STEP(uint64_t)
  }
}

static void move_all(unsigned char *to, const unsigned char *from, unsigned bytes, int type,
                     int how) {
  if (how == ReduceNone) {
    memcpy(to, from, bytes);
    return;
  }
  for (unsigned i = 0; i < bytes; i += (unsigned)type_bytes(type))
    move_element(to + i, from + i, type, how);
}

// Piece by piece: what each writes is known when the next one is traced.
static void store_all(const BulkCopy *copy) {
  trace(copy, copy->smem, copy->bytes, false);
  for (unsigned i = 0; i < copy->bytes; i += kWidest) {
    trace(copy, copy->gmem + i, kWidest, true);
    move_all(copy->gmem + i, copy->smem + i, kWidest, copy->type, copy->reduce);
  }
}

// ---- tensors ------------------------------------------------------------------------------------

// The element's place in global memory; null: outside of the tensor.
static unsigned char *place(const BulkCopy *copy, const int *index) {
  const CusimTensorMap *map = &copy->map;
  uint64_t address = map->address;
  for (int d = 0; d <= map->rank; d++) {
    if (index[d] < 0 || (unsigned)index[d] >= map->dims[d]) return NULL;
    address += (uint64_t)index[d] * (d ? map->strides[d - 1] : (uint64_t)type_bytes(map->type));
  }
  return (unsigned char *)address;
}

static void move(const BulkCopy *copy, const int *index, size_t number) {
  static const unsigned char zeros[8], nans[8] = {255, 255, 255, 255, 255, 255, 255, 127};
  const CusimTensorMap *map = &copy->map;
  int bytes = type_bytes(map->type);
  unsigned char *gmem = place(copy, index);
  if (gmem) trace(copy, gmem, (unsigned)bytes, !copy->load);
  unsigned char *smem = swizzled(copy->smem, number * (size_t)bytes, map->swizzle);
  if (copy->load)
    move_element(smem, gmem ? gmem : map->fill ? nans + 8 - bytes : zeros, map->type, ReduceNone);
  else if (gmem)
    move_element(gmem, smem, map->type, copy->reduce);
}

// Of a dimension: elements from one that is moved to the next. That of dimension 0 is ignored.
static int step_of(const CusimTensorMap *map, int d) {
  return d && map->steps[d] ? map->steps[d] : 1;
}

static size_t box_elements(const CusimTensorMap *map) {
  size_t n = 1;
  for (int d = 0; d <= map->rank; d++)
    n *= (size_t)((map->box[d] + step_of(map, d) - 1) / step_of(map, d));
  return n;
}

static void tiled(const BulkCopy *copy) {
  const CusimTensorMap *map = &copy->map;
  int counts[5], steps[5];
  size_t all = box_elements(map);
  for (int d = 0; d <= map->rank; d++) {
    steps[d] = step_of(map, d);
    counts[d] = (map->box[d] + steps[d] - 1) / steps[d];
  }
  for (size_t n = 0; n < all; n++) {
    int index[5];
    size_t rest = n;
    for (int d = 0; d <= map->rank; d++) {
      index[d] = copy->at[d] + (int)(rest % (size_t)counts[d]) * steps[d];
      rest /= (size_t)counts[d];
    }
    move(copy, index, n);
  }
}

// im2col: pixels of the bounding box, from the place given on, row by row and image by image; each
// with its channels, at the filter's offset.
static void im2col(const BulkCopy *copy) {
  const CusimTensorMap *map = &copy->map;
  int spatial = map->rank - 1, where[3] = {0}, image = copy->at[map->rank];
  for (int i = 0; i < spatial; i++) where[i] = copy->at[1 + i];
  for (int p = 0; p < map->pixels; p++) {
    int index[5];
    for (int i = 0; i < spatial; i++) index[1 + i] = where[i] + copy->offsets[i];
    index[map->rank] = image;
    for (int c = 0; c < map->channels; c++) {
      index[0] = copy->at[0] + c;
      move(copy, index, (size_t)p * map->channels + (size_t)c);
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

static size_t tensor_bytes(const CusimTensorMap *map) {
  size_t n = map->im2col ? (size_t)map->pixels * map->channels : box_elements(map);
  return n * (size_t)type_bytes(map->type);
}

// ---- landing ------------------------------------------------------------------------------------

static void land(BulkCopy *copy) {
  if (copy->load) {
    if (!copy->tensor) trace(copy, copy->gmem, copy->bytes, false);
    trace(copy, copy->smem, copy->bytes, true);
  } else if (copy->tensor) {
    trace(copy, copy->smem, copy->bytes, false);
  }
  if (copy->tensor && copy->map.im2col)
    im2col(copy);
  else if (copy->tensor)
    tiled(copy);
  else if (copy->load)
    move_all(copy->smem, copy->gmem, copy->bytes, copy->type, copy->reduce);
  else
    store_all(copy);
  if (copy->bar)
    mbar_complete(copy->fiber->block, copy->bar, (int)copy->bytes, copy->thread, copy->pc);
  free(copy);
}

bool bulk_land_one(Block *block) {
  BulkCopy **at = &block->loads, *copy;
  int n = 0;
  for (copy = block->loads; copy; copy = copy->next) n++;
  if (!n) return false;
  for (int skip = block->random ? (int)(block_random(block) % (unsigned)n) : 0; skip; skip--)
    at = &(*at)->next;
  copy = *at;
  *at = copy->next;
  if (!copy->next) block->last_load = at;
  land(copy);
  return true;
}

void bulk_land_stores(Fiber *fiber, unsigned group) {
  while (fiber->stores && (int)(group - fiber->stores->group) > 0) {
    BulkCopy *copy = fiber->stores;
    fiber->stores = copy->next;
    land(copy);
  }
  if (!fiber->stores) fiber->last_store = &fiber->stores;
}

void bulk_drop(Block *block) {
  for (BulkCopy *copy = block->loads, *next; copy; copy = next) {
    next = copy->next;
    free(copy);
  }
  block->loads = NULL;
  block->last_load = &block->loads;
}

// ---- what kernels call --------------------------------------------------------------------------

static void check(const BulkCopy *copy) {
  uintptr_t smem = (uintptr_t)copy->smem, gmem = (uintptr_t)copy->gmem;
  bool odd = copy->tensor ? smem % 128 : (smem | gmem | copy->bytes) % 16;
  if (odd)
    fault_raise(CUDA_ERROR_MISALIGNED_ADDRESS, copy->pc,
                "a bulk copy of %u bytes, shared memory at %p, global memory at %p: not aligned "
                "to %d",
                copy->bytes, (void *)smem, (void *)gmem, copy->tensor ? 128 : 16);
}

static void start(BulkCopy made) {
  Fiber *fiber = fiber_running();
  Block *block = fiber->block;
  made.fiber = fiber;
  made.thread = (int)fiber->self.linear;
  made.group = fiber->bulk_group;
  check(&made);
  if (made.load && sim_settings()->race)
    reading_check(fiber, (uintptr_t)made.smem, made.bytes, true, made.pc);
  BulkCopy *copy = malloc(sizeof *copy);
  if (!copy) fault_raise(CUDA_ERROR_OUT_OF_MEMORY, made.pc, "no memory for a bulk copy");
  *copy = made;
  if (!sim_settings()->basic) {
    land(copy);
  } else if (copy->load) {
    *block->last_load = copy;
    block->last_load = &copy->next;
  } else {
    *fiber->last_store = copy;
    fiber->last_store = &copy->next;
  }
}

void cusim_bulk_load(void *smem, const void *gmem, unsigned bytes, unsigned long long *bar) {
  start((BulkCopy){.load = true, .smem = smem, .gmem = (unsigned char *)gmem, .bytes = bytes,
                   .bar = bar, .pc = __builtin_return_address(0)});
}

void cusim_bulk_reduce(void *smem, const void *from, unsigned bytes, unsigned long long *bar,
                       int reduce, int type) {
  start((BulkCopy){.load = true, .smem = smem, .gmem = (unsigned char *)from, .bytes = bytes,
                   .bar = bar, .reduce = reduce, .type = type,
                   .pc = __builtin_return_address(0)});
}

void cusim_bulk_store(void *gmem, const void *smem, unsigned bytes, int reduce, int type) {
  start((BulkCopy){.smem = (unsigned char *)smem, .gmem = gmem, .bytes = bytes, .reduce = reduce,
                   .type = type, .pc = __builtin_return_address(0)});
}

static BulkCopy of_tensor(const void *map, const int *at, int rank, const void *pc) {
  BulkCopy copy = {.tensor = true, .rank = rank, .pc = pc};
  memcpy(&copy.map, map, sizeof copy.map);
  memcpy(copy.at, at, (size_t)rank * sizeof *at);
  if (!copy.map.address || copy.map.rank + 1 != rank || !type_bytes(copy.map.type))
    fault_raise(CUDA_ERROR_ILLEGAL_INSTRUCTION, pc,
                "the tensor map at %p is none of a tensor with %d dimensions", map, rank);
  if (copy.map.interleave)
    fault_raise(CUDA_ERROR_ILLEGAL_INSTRUCTION, pc, "interleaved tensor maps are not modelled");
  copy.bytes = (unsigned)tensor_bytes(&copy.map);
  return copy;
}

void cusim_tensor_load(void *smem, const void *map, const int *at, int rank,
                       unsigned long long *bar, const int *offsets) {
  BulkCopy copy = of_tensor(map, at, rank, __builtin_return_address(0));
  copy.load = true;
  copy.smem = smem;
  copy.bar = bar;
  for (int i = 0; offsets && i < rank - 2; i++) copy.offsets[i] = offsets[i];
  start(copy);
}

void cusim_tensor_store(const void *map, const int *at, int rank, const void *smem, int reduce) {
  BulkCopy copy = of_tensor(map, at, rank, __builtin_return_address(0));
  copy.smem = (unsigned char *)smem;
  copy.reduce = reduce;
  start(copy);
}

void cusim_store_async(void *smem, const void *values, int bytes, unsigned long long *bar) {
  Fiber *fiber = fiber_running();
  const void *pc = __builtin_return_address(0);
  if ((uintptr_t)smem % (unsigned)bytes) fault_misaligned(smem, bytes, pc);
  if (sim_settings()->trace)
    for (int i = 0; i < bytes; i += kWidest)
      trace_access(fiber, (uintptr_t)smem + (unsigned)i, bytes - i < kWidest ? bytes - i : kWidest,
                   true, AccessAsync, pc);
  memcpy(smem, values, (size_t)bytes);
  mbar_complete(fiber->block, bar, bytes, (int)fiber->self.linear, pc);
}

void cusim_bulk_commit(void) {
  fiber_running()->bulk_group++;
}

void cusim_bulk_wait(int groups, int read) {
  (void)read;
  Fiber *fiber = fiber_running();
  bulk_land_stores(fiber, fiber->bulk_group - (unsigned)groups);
}

void cusim_proxy_fence(void) {
  Fiber *fiber = fiber_running();
  if (sim_settings()->race)
    fiber->block->proxy[fiber->self.linear] = ++fiber->block->own[fiber->self.linear];
}
