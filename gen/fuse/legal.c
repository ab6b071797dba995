// legal.c: what may be computed in one kernel: for each template, rules by the class of the joining
// node. A rule returns the reason against joining, which `--explain` prints, or NULL.
#include "fuse.h"

#include <math.h>

#include <string.h>

static const char *when(bool legal, const char *otherwise) {
  return legal ? NULL : otherwise;
}

// ---- where elements are stored ------------------------------------------------------------------

// A transposing store writes one element per sector: is that cheaper than a separate copy?
bool legal_stores_runs(const Group *k, Lane lane, const Type *t) {
  int64_t stride[MaxRank];
  type_strides(t, stride);
  return (lane.dim >= 0 && stride[lane.dim] == 1) || gain_scatters(k->graph->c->options.arch, t);
}

bool legal_alone(const Group *k, const Node *n) {
  for (int i = 0; i < k->nnodes; i++) {
    const Node *made = k->nodes[i];
    int count;
    if (made == n) continue;
    Node **readers = fuse_readers(k->graph, made, &count);
    if (count != made->uses) return false; // it is an output of the model
    for (int j = 0; j < count; j++)
      if (readers[j] != n && readers[j]->group != k) return false;
  }
  return true;
}

// Would n be the only value that the product stores, along its rows?
static bool stores_transposed(const Group *k, const Node *n, Lane rows, const Type *t) {
  return tail_transposed(k, rows, t) && legal_alone(k, n);
}

// Would the group's stores of map n be coalesced?
static bool stores_well(const Group *k, const Node *n) {
  const Type *made = &k->anchor->type, *t = &n->type;
  int tail = k->ntails ? tail_of_inputs(k, n) : 0;
  if (k->ntails && stores_transposed(k, n, tail_row_lane(k, tail), t)) return true;
  if (k->ntails && (k->pair[0] || k->tails[tail].nmoves))
    return legal_stores_runs(k, tail_lane(k, tail), t);
  if (k->tm->fusion->maps || !type_same_shape(made, t)) return true;
  int64_t a[MaxRank], b[MaxRank];
  type_strides(made, a);
  type_strides(t, b);
  bool same = !memcmp(a, b, sizeof a[0] * (size_t)t->rank);
  return same || gain_scatters(k->graph->c->options.arch, t);
}

// May a value of this shape be computed in the group's epilogue?
static bool in_domain(const Group *k, const Type *t) {
  const Type *all = k->tm->fusion->elements ? k->tm->fusion->elements(k) : NULL;
  return (all && type_same_shape(all, t)) || type_same_shape(&k->anchor->type, t);
}

static int64_t size_from_end(const Type *t, int d) { // of the d-th dimension from the last
  return d < t->rank ? t->dim[t->rank - 1 - d] : 1;
}

// True for a reshape that only adds or drops leading 1s: elements keep their broadcast positions.
bool legal_keeps_places(const Node *n) {
  bool same = n->op->form == MoveReshape;
  for (int d = 0; d < MaxRank && same; d++)
    same = size_from_end(&n->type, d) == size_from_end(&n->in[0]->type, d);
  return same;
}

// Can k compute n, one of its maps or moves, at any position: does n depend on none of k's other
// nodes, such as reductions? k's nodes are in topological order.
static bool is_anywhere(const Group *k, const Node *n) {
  bool bound[kMostNodes] = {false};
  int at = 0;
  for (; at < k->nnodes && at < kMostNodes; at++) {
    const Node *m = k->nodes[at];
    bound[at] = m->op->cls != OpMap && m->op->cls != OpMove;
    for (int i = 0; i < m->nin; i++)
      for (int j = 0; j < at; j++) bound[at] = bound[at] || (bound[j] && k->nodes[j] == m->in[i]);
    if (m == n) break;
  }
  return at < k->nnodes && at < kMostNodes && !bound[at];
}

// Is n a result of k that was moved to other positions?
bool legal_moved(const Node *n, const Group *k) {
  bool moved = false;
  for (; n->group == k && n->op->cls == OpMove && n->nin == 1; n = n->in[0])
    moved = moved || !legal_keeps_places(n);
  return moved && n->group == k && // otherwise it is read from memory, in any layout
         !(k->tm->fusion->sweeps && k->tm->fusion->elements && is_anywhere(k, n));
}

// A map of the final reduction has one element per column sum.
static const char *foot_joins(const Group *k, const Node *n) {
  const Node *sum = NULL;
  for (int i = 0; i < k->nnodes; i++)
    if (group_reduces(k, k->nodes[i])) sum = k->nodes[i];
  return when(sum && type_same_shape(&sum->type, &n->type),
              "its shape differs from that of the column sums it reads");
}

static const char *map_joins(const Group *k, const Node *n) {
  for (int i = 0; i < n->nin && !k->ntails && !k->tm->fusion->maps; i++)
    if (legal_moved(n->in[i], k)) return "it reads that kernel's result at other positions";
  if (k->ntails && tail_of_inputs(k, n) == kFootTail) return foot_joins(k, n);
  if (k->ntails && tail_of_inputs(k, n) < 0)
    return "it combines outputs that the product stores separately";
  if (k->ntails ? !type_same_shape(&tail_made(k, tail_of_inputs(k, n))->type, &n->type)
                : !in_domain(k, &n->type))
    return "its shape differs from that kernel's iteration domain";
  return when(stores_well(k, n), "fusing it would make that kernel's stores uncoalesced");
}

// ---- moves -------------------------------------------------------------------------------------

// Is n a reshape or permutation of a result of k with the same memory layout? It is stored as is.
bool legal_lies_alike(const Group *k, const Node *n) {
  if (k->tm->fusion->product) return false;
  bool alike = false;
  for (const Node *x = n; !alike && x->nin == 1 && x->in[0]->group == k && view_same_memory(x);) {
    x = x->in[0];
    alike = in_domain(k, &x->type);
  }
  return alike;
}

static const char *move_lies_alike(const Group *k, const Node *n) {
  return when(legal_lies_alike(k, n), "that template cannot permute elements while storing");
}

// The elements at the positions that a select or sort has found.
static const char *move_takes_found(const Group *k, const Node *n) {
  bool found = n->op->form == MoveAlong && n->in[1]->group == k && in_domain(k, &n->type);
  return found ? NULL : move_lies_alike(k, n);
}

static bool goes_on(const Node *n, const Node *next) {
  if (fuse_of(n->group->graph)->one_call && next->call != n->call) return false;
  return op_scatters(next->op) ||
         (next->op->cls == OpMap && type_same_shape(&next->type, &n->type));
}

// The value that an epilogue finally stores if it computes move n: n followed through moves and
// maps that are only readers. Updates `lane` along the way; *maps: are any of them maps?
static const Node *stored_after(const Node *n, Lane *lane, bool *maps) {
  *maps = false;
  for (const Node *next = n; next; next = fuse_only_reader(n)) {
    if (next != n && !goes_on(n, next)) break;
    n = next;
    *maps = *maps || n->op->cls == OpMap;
    if (op_scatters(n->op)) *lane = lane_follow(*lane, n);
  }
  return n;
}

// Is n's input stored in any case, for readers outside k?
static bool is_stored_for_others(const Group *k, const Node *n) {
  int count;
  Node **readers = fuse_readers(k->graph, n->in[0], &count);
  bool found = count != n->in[0]->uses;
  for (int i = 0; i < count; i++) found = found || (readers[i] != n && readers[i]->group != k);
  return found;
}

// Is n read only by maps of its shape? They are computed together with it, unless some of them wait
// for a sum of others along a row: a norm.
static bool feeds_maps(const Group *k, const Node *n) {
  int count;
  Node **readers = fuse_readers(k->graph, n, &count);
  bool all = count > 0 && count == n->uses;
  for (int i = 0; i < count && all; i++) {
    const Node *next = fuse_only_reader(readers[i]);
    bool summed = next && next->op->cls == OpReduce && fuse_fits_row(next);
    all = goes_on(n, readers[i]) && !op_scatters(readers[i]->op) && !(summed && count > 1);
  }
  return all;
}

// A contraction follows a move of its result if its stores stay coalesced at the end of the moves.
static const char *move_joins_product(const Group *k, const Node *n) {
  if (tail_of_inputs(k, n) == kFootTail)
    return when(view_same_memory(n),
                "it permutes the column sums");
  if (group_statistic(k)) return "the rows that it moves are reduced by that kernel";
  if (!op_scatters(n->op))
    return "a product's epilogue computes no moves except reshape, permute, slice, roll";
  if (k->pair[0] && !tail_goes_on(k, n)) return "the unpermuted result has other readers";
  int tail = tail_of_inputs(k, n);
  Lane lane = tail_lane(k, tail), rows = tail_row_lane(k, tail);
  bool maps;
  stored_after(n, &rows, &maps);
  const Node *stored = stored_after(n, &lane, &maps);
  int readers;
  fuse_readers(k->graph, stored, &readers);
  if (is_stored_for_others(k, n) && !maps && readers == stored->uses && !feeds_maps(k, stored))
    return "the unpermuted result has other readers and can be read in place";
  if (!tail_may_begin(k, n))
    return "the product already has the maximum number of epilogue outputs";
  return when(stores_transposed(k, n, rows, &stored->type) ||
                  legal_stores_runs(k, lane, &stored->type),
              "the move would make the product's stores uncoalesced");
}

// ---- reductions --------------------------------------------------------------------------------

// A reduction turns a group of maps into a row group, or joins one over the same elements.
static const char *row_of_maps(const Group *k, const Node *n) {
  if (!fuse_fits_row(n)) return "its axes are not innermost, or its rows are split over blocks";
  return when(type_same_shape(&k->anchor->type, &n->in[0]->type),
              "its input's shape differs from that kernel's iteration domain");
}

static const char *row_of_rows(const Group *k, const Node *n) {
  if (!fuse_fits_row(n)) return "its axes are not innermost, or its rows are split over blocks";
  if (k->anchor->attr.axes != n->attr.axes) return "it reduces different axes";
  if (legal_moved(n->in[0], k)) return "it reads that kernel's result at other positions";
  return when(type_same_shape(&k->anchor->in[0]->type, &n->in[0]->type),
              "it reduces a different shape");
}

// Reductions of one shape along the same axes share a sweep, in any memory order.
static const char *sweeps_join(const Group *k, const Node *n) {
  if (fuse_reaches(n->group, k)) return "it depends on that kernel's result";
  if (fuse_fits_row(n)) return "its rows use one block each, that kernel's several";
  if (k->anchor->attr.axes != n->attr.axes) return "it reduces different axes";
  if (state_words(k) + state_words(n->group) > kMostWords)
    return "their accumulators do not fit in registers together";
  return when(type_same_shape(&k->anchor->in[0]->type, &n->in[0]->type),
              "it reduces a different shape");
}

// ---- attention ---------------------------------------------------------------------------------

static const char *map_joins_attention(const Group *k, const Node *n) {
  const char *reason = attend_joins(k, n);
  bool of_rows = !reason && tail_of_inputs(k, n) == kRowTail;
  return reason || of_rows ? reason : map_joins(k, n);
}

static const char *move_joins_attention(const Group *k, const Node *n) {
  return tail_of_inputs(k, n) == kRowTail ? "it moves per-row softmax values"
                                          : move_joins_product(k, n);
}

// ---- the table ---------------------------------------------------------------------------------

static bool anchors_reduce(const Node *n) {
  return n->op->cls == OpReduce && !fuse_fits_row(n);
}
static bool anchors_row(const Node *n) {
  return n->op->cls == OpReduce && fuse_fits_row(n);
}
static bool anchors_window(const Node *n) {
  return n->op->cls == OpWindow || node_depthwise(n);
}
static bool anchors_contract(const Node *n) {
  return n->op->cls == OpContract && !node_depthwise(n);
}
static bool anchors_scan(const Node *n) {
  return n->op->cls == OpScan;
}
static bool anchors_select(const Node *n) {
  return n->op->cls == OpSelect;
}
static bool anchors_sort(const Node *n) {
  return n->op->cls == OpSort;
}
static bool anchors_map(const Node *n) {
  return n->op->cls == OpMap || n->op->cls == OpMove;
}

static bool
anchors_none(const Node *n) { // set by attend.c, attend_backward.c, multi_launch.c, heads.c
  (void)n;
  return false;
}

static const Type *made_elements(const Group *k) {
  return &k->anchor->type;
}
static const Type *row_elements(const Group *k) {
  return &k->anchor->in[0]->type;
}

const Fusion fusion_map = {
    .anchors = anchors_map,
    .joins = {[OpMap] = map_joins, [OpReduce] = row_of_maps, [OpMove] = move_lies_alike},
    .takes = prologue_of_elements,
    .elements = made_elements,
    .maps = true,
    .anywhere = true,
    .in_place = true};
static bool anchors_scatter(const Node *n) {
  return n->op->cls == OpScatter;
}
const Fusion fusion_reduce = {
    .anchors = anchors_reduce,
    .joins = {[OpMap] = map_joins, [OpReduce] = sweeps_join, [OpMove] = move_lies_alike},
    .takes = prologue_of_elements,
    .sweeps = true,
    .anywhere = true,
    .in_place = true};
const Fusion fusion_row = {
    .anchors = anchors_row,
    .joins = {[OpMap] = map_joins, [OpReduce] = row_of_rows, [OpMove] = move_lies_alike},
    .takes = prologue_of_elements,
    .elements = row_elements,
    .sweeps = true,
    .anywhere = true};
const Fusion fusion_window = {.anchors = anchors_window,
                              .joins = {[OpMap] = map_joins, [OpMove] = move_lies_alike},
                              .takes = prologue_of_window,
                              .anywhere = true};
const Fusion fusion_contract = {
    .anchors = anchors_contract,
    .joins = {[OpMap] = map_joins, [OpReduce] = legal_columns, [OpMove] = move_joins_product},
    .takes = prologue_of_product,
    .product = true,
    .transposes = true,
    .anywhere = true,
    .in_place = true};
const Fusion fusion_attend = {
    .anchors = anchors_none,
    .joins = {[OpMap] = map_joins_attention, [OpMove] = move_joins_attention},
    .takes = prologue_of_attention,
    .product = true,
    .anywhere = true};
const Fusion fusion_attend_backward = {
    .anchors = anchors_none,
    .joins = {[OpMap] = map_joins, [OpMove] = move_joins_product},
    .takes = prologue_of_attention,
    .product = true,
    .anywhere = true};
const Fusion fusion_sums = {.anchors = anchors_none,
                            .joins = {[OpMap] = map_joins, [OpMove] = move_lies_alike},
                            .takes = prologue_of_attention,
                            .in_place = true};
const Fusion fusion_heads = {.anchors = anchors_none, .takes = prologue_of_elements};
const Fusion fusion_many = {.anchors = anchors_none};
const Fusion fusion_scan = {.anchors = anchors_scan,
                            .joins = {[OpMap] = map_joins, [OpMove] = move_lies_alike},
                            .takes = prologue_of_elements,
                            .anywhere = true};
const Fusion fusion_select = {.anchors = anchors_select,
                              .joins = {[OpMap] = map_joins, [OpMove] = move_takes_found},
                              .takes = prologue_of_elements};

const Fusion fusion_sort = {.anchors = anchors_sort,
                            .joins = {[OpMap] = map_joins, [OpMove] = move_takes_found},
                            .takes = prologue_of_elements};

const Fusion fusion_scatter = {.anchors = anchors_scatter,
                               .joins = {[OpMap] = map_joins, [OpMove] = move_lies_alike},
                               .takes = prologue_of_scatter,
                               .in_place = true};

// Does n read a reduction of k's epilogue? It is available only at the end of the kernel.
static bool reads_columns(const Group *k, const Node *n) {
  for (int i = 0; i < n->nin; i++)
    if (n->in[i]->group == k && group_reduces(k, n->in[i])) return true;
  return false;
}

// ---- sizes --------------------------------------------------------------------------------------

static bool moves_places(const Node *n) {
  return n->op->cls == OpMove && !legal_keeps_places(n);
}

// Values computed per element for these nodes, in topological order: the input of a move is
// recomputed at each position that the move reads, which multiplies along chains of moves.
static double values_of(Node *const *nodes, int count) {
  double times[2 * kMostNodes], sum = 0;
  for (int at = count - 1; at >= 0; at--) {
    double here = 1, moved = 0;
    for (int r = at + 1; r < count; r++)
      for (int in = 0; in < nodes[r]->nin; in++)
        if (nodes[r]->in[in] == nodes[at] && moves_places(nodes[r]))
          moved += times[r];
        else if (nodes[r]->in[in] == nodes[at])
          here = fmax(here, times[r]);
    sum += times[at] = here + moved;
  }
  return sum;
}

const char *legal_values(Node *const *nodes, int count) {
  int moves = 0;
  for (int i = 0; i < count; i++) moves += moves_places(nodes[i]);
  return when(moves < 3 || values_of(nodes, count) <= kMostValues,
              "it would recompute values at too many positions");
}

const char *legal_size(const Group *a, const Group *b) {
  Node *nodes[2 * kMostNodes];
  int count = 0;
  if (a->nnodes + b->nnodes > kMostNodes)
    return "the combined kernel would exceed the node limit";
  for (int i = 0, j = 0; i < a->nnodes || j < b->nnodes;) { // merged in topological order
    bool of_a = j == b->nnodes || (i < a->nnodes && a->nodes[i]->id < b->nodes[j]->id);
    nodes[count] = of_a ? a->nodes[i++] : b->nodes[j++];
    count += nodes[count]->tail != kLoadTail; // prologues of operands are computed elsewhere
  }
  return legal_values(nodes, count);
}

const char *legal_epilogue(const Group *k, const Node *n) {
  FuseRule *rule = k->nnodes ? k->tm->fusion->joins[n->op->cls] : NULL;
  if (k->fixed != n->fixed) return "one of them is computed once, by init";
  if (k->anchor->entry != n->entry) return "they belong to different entries";
  if (n->again && !k->anchor->again) return "it is recomputed late, that kernel runs early";
  if (!fuse_same_call(k, n->group))
    return "lowering is unfused, and they belong to different layers";
  const char *large = legal_size(k, n->group);
  if (large) return large;
  if (!rule) return "it reads elements computed by several blocks of that kernel";
  const char *reason = rule(k, n);
  if (reason) return reason;
  if (reads_columns(k, n) && tail_of_inputs(k, n) != kFootTail)
    return "it reads column sums, which are available only at that kernel's end";
  return when(!fuse_makes_cycle(k, n->group),
              "fusing would create a dependence cycle");
}

// ---- explanations -------------------------------------------------------------------------------

// Why g, which computes n, does not compute the i-th input of n.
static const char *why_apart(const Group *g, const Node *n, int i) {
  const char *apart = n->apart ? n->apart[i] : NULL;
  if (n->in[i]->kept || apart) return n->in[i]->kept ? n->in[i]->kept : apart;
  return g->attention ? "attention operands must be in memory"
                      : "its consumer was fused into that kernel's reader";
}

// Has this reason been printed for input x, before input j of node i?
static bool is_told(const Group *g, int i, int j, const Node *x, const char *reason) {
  for (int a = 0; a <= i; a++)
    for (int b = 0; b < (a == i ? j : g->nodes[a]->nin); b++) {
      const Node *other = g->nodes[a]->in[b];
      bool same = x->group ? other->group == x->group : other == x;
      if (same && why_apart(g, g->nodes[a], b) == reason) return true;
    }
  return false;
}

void fuse_explain(const Group *g, const char *before, FILE *file) {
  if (g->first) fuse_explain(g->first, before, file);
  if (g->alone) fprintf(file, "%snot sharing a launch: %s\n", before, g->alone);
  if (g->anchor->blocks) fprintf(file, "%s%s\n", before, g->anchor->blocks);
  for (int i = 0; i < g->nnodes; i++)
    for (int j = 0; j < g->nodes[i]->nin; j++) {
      const Node *x = g->nodes[i]->in[j];
      const Group *from = x->group;
      const char *reason = why_apart(g, g->nodes[i], j);
      bool apart = from ? from != g && from != g->first && !from->fixed
                        : x->kept && node_has_memory(x);
      if (!apart) continue;
      if (is_told(g, i, j, x, reason)) continue;
      if (from)
        fprintf(file, "%snot fused with %s: %s\n", before,
                from->inside ? from->inside->name : from->name, reason);
      else // it is a source
        fprintf(file, "%snot fused with other kernels that read %s: %s\n", before, x->name, reason);
    }
}
