// id_ranges.c: ids of gathers over many runs, by interval arithmetic: a state's range is what it
// holds now, joined after each run with the range of its update. The position of a next token, say,
// is one more after each run, and the token an index of its logits. Of floats nothing is known:
// they may be NaN, and are rounded.
#include "gen/oracle/oracle.h"

#include <math.h>
#include <stdlib.h>

enum { kMostRead = 1 << 20 }; // elements of a source that is read for its range

typedef struct Ranges { // by node id
  Compiler *c;
  Span *of;
  bool *needed;
  const Node **next; // of a state: its value after a run
  CheckRead read;
  void *user;
} Ranges;

static Span join(Span a, Span b) {
  return (Span){fmin(a.lo, b.lo), fmax(a.hi, b.hi)};
}

// s, as a dtype holds it: what is beyond may wrap around.
static Span as_held(Dtype dtype, Span s) {
  double least, most;
  if (dtype_is_float(dtype)) return span_any();
  if (!span_holds(dtype, &least, &most)) least = 0, most = 1; // bool
  return s.lo >= least && s.hi <= most ? s : (Span){least, most};
}

// How many inputs, from the first on, does n's range follow from?
static int inputs_of(const Node *n) {
  if (n->op->cls == OpMap) return n->nin;
  if (n->op->cls != OpMove) return n->op->cls == OpReduce && n->op->flags & FlagMax;
  return node_is_gather(n) ? 1 : n->nin;
}

// Marks n, and what its range follows from. Nodes are in topological order, but for updates.
static void mark(Ranges *r, const Node *n) {
  if (r->needed[n->id]) return;
  r->needed[n->id] = true;
  for (int i = 0; i < inputs_of(n); i++) mark(r, n->in[i]);
  if (r->next[n->id]) mark(r, r->next[n->id]);
}

// The range of what a source holds.
static Span held(Ranges *r, const Node *n) {
  int64_t count = type_count(&n->type);
  if (count > kMostRead || dtype_is_float(n->type.dtype)) return span_any();
  double *values = base_alloc((size_t)count, sizeof *values);
  Span s = {INFINITY, -INFINITY};
  bool ok = r->read(r->user, n, values) && count;
  for (int64_t i = 0; ok && i < count; i++) s = join(s, (Span){values[i], values[i]});
  free(values);
  return ok ? s : span_any();
}

static Span of_map(Ranges *r, const Node *n) {
  Span in[MaxInputs];
  const Traced *k = program_of(r->c, n->op);
  if (!k->ok) return span_any();
  for (int i = 0; i < n->nin; i++) in[i] = r->of[n->in[i]->id];
  Span s = span_run(&k->program, in, span_of_floats(n));
  bool converts = n->op->typing == TypeConvert;
  return converts ? span_converted(n->in[0]->type.dtype, (Dtype)n->attr.dtype, s) : s;
}

static Span unwrapped(Ranges *r, const Node *n) {
  if (node_has_memory(n)) return r->of[n->id]; // by held()
  if (n->op->cls == OpSource && n->op->form == SourceConst)
    return (Span){n->attr.value, n->attr.value};
  if (n->op->cls == OpSource && n->op->form == SourceIndex)
    return (Span){0, (double)n->type.dim[n->attr.axis] - 1};
  if (n->op->cls == OpMap) return of_map(r, n);
  if (n->op->cls == OpReduce && n->op->flags & FlagPlace)
    return (Span){0, (double)type_count(&n->in[0]->type) / (double)type_count(&n->type) - 1};
  if (!inputs_of(n) || !type_count(&n->in[0]->type)) return span_any();
  Span s = r->of[n->in[0]->id];
  for (int i = 1; i < inputs_of(n); i++) s = join(s, r->of[n->in[i]->id]);
  if (n->op->cls == OpMove && n->op->form == MovePad)
    s = join(s, (Span){n->attr.value, n->attr.value});
  return s;
}

static Span range(Ranges *r, const Node *n) {
  return as_held(n->type.dtype, unwrapped(r, n));
}

static bool is_inside(const Ranges *r, const Node *gather) {
  Span ids = r->of[gather->in[1]->id];
  return ids.lo >= 0 && ids.hi <= (double)gather->in[0]->type.dim[gather->attr.axis] - 1;
}

// States after a run; false: none has a wider range than before.
static bool widen(Ranges *r, const Graph *g) {
  bool wider = false;
  for (int i = 0; i < g->nnodes; i++) {
    if (!r->needed[i] || !r->next[i]) continue;
    Span s = as_held(g->nodes[i]->type.dtype, join(r->of[i], r->of[r->next[i]->id]));
    wider = wider || s.lo < r->of[i].lo || s.hi > r->of[i].hi;
    r->of[i] = s;
  }
  return wider;
}

bool ids_stay(Compiler *c, int entry, int64_t runs, CheckRead read, void *user) {
  Graph *g = c->original;
  size_t count = (size_t)g->nnodes + 1;
  const bool *wanted = ids_gathers(g, entry);
  Ranges r = {.c = c, .read = read, .user = user};
  r.of = arena_alloc(c->arena, sizeof *r.of * count);
  r.needed = arena_alloc(c->arena, sizeof *r.needed * count);
  r.next = arena_alloc(c->arena, sizeof *r.next * count);
  for (int i = 0; i < g->nupdates; i++)
    if (g->updates[i].entry == entry) r.next[g->updates[i].state->id] = g->updates[i].value;
  for (int i = 0; i < g->nnodes; i++)
    if (wanted[i]) mark(&r, g->nodes[i]->in[1]);
  for (int i = 0; i < g->nnodes; i++)
    if (r.needed[i] && node_has_memory(g->nodes[i])) r.of[i] = held(&r, g->nodes[i]);
  for (int64_t run = 0; run < runs; run++) {
    for (int i = 0; i < g->nnodes; i++)
      if (r.needed[i]) r.of[i] = range(&r, g->nodes[i]);
    for (int i = 0; i < g->nnodes; i++)
      if (wanted[i] && !is_inside(&r, g->nodes[i])) return false;
    if (!widen(&r, g)) return true;
  }
  return true;
}
