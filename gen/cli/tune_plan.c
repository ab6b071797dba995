// tune_plan.c: one contraction with each of its candidate tiles, as one plan: the candidates share
// their tensors, so that one oracle checks all, and they are timed in turns.
#include "cli.h"

#include <stdlib.h>
#include <string.h>

static char *copy_text(const char *text) {
  char *copy = strdup(text);
  if (!copy) die("out of memory");
  return copy;
}

// The group's kernel with each tile; the group itself is left as it was.
static void emit_variants(Compiler *c, Variants *v, Group *copies, Group **list) {
  Group *g = v->group, saved = *g;
  for (int i = 0; i < v->count; i++) {
    *g = saved;
    g->name = arena_printf(c->arena, "%s__v%d", saved.name, i);
    g->fixed = false;
    g->tm->use(g, c->options.arch, &v->tiles[i]);
    for (int d = 0; d < 3; d++)
      if (!g->tile.grid[d]) g->tile.grid[d] = 1;
    emit_group(c, g);
    copies[i] = *g;
    list[i] = &copies[i];
  }
  *g = saved;
}

static int add_flush(Plan *p, int64_t bytes) { // returns the tensor
  p->tensors = realloc(p->tensors, sizeof *p->tensors * (size_t)(p->ntensors + 1));
  if (!p->tensors) die("out of memory");
  p->tensors[p->ntensors] = (PlanTensor){.name = copy_text("flush"),
                                         .role = RoleTemp,
                                         .space = SpaceArena,
                                         .dtype = DtU8,
                                         .rank = 1,
                                         .shape = {bytes},
                                         .offset = p->arena_bytes,
                                         .bytes = bytes,
                                         .value = -1,
                                         .loc = copy_text("")};
  p->arena_bytes += (bytes + 255) / 256 * 256;
  return p->ntensors++;
}

static PlanEntry *add_entry(Plan *p, const char *name, int most) {
  p->entries = realloc(p->entries, sizeof *p->entries * (size_t)(p->nentries + 1));
  if (!p->entries) die("out of memory");
  p->entries[p->nentries] =
      (PlanEntry){copy_text(name), base_alloc((size_t)most, sizeof(PlanStep)), 0};
  return &p->entries[p->nentries++];
}

static void add_entries(Variants *v, int64_t flush_bytes) {
  Plan *p = v->plan;
  for (int i = 0; i < v->count; i++) {
    char name[16];
    snprintf(name, sizeof name, "v%d", i);
    PlanEntry *e = add_entry(p, name, v->launches);
    for (int k = 0; k < v->launches; k++)
      e->steps[e->nsteps++] = (PlanStep){.kind = StepLaunch, .kernel = i};
  }
  if (!flush_bytes) return;
  int flush = add_flush(p, flush_bytes);
  PlanEntry *e = add_entry(p, "cold", 2 * v->count);
  for (int i = 0; i < v->count; i++) {
    e->steps[e->nsteps++] = (PlanStep){.kind = StepMemset, .target = flush};
    e->steps[e->nsteps++] = (PlanStep){.kind = StepLaunch, .kernel = i};
  }
}

void variants_make(Compiler *c, Group *g, int most, int launches, int64_t flush_bytes,
                   Variants *v) {
  Group copies[kMostVariants], *list[kMostVariants];
  *v = (Variants){.group = g, .launches = launches};
  v->tiles[0] = g->tile;
  v->count = most ? g->tm->candidates(g, c->options.arch, v->tiles, most) : 1;
  emit_variants(c, v, copies, list);
  Graph *whole = c->graph, only = *whole; // the same nodes, these kernels, no outputs of the model
  only.groups = list;
  only.ngroups = v->count;
  only.noutputs = 0;
  c->graph = &only;
  v->plan = plan_build(c);
  c->graph = whole;
  add_entries(v, flush_bytes);
}

void variants_free(Variants *v) {
  plan_free(v->plan);
  v->plan = NULL;
}
