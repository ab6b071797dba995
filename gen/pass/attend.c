// attend.c: attention as one kernel. Where the operand of a product is a softmax of a map of
// another product, both products, the map and the softmax become one group: rows of scores are
// never in memory. It is recognised by what is computed:
//
//   weight = exp(score - shift) times or over others;  score: any map of a product, `shift` of a
//   row
//
// Those others are values of a row (the sum of the powers, say), which are applied to what the row
// becomes, and values of each element that the scores are not in (dropout), which are applied to
// it. `shift` and the values of rows may be made of the score's largest element and of sums of the
// powers, by any maps.
#include "pass.h"

#include <string.h>

typedef struct Search {
  Attention a;
  Node *last;             // the second product
  bool sums;              // is any sum known, so that a.counted is?
  const char *refused;    // null: it is attention, as far as is known
  Node *node[kMostNodes]; // what would be in the kernel besides both products
  int count;
} Search;

static bool refuse(Search *s, const char *why) {
  s->refused = why;
  return false;
}

static Node *uncopied(Node *n) {
  while (n->op->cls == OpMap && n->op->flags & FlagCopy) n = n->in[0];
  return n;
}

static bool includes(const Search *s, const Node *n) {
  for (int i = 0; i < s->count; i++)
    if (s->node[i] == n) return true;
  return false;
}

static bool include(Search *s, Node *n) {
  if (includes(s, n)) return true;
  if (s->count == kMostNodes) return refuse(s, "it has more operations than a kernel may have");
  s->node[s->count++] = n;
  return true;
}

bool attend_is_row(const Attention *a, const Node *n) {
  const Type *t = &a->score->type;
  int key = a->key - (t->rank - n->type.rank);
  if (n->type.rank > t->rank || (key >= 0 && n->type.dim[key] > 1)) return false;
  for (int d = 0; d < n->type.rank; d++) {
    int64_t size = t->dim[d + t->rank - n->type.rank];
    if (n->type.dim[d] != 1 && n->type.dim[d] != size) return false;
  }
  return true;
}

// ---- from the weights to the power --------------------------------------------------------------

static bool is_zero(const Node *n) {
  return node_is_literal(n) && n->attr.value == 0;
}

// May the power be in input i of n, a step on the way to it?
static bool is_heavy(const Node *n, int i) {
  if (n->op->typing == TypeWhere) return i > 0 && is_zero(n->in[3 - i]);
  if (n->op->flags & FlagMul) return true;
  bool converts = n->op->typing == TypeConvert && dtype_is_float((Dtype)n->attr.dtype);
  return i == 0 && (converts || n->op->flags & (FlagCopy | FlagDiv));
}

// Is the power above n? Then the steps to it are noted, from n on.
static bool find_power(Search *s, Node *n, int steps) {
  if (n->op->cls != OpMap || steps == kMostWeighings ||
      !type_same_shape(&n->type, &s->last->in[0]->type))
    return false;
  if (n->op->flags & FlagExp) {
    s->a.power = n;
    s->a.nsteps = steps;
    return true;
  }
  for (int i = 0; i < n->nin; i++) {
    if (!is_heavy(n, i) || !find_power(s, n->in[i], steps + 1)) continue;
    s->a.step[steps] = (Weighing){n, i};
    return true;
  }
  return false;
}

// ---- from the power to the first product --------------------------------------------------------

// Notes the maps of the score's shape that it is made of, and the product that they begin with.
static bool find_product(Search *s) {
  Node *seen[kMostNodes];
  int count = 0;
  seen[count++] = s->a.score;
  for (int i = 0; i < count; i++) {
    Node *n = seen[i];
    if (n->op->cls == OpContract && (!s->a.product[0] || n->id > s->a.product[0]->id))
      s->a.product[0] = n;
    for (int j = 0; n->op->cls == OpMap && j < n->nin; j++) {
      int known = 0;
      while (known < count && seen[known] != n->in[j]) known++;
      bool alike = type_same_shape(&n->in[j]->type, &s->a.score->type);
      if (known == count && alike && count < kMostNodes) seen[count++] = n->in[j];
    }
  }
  if (!s->a.product[0]) return refuse(s, NULL);
  // Of those, what depends on the product, in the order of the graph.
  for (bool news = true; news;) {
    news = false;
    for (int i = 0; i < count; i++)
      for (int j = 0; seen[i]->op->cls == OpMap && j < seen[i]->nin; j++) {
        bool on = seen[i]->in[j] == s->a.product[0] || includes(s, seen[i]->in[j]);
        if (!on || includes(s, seen[i])) continue;
        if (!include(s, seen[i])) return false;
        news = true;
      }
  }
  return true;
}

// ---- values of rows ----------------------------------------------------------------------------

// Does this step apply to each element, not to rows?
bool attend_is_elementwise(const Attention *a, const Weighing *w) {
  for (int i = 0; i < w->node->nin; i++)
    if (i != w->heavy && !node_is_literal(w->node->in[i]) && !attend_is_row(a, w->node->in[i]))
      return true;
  return false;
}

// How many steps, to each element, make x of the powers; -1: it is none of these.
static int steps_to(const Search *s, const Node *x) {
  if (x == s->a.power) return 0;
  for (int i = s->a.nsteps - 1; i >= 0; i--) {
    if (!attend_is_elementwise(&s->a, &s->a.step[i])) return -1;
    if (s->a.step[i].node == x) return s->a.nsteps - i;
  }
  return -1;
}

// A reduction that the kernel makes: of the score its largest element, or what that and the sum of
// exp(x - largest) give; the sum of the powers, or of what steps make of these: of one of them.
static bool is_known(Search *s, const Node *n) {
  if (n->op->cls != OpReduce || n->attr.axes != 1 << s->a.key) return false;
  const Node *x = uncopied(n->in[0]);
  bool scores = x == uncopied(s->a.score), sums = n->op->flags & FlagAdd;
  if (scores && n->op->flags & FlagMax) return true;
  int steps = scores && n->op->flags & FlagOnline ? 0 : sums ? steps_to(s, x) : -1;
  if (steps < 0 || (s->sums && steps != s->a.counted)) return false;
  s->sums = true, s->a.counted = steps;
  return true;
}

static bool depends_on_product(const Search *s, const Node *n) {
  return n->group && fuse_reaches(n->group, s->a.product[0]->group);
}

// Includes the maps and reductions that make a value of a row.
static bool include_row(Search *s, Node *n) {
  if (!depends_on_product(s, n)) return true;
  if (!attend_is_row(&s->a, n))
    return refuse(s, "the weights are more than a softmax of one product");
  if (is_known(s, n)) {
    Node *x = n->in[0];
    for (; x->op->flags & FlagCopy && x->op->cls == OpMap; x = x->in[0])
      if (!include(s, x)) return false;
    if (steps_to(s, x) > 0) return include(s, n); // include_steps has these
    for (; x != s->a.product[0] && !includes(s, x); x = x->in[0])
      if (!include(s, x)) return false;
    return include(s, n);
  }
  if (n->op->cls != OpMap) return refuse(s, "a row's value is made of other than its softmax");
  for (int i = 0; i < n->nin; i++)
    if (!include_row(s, n->in[i])) return false;
  return include(s, n);
}

static bool include_steps(Search *s) {
  Node *below = s->a.power->in[0];
  if (below != s->a.score)
    for (Node *n = below; n != s->a.score; n = n->in[0])
      if (!include(s, n)) return false;
  if (!include(s, s->a.power)) return false;
  if (s->a.shift && !include_row(s, s->a.shift)) return false;
  for (Node *n = s->last->in[0]; n->op->flags & FlagCopy && n != s->a.power; n = n->in[0])
    if (!include(s, n)) return false;
  for (int i = 0; i < s->a.nsteps; i++) {
    const Weighing *w = &s->a.step[i];
    if (!include(s, w->node)) return false;
    for (int j = 0; j < w->node->nin; j++) {
      Node *other = w->node->in[j];
      if (j == w->heavy || !depends_on_product(s, other)) continue;
      if (!include_row(s, other)) return false;
    }
  }
  return true;
}

// Reductions of the score and of the powers that nothing in the kernel reads are made there too.
static bool include_reductions(Search *s) {
  const Node *of[] = {s->a.score, s->a.power};
  for (int i = 0; i < 2; i++) {
    int count;
    Node **readers = fuse_readers(s->last->group->graph, of[i], &count);
    for (int j = 0; j < count; j++)
      if (is_known(s, readers[j]) && !include(s, readers[j])) return false;
  }
  return true;
}

// ---- products ----------------------------------------------------------------------------------

bool attend_is_plain(const Maps *m) {
  for (int t = 0; t < 3; t++)
    for (int d = 0; d < m->rank[t]; d++) {
      int axes = 0;
      for (int i = 0; i < m->naxes; i++) axes += m->dim[t][d].by[i] != 0 && m->axis[i].size > 1;
      if (axes > 1 || m->dim[t][d].begin) return false;
    }
  return true;
}

int attend_dim(const Maps *m, int tensor, AxisRole role) {
  int found = -1;
  for (int d = 0; d < m->rank[tensor]; d++)
    if (maps_uses(&m->dim[tensor][d], m, role)) found = found == -1 ? d : -2;
  return found < 0 ? -1 : found;
}

static AxisRole role_along(const Maps *m, int tensor, int d) {
  for (int role = 0; role < AxisRoles; role++)
    if (maps_uses(&m->dim[tensor][d], m, (AxisRole)role)) return (AxisRole)role;
  return AxisRoles;
}

// Rows of scores are rows of what they weigh, keys are what it sums over. Dimensions in front may
// be rows or columns of one product alone, which an operand shares: they are batches of both then.
static bool agree(Search *s, const Maps *first, const Maps *second) {
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

static bool operands_fit(Search *s) {
  enum { kMostDepth = 256 };
  Node *first = s->a.product[0], *last = s->last;
  if (maps_phases(first) > 1 || maps_phases(last) > 1) return refuse(s, NULL);
  Maps scores = maps_of(first, 0), values = maps_of(last, 0);
  if (!attend_is_plain(&scores) || !attend_is_plain(&values) || !agree(s, &scores, &values))
    return refuse(s, "rows of its two products do not lie alike");
  if (first->precision != last->precision)
    return refuse(s, "its two products are of different precisions");
  s->a.key = attend_dim(&values, MapA, AxisK);
  s->a.along[0] = attend_dim(&scores, MapA, AxisK);
  s->a.along[1] = attend_dim(&scores, MapB, AxisK);
  s->a.along[2] = attend_dim(&values, MapB, AxisN);
  if (s->a.key >= 0 && first->type.dim[s->a.key] < 2) return refuse(s, NULL); // one key
  if (s->a.key < 0 || s->a.along[0] < 0 || s->a.along[1] < 0 || s->a.along[2] < 0)
    return refuse(s, "heads and keys are not one dimension each");
  s->a.nproducts = 1, s->a.noperands = 3;
  for (int d = 0; d < scores.rank[MapOut]; d++) s->a.place[d] = d;
  s->a.operand[0] = first->in[0], s->a.operand[1] = first->in[1], s->a.operand[2] = last->in[1];
  for (int i = 0; i < 3; i++) {
    int64_t stride[MaxRank], offset;
    const Node *base;
    if (s->a.operand[i]->type.dim[s->a.along[i]] > kMostDepth)
      return refuse(s, "a head has more than 256 elements");
    if (!attend_piece(last->group, &s->a, i, stride, &offset, &base))
      return refuse(s, "a head's elements do not lie side by side in pieces of 4 bytes");
  }
  return true;
}

// ---- the group ---------------------------------------------------------------------------------

// Values of elements stay inside; those of rows may be read elsewhere.
static bool stays_inside(Search *s, const Node *n) {
  int count;
  Node **readers = fuse_readers(n->group->graph, n, &count);
  if (attend_is_row(&s->a, n) && n != s->a.product[0]) return true;
  if (count != n->uses) return refuse(s, "the scores leave the model");
  for (int i = 0; i < count; i++)
    if (readers[i] != s->last && !includes(s, readers[i]))
      return refuse(s, "something else reads the scores");
  return true;
}

static bool may_join(Search *s) {
  Group *own = s->last->group, *first = s->a.product[0]->group;
  Node *outer[] = {s->last->in[1]};
  if (!stays_inside(s, s->a.product[0])) return false;
  if (fuse_reaches(outer[0]->group, first)) return refuse(s, "its values are made of its scores");
  for (int i = 0; i < s->count; i++) {
    Node *n = s->node[i];
    if (!stays_inside(s, n)) return false;
    if (n->group->nnodes != 1 || n->entry != s->last->entry || n->fixed != s->last->fixed ||
        !fuse_same_call(n->group, own))
      return refuse(s, NULL);
    for (int j = 0; j < n->nin; j++) {
      bool inside = n->in[j] == s->a.product[0] || includes(s, n->in[j]);
      if (!inside && n->in[j]->group && fuse_reaches(n->in[j]->group, first))
        return refuse(s, "what its scores are combined with is made of them");
    }
  }
  return first->nnodes == 1 && own->nnodes == 1;
}

static const Template *attend_template(const Graph *g) {
  const Template *tm = g->c->templates;
  while (tm->fusion != &fusion_attend) tm++;
  return tm;
}

// From the last product to the score that the power is taken of, and to the first product.
static bool find_scores(Search *s) {
  if (!find_power(s, uncopied(s->last->in[0]), 0)) return false;
  Node *x = uncopied(s->a.power->in[0]);
  s->a.score = s->a.power->in[0];
  if (x->op->flags & FlagSub && x->in[0]->type.rank && type_same_shape(&x->in[0]->type, &x->type)) {
    s->a.score = x->in[0], s->a.shift = x->in[1];
    Maps values = maps_of(s->last, 0);
    s->a.key = attend_dim(&values, MapA, AxisK);
    if (s->a.key < 0 || !attend_is_row(&s->a, s->a.shift)) s->a.score = x, s->a.shift = NULL;
  }
  return type_same_shape(&s->a.score->type, &s->last->in[0]->type) && find_product(s);
}

static bool is_attention(Search *s) {
  return find_scores(s) && operands_fit(s) && include_steps(s) && include_reductions(s) &&
         may_join(s);
}

const Node *attend_product(Node *last) {
  Search s = {.last = last};
  return last->op->cls == OpContract && find_scores(&s) ? s.a.product[0] : NULL;
}

// Marks n, if its left operand is made of scores that are known: as WeighsHeads, and other products
// that it is made of as MakesScores, as those of derivatives.
static void mark_weights(const Node *n, HeadsUse *use) {
  const Node *left = n->in[0], *seen[kMostNodes] = {reshape_turns(left) ? left->in[0] : left};
  int count = 1;
  bool known = false;
  for (int i = 0; i < count; i++) {
    known = known || use[seen[i]->id] == MakesScores;
    for (int j = 0; seen[i]->op->cls == OpMap && j < seen[i]->nin; j++) {
      int at = 0;
      while (at < count && seen[at] != seen[i]->in[j]) at++;
      bool alike = type_same_shape(&seen[i]->in[j]->type, &seen[0]->type);
      if (at == count && alike && count < kMostNodes) seen[count++] = seen[i]->in[j];
    }
  }
  if (!known || seen[0]->op->cls != OpMap) return;
  use[n->id] = WeighsHeads;
  for (int i = 0; i < count; i++)
    if (reshape_batched(seen[i])) use[seen[i]->id] = MakesScores;
}

HeadsUse *attend_products(const Graph *g) {
  HeadsUse *use = arena_alloc(g->arena, sizeof *use * (size_t)(g->nnodes + 1));
  bool wanted = strcmp(g->c->options.lowering, "unfused") && !g->c->options.no_flash;
  for (int i = 0; i < g->nnodes && wanted; i++) {
    const Node *product = attend_product(g->nodes[i]);
    if (product) use[i] = WeighsHeads, use[product->id] = MakesScores;
  }
  for (int i = 0; i < g->nnodes && wanted; i++)
    if (!use[i] && reshape_batched(g->nodes[i])) mark_weights(g->nodes[i], use);
  return use;
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

// Why a product with a softmax of a product that moves stand behind is no attention; null: it is
// none of these.
static const char *moved_weights(const Node *last) {
  const Node *n = last->in[0];
  bool moved = false, power = false;
  for (; is_move(n); n = n->in[0]) moved = true;
  for (int i = 0; moved && n && n->op->cls == OpMap && i < kMostNodes; i++) {
    power = power || n->op->flags & FlagExp;
    n = input_of_shape(n);
  }
  bool found = moved && power && n && (n->op->cls == OpContract || n->op->cls == OpMove);
  return found ? "moves stand between its softmax and its product" : NULL;
}

void attend_find(Graph *g, Group *k) {
  Search s = {.last = k->anchor};
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

// A map of what rows come to, or of what they have summed up.
const char *attend_joins(const Group *k, const Node *n) {
  int rows = 0, others = 0;
  for (int i = 0; i < n->nin; i++)
    if (n->in[i]->group == k) *(n->in[i]->tail == kRowTail ? &rows : &others) += 1;
  if (rows && others) return "it reads a row's softmax and what the row has become";
  if (rows && !attend_is_row(k->attention, n))
    return "it reads a row's softmax for more than the row";
  return NULL;
}
