// sorted_scatter.c: sort the ids of a scatter first?
//
// Each block of a scatter has the sums of some places, and examines all ids: tables x ids. With the
// positions that sort the ids it finds its own by searches, at the cost of a kernel that sorts runs
// and one for each doubling (shared by scatters of the same ids). Which is faster depends on the
// sizes and the GPU, so both are grouped, and their modelled times compared.
#include "fuse.h"

enum { kLeastIds = 2048 }; // fewer are examined faster than a sort is launched

static bool may_sort(const Node *n) {
  return n->uses && n->op->cls == OpScatter && n->nin == 2 &&
         type_count(&n->in[0]->type) >= kLeastIds;
}

// ---- the graph with sorted ids ------------------------------------------------------------------

typedef struct Sorts {
  const bool *wanted;  // by id of the old graph's nodes
  Node **ids, **order; // sorted so far
  int count;
} Sorts;

static Node *positions(Graph *to, const char *op, int nin, Node **in, int64_t run,
                       const Node *like) {
  Attr attr = {.axis = in[0]->type.rank - 1, .count = run, .smallest = 1};
  Node *n = graph_add(to, op_need(to->c, op), nin, in, &attr, (Node *)like);
  n->type = type_make(DtI32, in[0]->type.rank, in[0]->type.dim);
  return n;
}

// The positions that sort `ids`; one node for all scatters of them in an entry.
static Node *order_of(Graph *to, Sorts *s, Node *ids, const Node *like) {
  for (int i = 0; i < s->count; i++)
    if (s->ids[i] == ids && s->order[i]->entry == like->entry) return s->order[i];
  int64_t length = ids->type.dim[ids->type.rank - 1];
  Node *in[2] = {ids, positions(to, "sort_runs", 1, &ids, kSortRun, like)};
  for (int64_t run = kSortRun; run < length; run *= 2)
    in[1] = positions(to, "sort_merge", 2, in, run, like);
  s->ids[s->count] = ids, s->order[s->count] = in[1];
  return s->order[s->count++];
}

static Node *rewrite(Graph *to, Node *node, Node **in) {
  Sorts *s = to->scratch;
  bool sorts = s->wanted[node->id];
  Node *all[3] = {sorts ? in[0] : NULL, sorts ? in[1] : NULL};
  if (sorts) all[2] = order_of(to, s, in[0], node);
  const Op *op = sorts ? op_need(to->c, "scatter_sorted") : node->op;
  Node *n = graph_add(to, op, sorts ? 3 : node->nin, sorts ? all : in, &node->attr, node);
  n->type = node->type;
  return n;
}

static Graph *with_sorts(Graph *g, const bool *wanted) {
  size_t count = (size_t)g->nnodes + 1;
  Sorts s = {.wanted = wanted,
             .ids = arena_alloc(g->arena, sizeof *s.ids * count),
             .order = arena_alloc(g->arena, sizeof *s.order * count)};
  g = graph_copy(graph_rebuild(g, rewrite, &s));
  graph_count_uses(g);
  return g;
}

// ---- the choice ---------------------------------------------------------------------------------

static double seconds_of(const Node *n) {
  Group *k = n->group;
  double seconds = k->tm->seconds(k, k->graph->c->options.arch);
  k->tile = (Tile){0}; // sched_pass sets it again
  return seconds;
}

// Modelled seconds of the scatter and of the sort of its ids.
static double all_seconds(const Node *scatter) {
  double seconds = seconds_of(scatter);
  const Node *n = scatter->nin > 2 ? scatter->in[2] : NULL;
  for (; n; n = n->nin > 1 ? n->in[1] : NULL) seconds += seconds_of(n);
  return seconds;
}

static void say_why(Node *n, bool sorted, double chosen, double other) {
  const char *format = sorted ? "ids are sorted first: %.2f us modelled; each block examines all "
                                "ids: %.2f us"
                              : "each block examines all ids: %.2f us modelled; ids are sorted "
                                "first: %.2f us";
  n->blocks = arena_printf(n->group->graph->arena, format, chosen * 1e6, other * 1e6);
}

// Sorting must save a tenth: about the error of the model, by hand.
static const double kMuch = 0.9;

Graph *scatter_choose(Graph *g, Graph *grouped, Graph *(*group)(Compiler *, Graph *)) {
  size_t count = (size_t)g->nnodes + 1;
  bool *wanted = arena_alloc(g->arena, sizeof *wanted * count);
  double *plain = arena_alloc(g->arena, sizeof *plain * count),
         *sorted = arena_alloc(g->arena, sizeof *sorted * count);
  Node **old = arena_alloc(g->arena, sizeof *old * count);
  int candidates = 0, chosen = 0;
  for (int i = 0; i < g->nnodes; i++) {
    old[i] = may_sort(g->nodes[i]) ? fuse_made_of(grouped, g->nodes[i]) : NULL;
    wanted[i] = old[i] && old[i]->group;
    candidates += wanted[i];
    if (wanted[i]) plain[i] = all_seconds(old[i]);
  }
  if (!candidates) return grouped;
  Graph *made = group(g->c, with_sorts(g, wanted));
  for (int i = 0; i < g->nnodes; i++) {
    if (!wanted[i]) continue;
    sorted[i] = all_seconds(fuse_made_of(made, g->nodes[i]));
    wanted[i] = sorted[i] < kMuch * plain[i];
    if (!wanted[i]) say_why(old[i], false, plain[i], sorted[i]);
    chosen += wanted[i];
  }
  if (!chosen) return grouped;
  if (chosen < candidates) made = group(g->c, with_sorts(g, wanted));
  for (int i = 0; i < g->nnodes; i++)
    if (wanted[i]) say_why(fuse_made_of(made, g->nodes[i]), true, sorted[i], plain[i]);
  return made;
}
