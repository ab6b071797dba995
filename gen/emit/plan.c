// plan.c: groups become the Plan that the runtime executes: tensors with their locations, kernels,
// and entries: `init` (everything fixed: folded weights, other dtypes and orders) and the model's.
// Parameters that only `init` reads are in SpaceInit and freed after it.
#include "emit.h"

#include <stdlib.h>
#include <string.h>

typedef struct Builder {
  Compiler *c;
  Plan *plan;
  int *tensor_of; // by node id, or -1
  bool *zeroed;   // by tensor: zeroed before the first launch
} Builder;

static char *copy_text(const char *text) {
  char *copy = strdup(text ? text : "");
  if (!copy) die("out of memory");
  return copy;
}

static char *loc_text(Loc loc) {
  char text[512] = "";
  if (loc.file) snprintf(text, sizeof text, "%s:%d", loc.file, loc.line);
  return copy_text(text);
}

// ---- tensors ----------------------------------------------------------------------------------

static Role role_of(const Node *n) {
  if (n->op->cls != OpSource) return RoleTemp;
  return n->op->form == SourceInput ? RoleInput : n->updated ? RoleState : RoleParam;
}

static int add_tensor(Builder *b, const Node *n) {
  if (n->parent) return add_tensor(b, n->parent); // a part of it
  if (b->tensor_of[n->id] >= 0) return b->tensor_of[n->id];
  Plan *p = b->plan;
  PlanTensor *t = &p->tensors[p->ntensors];
  t->name = copy_text(n->name);
  t->role = role_of(n);
  t->dtype = n->type.dtype;
  t->rank = n->type.rank;
  for (int d = 0; d < t->rank; d++) t->shape[d] = n->type.dim[d], t->order[d] = n->type.order[d];
  t->bytes = type_bytes(&n->type);
  t->value = n->id;
  t->space = n->op->cls == OpSource || n->fixed ? SpaceStatic : SpaceArena;
  t->init = t->role == RoleParam || t->role == RoleState ? (InitKind)n->attr.init : InitNone;
  t->init_a = n->attr.init_a;
  t->init_b = n->attr.init_b;
  if (t->init == InitTable) t->table = copy_text(b->c->tables[n->attr.table - 1]);
  t->loc = loc_text(n->loc);
  return b->tensor_of[n->id] = p->ntensors++;
}

static int add_scratch(Builder *b, const Group *g, const Scratch *s) {
  Plan *p = b->plan;
  PlanTensor *t = &p->tensors[p->ntensors];
  t->name = copy_text(arena_printf(b->c->arena, "%s.%s", g->name, s->name + strlen("own_")));
  t->role = RoleTemp;
  t->dtype = s->dtype;
  t->rank = 1;
  t->shape[0] = s->count;
  t->bytes = s->count * (int64_t)dtype_size(s->dtype);
  t->value = -1;
  b->zeroed[p->ntensors] = s->zeroed;
  t->space = s->zeroed || g->fixed ? SpaceStatic : SpaceArena;
  t->loc = loc_text(g->anchor->loc);
  return p->ntensors++;
}

// ---- kernels ----------------------------------------------------------------------------------

static void add_args(Builder *b, PlanKernel *k, const Group *g) {
  int nreads, nwrites;
  Node *const *reads = group_reads(g, &nreads), *const *writes = group_writes(g, &nwrites);
  k->args = base_alloc((size_t)(nreads + nwrites + g->nscratch + g->nboxes), sizeof *k->args);
  for (int i = 0; i < nreads + nwrites; i++) {
    bool written = i >= nreads;
    const Node *n = written ? writes[i - nreads] : reads[i];
    if (!expr_takes_pointer(g, i)) continue;
    k->args[k->nargs++] = (PlanArg){
        .name = copy_text(g->args[i]), .tensor = add_tensor(b, n), .written = written};
  }
  for (int i = 0; i < g->nscratch; i++) {
    const Scratch *s = &g->scratch[i];
    k->args[k->nargs++] = (PlanArg){
        .name = copy_text(s->name), .tensor = add_scratch(b, g, s), .written = true};
  }
  for (int i = 0; i < g->nboxes; i++) {
    PlanMap *map = base_alloc(1, sizeof *map);
    *map = g->boxes[i].map;
    k->args[k->nargs++] = (PlanArg){.name = copy_text(g->boxes[i].name),
                                    .tensor = add_tensor(b, g->boxes[i].of),
                                    .map = map};
  }
}

static void add_kernel(Builder *b, const Group *g) {
  PlanKernel *k = &b->plan->kernels[b->plan->nkernels++];
  k->name = copy_text(g->name);
  k->layer = copy_text(g->layer);
  k->ops = copy_text(g->ops);
  k->class_name = copy_text(g->tm->name);
  k->tile = copy_text(g->tm->tile(g));
  k->source = copy_text(g->source);
  k->names = copy_text(names_taken(g->names));
  k->file = copy_text(arena_printf(b->c->arena, "k%02d_%s.cu", b->plan->nkernels - 1, g->name));
  k->loc = loc_text(g->anchor->loc);
  for (int d = 0; d < 3; d++) k->grid[d] = (int)g->tile.grid[d];
  k->block[0] = g->tile.threads;
  k->block[1] = k->block[2] = 1;
  k->smem = g->tile.smem;
  k->resident = g->tile.blocks;
  k->flops = g->flops;
  k->bytes_read = g->bytes_read;
  k->bytes_written = g->bytes_written;
  add_args(b, k, g);
}

static PlanEntry *new_entry(Builder *b, const char *name) {
  PlanEntry *e = &b->plan->entries[b->plan->nentries++];
  e->name = copy_text(name);
  size_t most = (size_t)(b->c->graph->ngroups + b->plan->ntensors + b->c->graph->nupdates);
  e->steps = base_alloc(most, sizeof *e->steps);
  return e;
}

static void add_launches(Builder *b, PlanEntry *e, bool fixed, int entry) {
  for (int i = 0; i < b->c->graph->ngroups; i++) {
    const Group *g = b->c->graph->groups[i];
    if (g->fixed == fixed && (fixed || g->anchor->entry == entry))
      e->steps[e->nsteps++] = (PlanStep){.kind = StepLaunch, .kernel = i};
  }
}

static void add_init(Builder *b) {
  PlanEntry *e = new_entry(b, "init");
  for (int i = 0; i < b->plan->ntensors; i++)
    if (b->zeroed[i]) e->steps[e->nsteps++] = (PlanStep){.kind = StepMemset, .target = i};
  add_launches(b, e, true, 0);
}

// Launches, then copies of new state values that had to wait.
static void add_entry(Builder *b, int entry) {
  const Graph *g = b->c->graph;
  PlanEntry *e = new_entry(b, b->c->entries[entry]);
  add_launches(b, e, false, entry);
  for (int i = 0; i < g->nupdates; i++) {
    const Update *u = &g->updates[i];
    if (u->entry != entry || u->in_place) continue;
    e->steps[e->nsteps++] = (PlanStep){.kind = StepCopy,
                                       .source = b->tensor_of[u->value->id],
                                       .target = add_tensor(b, u->state)};
  }
}

// ---- memory -----------------------------------------------------------------------------------

static int64_t place(int64_t *total, int64_t bytes) {
  int64_t at = *total;
  *total += (bytes + 255) / 256 * 256;
  return at;
}

// Parameters and fixed values that only `init` reads are freed after it.
static void find_init_only(Builder *b) {
  Plan *p = b->plan;
  bool *kept = base_alloc((size_t)p->ntensors, sizeof *kept);
  for (int i = 0; i < p->nkernels; i++)
    if (!b->c->graph->groups[i]->fixed)
      for (int j = 0; j < p->kernels[i].nargs; j++) kept[p->kernels[i].args[j].tensor] = true;
  for (int i = 0; i < p->ntensors; i++)
    if (!kept[i] && p->tensors[i].space == SpaceStatic &&
        (p->tensors[i].role == RoleParam || p->tensors[i].role == RoleTemp))
      p->tensors[i].space = SpaceInit;
  free(kept);
}

static void place_arena(Builder *b) {
  Plan *p = b->plan;
  int n = p->ntensors, steps = p->nkernels, count = 0;
  int *first = base_alloc((size_t)n, sizeof *first), *last = base_alloc((size_t)n, sizeof *last);
  int *which = base_alloc((size_t)n, sizeof *which);
  int64_t *bytes = base_alloc((size_t)n, sizeof *bytes),
          *offset = base_alloc((size_t)n, sizeof *offset);
  for (int i = 0; i < n; i++) first[i] = steps, last[i] = -1;
  for (int i = 0; i < steps; i++)
    for (int j = 0; j < p->kernels[i].nargs; j++) {
      int t = p->kernels[i].args[j].tensor;
      if (i < first[t]) first[t] = i;
      if (i > last[t]) last[t] = i;
    }
  for (int i = 0; i < p->nentries; i++) // values copied at the end of an entry live until then
    for (int j = 0; j < p->entries[i].nsteps; j++)
      if (p->entries[i].steps[j].kind == StepCopy) last[p->entries[i].steps[j].source] = steps - 1;
  for (int i = 0; i < n; i++)
    if (p->tensors[i].space == SpaceArena) {
      first[count] = first[i], last[count] = last[i];
      bytes[count] = p->tensors[i].bytes;
      which[count++] = i;
    }
  mem_plan(count, bytes, first, last, offset, &p->arena_bytes, &p->arena_bound);
  for (int i = 0; i < count; i++) p->tensors[which[i]].offset = offset[i];
  free(first), free(last), free(which), free(bytes), free(offset);
}

static void place_tensors(Builder *b) {
  Plan *p = b->plan;
  find_init_only(b);
  for (int i = 0; i < p->ntensors; i++) {
    PlanTensor *t = &p->tensors[i];
    if (t->space == SpaceStatic) t->offset = place(&p->static_bytes, t->bytes);
    if (t->space == SpaceInit) t->offset = place(&p->init_bytes, t->bytes);
  }
  place_arena(b);
}

// ---- the plan ---------------------------------------------------------------------------------

static void add_headers(Compiler *c, Plan *p) {
  static const char folder[] = "templates/";
  int count = 0;
  while (asset_name(count)) count++;
  p->headers = base_alloc((size_t)count, sizeof *p->headers);
  for (int i = 0; i < count; i++) {
    const char *name = asset_name(i);
    size_t length;
    if (strncmp(name, "templates/lib/", 14)) continue;
    p->headers[p->nheaders++] = (PlanHeader){copy_text(name + strlen(folder)),
                                             copy_text(asset_text(c->arena, name, &length))};
  }
}

// Outputs of the model are separate tensors outside the arena, named as in the model.
static void name_outputs(Builder *b) {
  Graph *g = b->c->graph;
  for (int i = 0; i < g->noutputs; i++) {
    PlanTensor *t = &b->plan->tensors[add_tensor(b, g->outputs[i].node)];
    free(t->name);
    t->name = copy_text(g->outputs[i].name);
    t->role = RoleOutput;
    t->space = SpaceStatic;
  }
}

// Needs: sources and tiles. The caller frees the plan with plan_free.
Plan *plan_build(Compiler *c) {
  Graph *g = c->graph;
  int most = g->nnodes; // tensors
  for (int i = 0; i < g->ngroups; i++) most += g->groups[i]->nscratch;
  Builder b = {c, base_alloc(1, sizeof(Plan)), base_alloc((size_t)g->nnodes, sizeof(int)),
               base_alloc((size_t)most, sizeof(bool))};
  Plan *p = b.plan;
  for (int i = 0; i < g->nnodes; i++) b.tensor_of[i] = -1;
  p->model = copy_text(g->model);
  p->lowering = copy_text(c->options.lowering);
  p->dtype = copy_text(c->options.dtype);
  p->arch = copy_text(c->options.arch->name);
  p->tensors = base_alloc((size_t)most, sizeof *p->tensors);
  p->kernels = base_alloc((size_t)g->ngroups, sizeof *p->kernels);
  p->entries = base_alloc((size_t)c->nentries + 1, sizeof *p->entries);
  for (int i = 0; i < g->nnodes; i++) // inputs first, in the model's order, used or not
    if (g->nodes[i]->op->cls == OpSource &&
        (g->nodes[i]->op->form == SourceInput || g->nodes[i]->updated))
      add_tensor(&b, g->nodes[i]);
  for (int i = 0; i < g->nupdates; i++) // one tensor for both
    if (g->updates[i].in_place)
      b.tensor_of[g->updates[i].value->id] = add_tensor(&b, g->updates[i].state);
  for (int i = 0; i < g->ngroups; i++) add_kernel(&b, g->groups[i]);
  name_outputs(&b);
  add_init(&b);
  for (int i = 0; i < c->nentries; i++) add_entry(&b, i);
  add_headers(c, p);
  place_tensors(&b);
  free(b.tensor_of), free(b.zeroed);
  return p;
}
