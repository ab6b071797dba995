// prec.c: the dtype each value is stored in. Arithmetic is fp32 inside a kernel; a dtype is what is
// written to memory between kernels.
//
// Activations and the fixed operands of contractions have the dtype that was asked for; inputs and
// outputs of the model, sums and other reductions, and every fixed value (biases, scales), stay
// fp32. tf32 is fp32 in memory: the contraction template rounds its operands. Moves of one value
// keep its dtype.
#include "pass.h"

#include <string.h>

Dtype prec_storage(const char *name) {
  Dtype dtype = DtF32;
  if (!strcmp(name, "fp16")) dtype = DtF16;
  if (!strcmp(name, "bf16")) dtype = DtBf16;
  return dtype;
}

// Needs: shapes. Gives: Type.dtype of every value.
void prec_pass(Compiler *c) {
  Dtype dtype = prec_storage(c->options.dtype);
  Graph *g = c->graph;
  for (int i = 0; i < g->nnodes; i++) {
    Node *n = g->nodes[i];
    bool wide = n->op->cls == OpSource || n->op->cls == OpReduce || n->fixed;
    n->type.dtype = wide ? DtF32 : dtype;
    if (n->op->cls == OpMove && n->nin == 1) n->type.dtype = n->in[0]->type.dtype;
  }
  for (int i = 0; i < g->noutputs; i++) g->outputs[i].node->type.dtype = DtF32;
}
