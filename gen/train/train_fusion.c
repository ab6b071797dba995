// train_fusion.c: an upper bound, by the cost model, of what more fusion could save in a step: the
// DRAM time of values that one kernel writes and another reads, and all launches and first loads
// but one. An upper bound, because a kernel that needs a complete sum cannot be fused with the one
// that computes it.
#include "train.h"

#include <math.h>
#include <string.h>

static bool is_output(const Graph *g, const Node *n) {
  for (int i = 0; i < g->noutputs; i++)
    if (g->outputs[i].node == n) return true;
  return false;
}

// Bytes of a kernel's DRAM traffic for values between kernels of the step, or between its fused
// prologue and its main part.
static double bytes_between(const Group *g) {
  double bytes = g->first ? bytes_between(g->first) : 0;
  for (int i = 0; i < g->ninputs; i++) {
    const Node *n = g->inputs[i];
    if (n->op->cls != OpSource && !n->fixed) bytes += sched_bytes_read(g, n);
  }
  for (int i = 0; i < g->noutputs; i++) {
    const Node *n = g->outputs[i];
    if (!n->updated && !is_output(g->graph, n)) bytes += (double)type_bytes(&n->type);
  }
  return bytes;
}

// A kernel's time without `share` of its DRAM traffic; bounds combine by their fourth powers.
static double seconds_without(const Tile *t, double share) {
  double extra = 0;
  for (int i = CostBounds; i < CostTerms; i++) extra += t->term[i];
  double bounds = fmax(t->seconds - extra, 0), dram = t->term[TermDram];
  double rest = pow(bounds, 4) - pow(dram, 4) + pow(dram * (1 - share), 4);
  return extra + pow(fmax(rest, 0), 0.25);
}

static void add(const Group *g, FusionLeft *f) {
  double bytes = (double)(g->bytes_read + g->bytes_written - g->bytes_scratch);
  double between = fmin(bytes_between(g), bytes);
  f->kernels++;
  f->bytes += bytes;
  f->between += between;
  f->seconds += g->tile.seconds;
  f->gain += g->tile.seconds - seconds_without(&g->tile, bytes > 0 ? between / bytes : 0);
  f->gain += f->kernels > 1 ? g->tile.term[TermLaunch] + g->tile.term[TermFill] : 0;
}

void train_fusion(const Train *t, FusionLeft *f) {
  const Compiler *c = &t->compiler;
  *f = (FusionLeft){0};
  for (int i = 0; i < c->graph->ngroups; i++) {
    const Group *g = c->graph->groups[i];
    if (!g->fixed && !strcmp(c->entries[g->anchor->entry], "train")) add(g, f);
  }
}
