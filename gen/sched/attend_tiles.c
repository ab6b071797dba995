// attend_tiles.c: classifies tiles of scores: skipped (the conditions make all scores -inf), plain
// (all conditions hold; computed without them), or mixed.
#include "attend.h"

#include <math.h>

// of a dimension of scores: a single index per block, or a range of rows or keys
enum { DimExact, DimRow, DimKey };

static void dim_kinds(const Attending *a, int *kinds) {
  const Maps *m = a->values.maps;
  for (int d = 0; d < m->rank[MapA]; d++)
    kinds[d] = maps_uses(&m->dim[MapA][d], m, AxisM)   ? DimRow
               : maps_uses(&m->dim[MapA][d], m, AxisK) ? DimKey
                                                       : DimExact;
}

// Does n distinguish tiles without reading all of its elements? kinds: DimExact.. of n's
// dimensions.
static bool tells(const Group *g, const Node *n, const int *kinds) {
  int from[MaxRank], of[MaxRank];
  if (n->op->cls == OpSource && n->op->form == SourceConst) return false;
  if (n->op->cls == OpSource && n->op->form == SourceIndex) return true;
  if (n->group == g && n->op->cls == OpMove && span_follow(n, from)) {
    for (int d = 0; d < n->in[0]->type.rank; d++) of[d] = from[d] < 0 ? DimExact : kinds[from[d]];
    return tells(g, n->in[0], of);
  }
  bool rows = false, keys = false, found = false;
  for (int d = 0; d < n->type.rank; d++)
    rows = rows || (n->type.dim[d] > 1 && kinds[d] == DimRow),
    keys = keys || (n->type.dim[d] > 1 && kinds[d] == DimKey);
  // a value per row and key does not
  if (n->group != g || n->op->cls == OpMove) return !(rows && keys);
  for (int i = 0; n->op->cls == OpMap && i < n->nin && !found; i++) {
    const Type *t = &n->in[i]->type;
    for (int d = 0; d < t->rank; d++)
      of[d] = t->dim[d] == 1 ? DimExact : kinds[d + n->type.rank - t->rank];
    found = tells(g, n->in[i], of);
  }
  return found;
}

static int place_in(const Group *g, const Node *n) {
  for (int i = 0; i < g->nnodes; i++)
    if (g->nodes[i] == n) return i;
  return -1;
}

static bool is_product(const Attention *a, const Node *n) {
  return n == a->product[0] || (a->nproducts > 1 && n == a->product[1]);
}

// True if element i of n reads element i of its input, so that conditions keep their positions.
static bool keeps_places(const Node *n) {
  if (n->op->cls != OpMove) return true;
  const Type *in = &n->in[0]->type, *out = &n->type;
  bool same = n->op->form == MoveReshape && in->rank <= out->rank;
  for (int d = 1; same && d <= out->rank; d++)
    same = out->dim[out->rank - d] == (d <= in->rank ? in->dim[in->rank - d] : 1);
  return same;
}

// Marks the nodes of the group that the score reads, and those that depend on the product.
static void mark(const Group *g, bool *read, bool *made) {
  const Attention *a = g->attention;
  for (int i = 0; i < g->nnodes; i++) read[i] = made[i] = false;
  for (int i = g->nnodes - 1; i >= 0; i--) {
    read[i] = read[i] || g->nodes[i] == a->score;
    bool follows = read[i] && !is_product(a, g->nodes[i]) && keeps_places(g->nodes[i]);
    for (int j = 0; follows && j < g->nodes[i]->nin; j++) {
      int at = place_in(g, g->nodes[i]->in[j]);
      if (at >= 0) read[at] = true;
    }
  }
  for (int i = 0; i < g->nnodes; i++) {
    made[i] = is_product(a, g->nodes[i]);
    for (int j = 0; j < g->nodes[i]->nin && !made[i]; j++) {
      int at = place_in(g, g->nodes[i]->in[j]);
      made[i] = at >= 0 && made[at];
    }
  }
}

double attend_masked(const Attention *a) {
  return a->power ? -INFINITY : 0;
}

Masking attend_masking(const Group *g, const Attending *a) {
  Masking m = {0};
  bool telling = false, *read = arena_alloc(g->graph->arena, (size_t)g->nnodes),
       *made = arena_alloc(g->graph->arena, (size_t)g->nnodes);
  int kinds[MaxRank], of[MaxRank];
  dim_kinds(a, kinds);
  mark(g, read, made);
  for (int i = 0; i < g->nnodes; i++) {
    const Node *n = g->nodes[i], *c = n->op->typing == TypeWhere ? n->in[0] : NULL;
    if (!read[i] || n->op->cls != OpMap || !c || node_is_literal(c)) continue;
    int at = place_in(g, c), known = 0;
    if (at >= 0 && made[at]) continue;
    while (known < m.count && m.condition[known].node != c) known++;
    if (known < m.count || m.count == kMostConditions) continue;
    bool masked = node_is_literal(n->in[1]) && n->in[1]->attr.value == -INFINITY;
    m.condition[m.count].node = c;
    m.condition[m.count++].holds = !masked;
    int below = a->values.maps->rank[MapA] - c->type.rank;
    for (int d = 0; d < c->type.rank; d++)
      of[d] = c->type.dim[d] == 1 ? DimExact : kinds[d + below];
    telling = telling || tells(g, c, of);
  }
  if (!telling) m.untold = m.count > 0, m.count = 0;
  return m;
}

// ---- counting tiles ---------------------------------------------------------------------------

// Range of the digit with place value `below` and base `size` of the numbers first to last.
static Span digit(int64_t first, int64_t last, int64_t below, int64_t size) {
  first /= below, last /= below;
  if (last - first >= size || first % size > last % size) return (Span){0, (double)(size - 1)};
  return (Span){(double)(first % size), (double)(last % size)};
}

// Range of dimension d of the scores for these batches, rows and keys.
static Span dim_span(const Attending *a, int d, const int64_t first[AxisRoles],
                     const int64_t last[AxisRoles]) {
  const Maps *m = a->values.maps;
  int64_t below[AxisRoles] = {1, 1, 1, 1};
  for (int i = m->naxes - 1; i >= 0; i--) {
    AxisRole role = m->axis[i].role;
    if (m->dim[MapA][d].by[i]) return digit(first[role], last[role], below[role], m->axis[i].size);
    below[role] *= m->axis[i].size;
  }
  return (Span){0, 0};
}

static void count_tile(const Group *g, const Attending *a, const Masking *masking,
                       const int64_t first[AxisRoles], const int64_t last[AxisRoles],
                       TileShares *s) {
  const Type *t = &g->attention->score->type;
  Span at[MaxRank];
  for (int d = 0; d < t->rank; d++) at[d] = dim_span(a, d, first, last);
  Span score = span_of(g, g->attention->score, at);
  bool plain = !masking->untold;
  for (int i = 0; i < masking->count; i++) {
    const Node *c = masking->condition[i].node;
    Span of[MaxRank];
    for (int d = 0; d < c->type.rank; d++)
      of[d] = c->type.dim[d] == 1 ? (Span){0, 0} : at[d + t->rank - c->type.rank];
    Span holds = span_of(g, c, of);
    plain = plain && (masking->condition[i].holds ? span_true(holds) : span_false(holds));
  }
  double masked = attend_masked(g->attention);
  bool skipped = score.lo >= masked && score.hi <= masked;
  *(skipped ? &s->skipped : plain ? &s->plain : &s->mixed) += 1;
}

// Does any condition depend on the batch?
static bool batches_differ(const Attending *a, const Masking *masking) {
  const Maps *m = a->values.maps;
  for (int i = 0; i < masking->count; i++) {
    const Type *t = &masking->condition[i].node->type;
    for (int d = 0; d < t->rank; d++)
      if (t->dim[d] > 1 && maps_uses(&m->dim[MapA][d + m->rank[MapA] - t->rank], m, AxisBatch))
        return true;
  }
  return false;
}

TileShares attend_tiles(const Group *g, const Attending *a, const Tile *t) {
  enum { kMostCounted = 1 << 22 };
  Masking masking = attend_masking(g, a);
  int64_t rows = ceil_div(a->rows, t->m), keys = ceil_div(a->keys, t->n);
  int64_t batches = batches_differ(a, &masking) ? a->batch : 1;
  TileShares s = {0};
  if (!masking.count || rows * keys * batches > kMostCounted) {
    *(masking.count || masking.untold ? &s.mixed : &s.plain) = (double)(rows * keys * a->batch);
    return s;
  }
  for (int64_t b = 0; b < batches; b++)
    for (int64_t r = 0; r < rows; r++)
      for (int64_t k = 0; k < keys; k++) {
        int64_t first[AxisRoles] = {[AxisBatch] = b, [AxisM] = r * t->m, [AxisK] = k * t->n},
                last[AxisRoles];
        last[AxisBatch] = b;
        last[AxisM] = (r + 1) * t->m < a->rows ? (r + 1) * t->m - 1 : a->rows - 1;
        last[AxisK] = (k + 1) * t->n < a->keys ? (k + 1) * t->n - 1 : a->keys - 1;
        last[AxisN] = 0;
        double before = s.skipped;
        count_tile(g, a, &masking, first, last, &s);
        if (r == 0) s.skipped_first += s.skipped - before;
        if (r == rows - 1) s.skipped_last += s.skipped - before;
      }
  double scale = (double)a->batch / (double)batches;
  s.skipped *= scale, s.mixed *= scale, s.plain *= scale;
  return s;
}

double attend_share(const Group *g, const Attending *a, const Tile *t) {
  TileShares s = attend_tiles(g, a, t);
  return (s.mixed + s.plain) / (s.skipped + s.mixed + s.plain);
}
