// bulk.h: the copies of sm_90's asynchronous proxy, between bulk.c, bulk_element.c, bulk_tensor.c.
#ifndef SIM_EXEC_BULK_H
#define SIM_EXEC_BULK_H

#include "sim/exec/exec.h"

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

// Traces the copy's accesses, in pieces of 16 bytes; reads are checked against the proxy's fences.
void bulk_trace(const BulkCopy *copy, const void *address, unsigned bytes, bool writes);

// bulk_element.c: types are numbered as tensormap.replace has them, reductions as in cusim_abi.h.
int bulk_type_bytes(int type); // 0 if there is no such type
void bulk_move_element(unsigned char *to, const unsigned char *from, int type, int how);
void bulk_move_all(unsigned char *to, const unsigned char *from, unsigned bytes, int type, int how);

// bulk_tensor.c
void bulk_move_tensor(const BulkCopy *copy);
unsigned bulk_tensor_bytes(const CusimTensorMap *map); // that a copy moves
// A description of what is invalid in this map and place, or NULL.
const char *bulk_tensor_wrong(const CusimTensorMap *map, const int *at, int rank);

#endif
