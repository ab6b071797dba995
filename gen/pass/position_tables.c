// position_tables.c: maps of positions and fixed values, such as the angles of rotary embeddings,
// become tables computed by `init`, if recomputing them for each reader's element costs more than
// reading (gain_of_table); of an expression, the largest such part. A table must not exceed the
// size of all parameters and inputs: a map of pairs of positions, such as attention masks, stays a
// map. So do random values, integers and conditions, which are cheap, and from which attention
// classifies its tiles. Like all fixed values a table is fp32, except for operands of contractions,
// which have the operand dtype.
#include "pass.h"

typedef struct Tables { // arrays by node id
  bool *placed;         // computed from positions by maps and moves
  double *work;         // operations per element
  double *reads;        // elements read by all its readers
  const Type **reader;  // the largest of these, that is not placed
  bool *found;          // becomes a table
  bool *multiplied;     // a contraction reads it as a table, directly or through moves
  Node **copy;          // in the table's expression
} Tables;

static bool is_index(const Node *n) {
  return n->op->cls == OpSource && n->op->form == SourceIndex;
}

static void find_placed(Tables *t, const Graph *g) {
  for (int i = 0; i < g->nnodes; i++) {
    const Node *n = g->nodes[i];
    bool map = n->op->cls == OpMap && n->op->typing != TypeDraw, any = is_index(n);
    bool made = map || (n->op->cls == OpMove && n->nin == 1 && !op_gathers(n->op));
    for (int j = 0; j < n->nin; j++) {
      const Node *in = n->in[j];
      made = made && (in->fixed || t->placed[in->id]);
      any = any || t->placed[in->id];
      t->work[i] += in->fixed ? 0 : t->work[in->id];
    }
    t->placed[i] = any && !n->fixed && (made || is_index(n));
    t->work[i] += dtype_is_float(n->type.dtype) ? n->op->flops : 0;
  }
}

// Counts the reads of n's inputs: once per element for which n is computed.
static void note_reads(Tables *t, const Node *n) {
  bool placed = t->placed[n->id];
  double reads = placed ? t->reads[n->id] : (double)type_count(&n->type);
  const Type *reader = placed ? t->reader[n->id] : &n->type;
  for (int i = 0; i < n->nin; i++) {
    int in = n->in[i]->id;
    if (!t->placed[in] || !reader) continue;
    t->reads[in] += n->op->cls == OpMap ? reads : (double)type_count(&n->in[i]->type);
    if (!t->reader[in] || type_count(reader) > type_count(t->reader[in])) t->reader[in] = reader;
  }
}

static int64_t given_bytes(const Graph *g) {
  int64_t bytes = 0;
  for (int i = 0; i < g->nnodes; i++)
    if (node_has_memory(g->nodes[i])) bytes += type_bytes(&g->nodes[i]->type);
  return bytes;
}

static void find_tables(Tables *t, const Graph *g) {
  int64_t most = given_bytes(g);
  for (int i = g->nnodes - 1; i >= 0; i--) { // readers first
    const Node *n = g->nodes[i];
    bool wanted = t->placed[i] && t->reader[i] && !is_index(n) && dtype_is_float(n->type.dtype);
    t->found[i] =
        wanted && type_bytes(&n->type) <= most &&
        gain_of_table(g->c->options.arch, &n->type, t->reader[i], t->reads[i], t->work[i]);
    if (n->uses && !t->found[i]) note_reads(t, n);
  }
}

// Marks tables that contractions read, and inputs of moves that compute them.
static void find_multiplied(Tables *t, const Graph *g) {
  for (int i = g->nnodes - 1; i >= 0; i--) { // readers first
    const Node *n = g->nodes[i];
    for (int j = 0; n->uses && j < n->nin; j++) {
      int in = n->in[j]->id;
      bool product = n->op->cls == OpContract && t->found[in];
      t->multiplied[in] |= product || (n->op->cls == OpMove && t->multiplied[i]);
    }
  }
}

static Node *copy_fixed(Graph *to, Tables *t, Node *n) {
  if (n->fixed) return n->subst;
  if (t->copy[n->id]) return t->copy[n->id];
  Node **in = arena_alloc(to->arena, sizeof *in * (size_t)(n->nin + 1));
  for (int i = 0; i < n->nin; i++) in[i] = copy_fixed(to, t, n->in[i]);
  Attr attr = n->attr;
  if (is_index(n)) attr.fixed = 1;
  Node *copy = graph_add(to, n->op, n->nin, in, &attr, n);
  copy->type = n->type;
  if (n->op->cls == OpMove)
    copy->type.dtype = in[0]->type.dtype;
  else if (dtype_is_float(n->type.dtype) && !t->multiplied[n->id])
    copy->type.dtype = DtF32;
  return t->copy[n->id] = copy;
}

static Node *rewrite(Graph *to, Node *n, Node **in) {
  Tables *t = to->scratch;
  if (t->found[n->id]) return copy_fixed(to, t, n);
  return graph_same(to, n, in);
}

Graph *position_tables_make(Graph *g) {
  size_t count = (size_t)g->nnodes + 1;
  Tables t = {.placed = arena_alloc(g->arena, sizeof(bool) * count),
              .work = arena_alloc(g->arena, sizeof(double) * count),
              .reads = arena_alloc(g->arena, sizeof(double) * count),
              .reader = arena_alloc(g->arena, sizeof(Type *) * count),
              .found = arena_alloc(g->arena, sizeof(bool) * count),
              .multiplied = arena_alloc(g->arena, sizeof(bool) * count),
              .copy = arena_alloc(g->arena, sizeof(Node *) * count)};
  graph_count_uses(g);
  find_placed(&t, g);
  find_tables(&t, g);
  find_multiplied(&t, g);
  g = graph_rebuild(g, rewrite, &t);
  if (g->c->nentries > 1) share_fixed(g);
  return g;
}
