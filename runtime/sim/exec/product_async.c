// product_async.c: wgmma, executed as late as the program allows: when its threads wait for its
// group. Its operands in shared memory are read, and its accumulators change, only then, so that a
// missing wait always shows as wrong numbers.
#include "sim/exec/exec.h"

#include <stdlib.h>
#include <string.h>

enum { kProducts = 64 };

typedef struct ProductEntry { // a thread's part of a product that is not made yet
  CusimWork work;
  unsigned group; // the commit group it belongs to
  _Alignas(16) unsigned char operands[80];
} ProductEntry;

static void make_first(Fiber *fiber) {
  ProductEntry *entry = &fiber->products[fiber->product_head++ % kProducts];
  cusim_meet_group(entry->work, entry->operands);
}

void cusim_product_async(CusimWork work, const void *operands, int bytes) {
  Fiber *fiber = fiber_running();
  if (!fiber->products) fiber->products = malloc(kProducts * sizeof *fiber->products);
  if (!fiber->products || bytes > (int)sizeof fiber->products->operands)
    fault_raise(CUDA_ERROR_OUT_OF_MEMORY, NULL, "no memory for products of a warp group");
  if (fiber->product_tail - fiber->product_head == kProducts) make_first(fiber);
  ProductEntry *entry = &fiber->products[fiber->product_tail++ % kProducts];
  entry->work = work;
  entry->group = fiber->product_group;
  memcpy(entry->operands, operands, (size_t)bytes);
}

void cusim_product_commit(void) {
  fiber_running()->product_group++;
}

void cusim_product_wait(int groups) {
  Fiber *fiber = fiber_running();
  unsigned done = fiber->product_group - (unsigned)groups; // groups below this one are to be done
  while (fiber->product_head != fiber->product_tail &&
         (int)(done - fiber->products[fiber->product_head % kProducts].group) > 0)
    make_first(fiber);
}
