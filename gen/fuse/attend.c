// attend.c: attention as one kernel. If the left operand of a contraction is a softmax of a map of
// another contraction (q k^T), both contractions and everything between them become one group, so
// that scores are never stored. Matched by what is computed:
//
//   p = exp(score - shift) * f / r ...;   score: any map of q k^T;   shift: one value per row
//
// Per-row factors r (such as the sum of the exponentials) are applied to the output row;
// per-element factors f that do not depend on the scores (dropout) are applied to p. shift and r
// may be any maps of the row max and of sums of the exponentials.
#include "fuse.h"

// ---- per-row values ----------------------------------------------------------------------------

// How many elementwise steps lead from the exponential to x, or -1.
static int steps_to(const AttendSeek *s, const Node *x) {
  if (x == s->a.power) return 0;
  for (int i = s->a.nsteps - 1; i >= 0; i--) {
    if (!attend_is_elementwise(&s->a, &s->a.step[i])) return -1;
    if (s->a.step[i].node == x) return s->a.nsteps - i;
  }
  return -1;
}

// Is n a reduction that the kernel computes itself? Row max; online (max, sum of exp(x - max)); sum
// of the exponentials, before or after elementwise factors, but only one such sum.
static bool is_known(AttendSeek *s, const Node *n) {
  if (n->op->cls != OpReduce || n->attr.axes != 1 << s->a.key) return false;
  const Node *x = attend_uncopied(n->in[0]);
  bool scores = x == attend_uncopied(s->a.score), sums = n->op->flags & FlagAdd;
  if (scores && n->op->flags & FlagMax) return true;
  int steps = scores && n->op->flags & FlagOnline ? 0 : sums ? steps_to(s, x) : -1;
  if (steps < 0 || (s->sums && steps != s->a.counted)) return false;
  s->sums = true, s->a.counted = steps;
  return true;
}

static bool depends_on_product(const AttendSeek *s, const Node *n) {
  return n->group && fuse_reaches(n->group, s->a.product[0]->group);
}

// Includes the maps and reductions from which a per-row value is computed.
static bool include_row(AttendSeek *s, Node *n) {
  if (!depends_on_product(s, n)) return true;
  if (!attend_is_row(&s->a, n))
    return attend_refuse(s, "its probabilities are not a softmax of a single product");
  if (is_known(s, n)) {
    Node *x = n->in[0];
    for (; x->op->flags & FlagCopy && x->op->cls == OpMap; x = x->in[0])
      if (!attend_include(s, x)) return false;
    if (steps_to(s, x) > 0) return attend_include(s, n); // already included by include_steps
    for (; x != s->a.product[0] && !attend_includes(s, x); x = x->in[0])
      if (!attend_include(s, x)) return false;
    return attend_include(s, n);
  }
  if (n->op->cls != OpMap)
    return attend_refuse(s, "a per-row factor does not come from the softmax");
  for (int i = 0; i < n->nin; i++)
    if (!include_row(s, n->in[i])) return false;
  return attend_include(s, n);
}

static bool include_steps(AttendSeek *s) {
  Node *below = s->a.power->in[0];
  if (below != s->a.score)
    for (Node *n = below; n != s->a.score; n = n->in[0])
      if (!attend_include(s, n)) return false;
  if (!attend_include(s, s->a.power)) return false;
  if (s->a.shift && !include_row(s, s->a.shift)) return false;
  for (Node *n = s->last->in[0]; n->op->flags & FlagCopy && n != s->a.power; n = n->in[0])
    if (!attend_include(s, n)) return false;
  for (int i = 0; i < s->a.nsteps; i++) {
    const Weighing *w = &s->a.step[i];
    if (!attend_include(s, w->node)) return false;
    for (int j = 0; j < w->node->nin; j++) {
      Node *other = w->node->in[j];
      if (j == w->heavy || !depends_on_product(s, other)) continue;
      if (!include_row(s, other)) return false;
    }
  }
  return true;
}

// Row reductions of the scores and exponentials that are read only outside are computed here too.
static bool include_reductions(AttendSeek *s) {
  const Node *of[] = {s->a.score, s->a.power};
  for (int i = 0; i < 2; i++) {
    int count;
    Node **readers = fuse_readers(s->last->group->graph, of[i], &count);
    for (int j = 0; j < count; j++)
      if (is_known(s, readers[j]) && !attend_include(s, readers[j])) return false;
  }
  return true;
}

// ---- both contractions -------------------------------------------------------------------------

static AxisRole role_along(const Maps *m, int tensor, int d) {
  for (int role = 0; role < AxisRoles; role++)
    if (maps_uses(&m->dim[tensor][d], m, (AxisRole)role)) return (AxisRole)role;
  return AxisRoles;
}

// Rows of q k^T must be rows of the second contraction, and its columns (keys) the summed axis. A
// leading dimension may be rows or columns of only one of them, if an operand is shared along it;
// it is then treated as a batch of both.
static bool agree(AttendSeek *s, const Maps *first, const Maps *second) {
  int rank = first->rank[MapOut];
  bool leading = s->a.product[0]->op->maps->leading && s->last->op->maps->leading &&
                 second->rank[MapOut] == rank;
  if (rank != second->rank[MapA]) return false;
  for (int d = 0; d < rank; d++) {
    AxisRole made = role_along(first, MapOut, d), read = role_along(second, MapA, d);
    bool alike = made == AxisN ? read == AxisK : made == read;
    if (first->type[MapOut]->dim[d] == 1 || alike) continue;
    if (!leading || d >= rank - 2) return false;
    if (read == AxisM) s->a.apart |= 1u << d;
  }
  return true;
}

int attend_piece(const Group *g, const Attention *a, int i, int64_t stride[MaxRank],
                 int64_t *offset, const Node **base) {
  enum { kMost = 16, kLeast = 4 }; // bytes of a copy
  const Node *operand = a->operand[i];
  int along = a->along[i];
  *base = view_of(g, operand, stride, offset);
  if (!*base || (*base)->type.dtype != prec_operand(a->product[0]) || stride[along] > 1) return 0;
  int size = (int)dtype_size((*base)->type.dtype), piece = kMost / size;
  while (piece > 1 && (*offset % piece || operand->type.dim[along] % piece)) piece /= 2;
  for (int d = 0; d < operand->type.rank; d++)
    while (piece > 1 && d != along && stride[d] % piece) piece /= 2;
  return piece * size >= kLeast ? piece : 0;
}

static bool operands_fit(AttendSeek *s) {
  enum { kMostDepth = 256 };
  Node *first = s->a.product[0], *last = s->last;
  if (maps_phases(first) > 1 || maps_phases(last) > 1) return attend_refuse(s, NULL);
  Maps scores = maps_of(first, 0), values = maps_of(last, 0);
  if (!attend_is_plain(&scores) || !attend_is_plain(&values) || !agree(s, &scores, &values))
    return attend_refuse(s, "its two products have different row layouts");
  if (first->precision != last->precision)
    return attend_refuse(s, "its two products have different precisions");
  s->a.key = attend_dim(&values, MapA, AxisK);
  s->a.along[0] = attend_dim(&scores, MapA, AxisK);
  s->a.along[1] = attend_dim(&scores, MapB, AxisK);
  s->a.along[2] = attend_dim(&values, MapB, AxisN);
  if (s->a.key >= 0 && first->type.dim[s->a.key] < 2) return attend_refuse(s, NULL); // a single key
  if (s->a.key < 0 || s->a.along[0] < 0 || s->a.along[1] < 0 || s->a.along[2] < 0)
    return attend_refuse(s, "heads and keys are not one dimension each");
  s->a.nproducts = 1, s->a.noperands = 3;
  for (int d = 0; d < scores.rank[MapOut]; d++) s->a.place[d] = d;
  s->a.operand[0] = first->in[0], s->a.operand[1] = first->in[1], s->a.operand[2] = last->in[1];
  for (int i = 0; i < 3; i++) {
    int64_t stride[MaxRank], offset;
    const Node *base;
    if (s->a.operand[i]->type.dim[s->a.along[i]] > kMostDepth)
      return attend_refuse(s, "a head has more than 256 elements");
    if (!attend_piece(last->group, &s->a, i, stride, &offset, &base))
      return attend_refuse(s, "head elements are not contiguous in units of 4 bytes");
  }
  return true;
}

// ---- the group ---------------------------------------------------------------------------------

// Per-element values must not be read outside; per-row values may be.
static bool stays_inside(AttendSeek *s, const Node *n) {
  int count;
  Node **readers = fuse_readers(n->group->graph, n, &count);
  if (attend_is_row(&s->a, n) && n != s->a.product[0]) return true;
  if (count != n->uses) return attend_refuse(s, "the scores are an output of the model");
  for (int i = 0; i < count; i++)
    if (readers[i] != s->last && !attend_includes(s, readers[i]))
      return attend_refuse(s, "the scores have another reader");
  return true;
}

static bool may_join(AttendSeek *s) {
  Group *own = s->last->group, *first = s->a.product[0]->group;
  Node *outer[] = {s->last->in[1]};
  if (!stays_inside(s, s->a.product[0])) return false;
  if (fuse_reaches(outer[0]->group, first))
    return attend_refuse(s, "V depends on the scores");
  for (int i = 0; i < s->count; i++) {
    Node *n = s->node[i];
    if (!stays_inside(s, n)) return false;
    if (n->group->nnodes != 1 || n->entry != s->last->entry || n->fixed != s->last->fixed ||
        !fuse_same_call(n->group, own))
      return attend_refuse(s, NULL);
    for (int j = 0; j < n->nin; j++) {
      bool inside = n->in[j] == s->a.product[0] || attend_includes(s, n->in[j]);
      if (!inside && n->in[j]->group && fuse_reaches(n->in[j]->group, first))
        return attend_refuse(s, "a bias or mask depends on the scores");
    }
  }
  return first->nnodes == 1 && own->nnodes == 1;
}

static const Template *attend_template(const Graph *g) {
  const Template *tm = g->c->templates;
  while (tm->fusion != &fusion_attend) tm++;
  return tm;
}

static bool is_attention(AttendSeek *s) {
  return attend_seek(s) && operands_fit(s) && include_steps(s) && include_reductions(s) &&
         may_join(s);
}

static bool is_move(const Node *n) {
  return n->op->cls == OpMove && n->nin == 1;
}

static Node *input_of_shape(const Node *n) {
  for (int i = 0; i < n->nin; i++)
    if (type_same_shape(&n->in[i]->type, &n->type) && n->in[i]->type.dtype != DtBool)
      return n->in[i];
  return NULL;
}

// If the left operand is a softmax that is permuted or reshaped before the contraction, the reason
// to print, else NULL.
static const char *moved_weights(const Node *last) {
  const Node *n = last->in[0];
  bool moved = false, power = false;
  for (; is_move(n); n = n->in[0]) moved = true;
  for (int i = 0; moved && n && n->op->cls == OpMap && i < kMostNodes; i++) {
    power = power || n->op->flags & FlagExp;
    n = input_of_shape(n);
  }
  bool found = moved && power && n && (n->op->cls == OpContract || n->op->cls == OpMove);
  return found ? "its probabilities are permuted or reshaped before the second product" : NULL;
}

void attend_find(Graph *g, Group *k) {
  AttendSeek s = {.last = k->anchor};
  if (!is_attention(&s)) {
    if (!s.refused) s.refused = moved_weights(s.last);
    for (Node *n = k->anchor->in[0]; s.refused && n; n = is_move(n) ? n->in[0] : NULL)
      n->kept = s.refused;
    return;
  }
  for (int i = 0; i < s.count; i++) {
    s.node[i]->tail = attend_is_row(&s.a, s.node[i]) ? kRowTail : 0;
    fuse_absorb(g, k, s.node[i]->group);
  }
  fuse_absorb(g, k, s.a.product[0]->group);
  k->tm = attend_template(g);
  k->attention = arena_alloc(g->arena, sizeof s.a);
  *k->attention = s.a;
}

// May map n join as a function of the row statistics, or of the output rows? (not of both)
const char *attend_joins(const Group *k, const Node *n) {
  int rows = 0, others = 0;
  for (int i = 0; i < n->nin; i++)
    if (n->in[i]->group == k) *(n->in[i]->tail == kRowTail ? &rows : &others) += 1;
  if (rows && others) return "it combines per-row softmax values with the output rows";
  if (rows && !attend_is_row(k->attention, n))
    return "it broadcasts per-row softmax values";
  return NULL;
}
