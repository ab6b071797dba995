// group.c: finished groups: launch order, inputs and outputs, and names, which come from the nodes'
// places in the model.
#include "fuse.h"

#include <assert.h>
#include <string.h>

bool group_reduces(const Group *g, const Node *n) {
  return g->tm->fusion->product && n->op->cls == OpReduce && !g->attention;
}
bool group_reduces_columns(const Group *g, const Node *n) {
  return group_reduces(g, n) && !n->foot;
}
bool group_joins_rows(const Group *g, const Node *n) {
  return group_reduces(g, n) && n->foot;
}

const Node *group_statistic(const Group *g) {
  for (int i = 0; i < g->nnodes; i++)
    if (group_joins_rows(g, g->nodes[i])) return g->nodes[i];
  return NULL;
}

// Dimensions [from, to) of a contraction's result correspond to dimensions [first, last) of a
// reshape of it that is reduced.
typedef struct Run {
  int from, to, first, last;
} Run;

static bool next_run(const Type *y, const Type *x, Run *r) {
  int64_t of_y = 1, of_x = 1;
  assert(type_count(y) == type_count(x));
  r->from = r->to, r->first = r->last;
  if (r->to < y->rank) of_y = y->dim[r->to++];
  if (r->last < x->rank) of_x = x->dim[r->last++];
  while (of_y != of_x)
    if (of_y < of_x)
      of_y *= y->dim[r->to++];
    else
      of_x *= x->dim[r->last++];
  return r->to > r->from || r->last > r->first;
}

// Number of neighbours reduced to one, or 0 if the reduced dimensions are not the innermost of the
// run.
static int64_t run_reduced(const Type *x, int64_t axes, const Run *r) {
  int64_t together = 1;
  for (int d = r->first; d < r->last; d++) {
    if (x->dim[d] == 1) continue;
    if (axes >> d & 1)
      together *= x->dim[d];
    else if (together > 1)
      return 0;
  }
  return together;
}

unsigned group_dims_kept(const Group *g, const Node *reduction, int64_t *together) {
  for (int i = 0; i < g->nnodes && !reduction; i++)
    if (group_reduces_columns(g, g->nodes[i])) reduction = g->nodes[i];
  *together = 1;
  if (!reduction) return 0;
  const Type *y = &g->anchor->type, *x = &reduction->in[0]->type;
  Maps maps = maps_of(g->anchor, 0);
  int columns = maps_dim(&maps, MapOut, AxisN);
  unsigned kept = 0;
  for (Run r = {0}; *together && next_run(y, x, &r);) {
    int64_t reduced = run_reduced(x, reduction->attr.axes, &r), all = 1, others = 0;
    for (int d = r.from; d < r.to; d++) {
      all *= y->dim[d];
      others |= (int64_t)(y->dim[d] > 1 && d != columns) << d;
    }
    bool has_columns = columns >= r.from && columns < r.to && y->dim[columns] > 1;
    if (has_columns)
      *together = others ? 0 : reduced;
    else if (reduced == 1)
      kept |= (unsigned)others;
    else if (reduced != all)
      *together = 0;
  }
  return kept;
}

// Domain of the group, or of the part of a bundle, that computes n.
static const Type *elements_beside(const Group *g, const Node *n) {
  g = group_part(g, n);
  return g->tm->fusion->elements ? g->tm->fusion->elements(g) : &g->anchor->type;
}

// Does n have one element per element of the domain, in the same memory order?
static bool in_step(const Group *g, const Node *n) {
  const Type *t = elements_beside(g, n);
  return type_same_shape(t, &n->type) && !memcmp(t->order, n->type.order, sizeof t->order);
}

// If n and the value x from which moves that keep the memory layout derive it both match the
// domain, x; else n.
static const Node *unmoved(const Group *g, const Node *n) {
  const Node *x = n;
  while (x->op->cls == OpMove && x->nin == 1 && x->in[0]->group == g && view_same_memory(x))
    x = x->in[0];
  return in_step(g, n) && in_step(g, x) ? x : n;
}

bool group_leads(const Node *n) {
  Dtype from = n->nin ? n->in[0]->type.dtype : DtF32;
  bool copy = n->op->flags & FlagCopy && (from == n->type.dtype || from == DtF32);
  return copy || view_reorders(n);
}

const Node *group_led(const Group *g, const Node *n) {
  if (!g->tm->fusion->sweeps || !g->tm->fusion->elements) return NULL;
  const Node *x = n;
  bool moved = false;
  for (; group_leads(x) && x->in[0]->group == g; x = x->in[0])
    moved = moved || !view_same_memory(x);
  return moved && type_same_shape(g->tm->fusion->elements(g), &x->type) ? x : NULL;
}

const Node *group_stored(const Group *g, const Node *n) {
  const Node *led = group_led(g, n);
  if (led) return led;
  if (n->parent && !view_whole_part(n)) return n;
  const Node *shaped = NULL; // the last one whose shape is the domain's
  bool in_order = !g->tm->fusion->product || n->tail == kFootTail;
  if (in_order) n = unmoved(g, n);
  while (in_order && n != group_part(g, n)->anchor &&
         !in_step(g, n) && n->op->cls == OpMove && n->nin == 1 && n->in[0]->group == g &&
         view_same_memory(n)) {
    if (type_same_shape(elements_beside(g, n), &n->type)) shaped = n;
    n = n->in[0];
  }
  return shaped && !type_same_shape(elements_beside(g, n), &n->type) ? shaped : n;
}

bool group_by_element(const Group *g, const Node *n) {
  if (!g->tm->fusion->sweeps || g->tm->fusion->elements) return false;
  const Type *in = &g->anchor->in[0]->type;
  return type_same_shape(&group_stored(g, n)->type, in) && !type_same_shape(in, &g->anchor->type);
}

// ---- the order of launches --------------------------------------------------------------------

// Depth first: producers before readers. Group.id is kPlacing while a group is on the stack.
enum { kPlacing = -1 };
static bool place_group(Graph *g, Group *k);

// Places the groups that write n, or its parts, for reader k.
static bool place_makers(Graph *g, const Node *n, const Group *k) {
  bool placed = !n->group || n->group == k || place_group(g, n->group);
  for (int i = 0; n->placed && placed && i < n->nin; i++) placed = place_makers(g, n->in[i], k);
  return placed;
}

static bool place_group(Graph *g, Group *k) {
  if (k->visited) return k->id != kPlacing;
  k->visited = true;
  k->id = kPlacing;
  for (int i = 0; i < k->nnodes; i++)
    for (int j = 0; j < k->nodes[i]->nin; j++)
      if (!place_makers(g, k->nodes[i]->in[j], k)) return false;
  k->id = g->ngroups;
  g->groups[g->ngroups++] = k;
  return true;
}

// Groups are placed in the order of their first nodes, contractions in that of their anchors: a
// contraction may have absorbed a map of a much earlier value, and readers of its other results
// would be placed as early.
static bool order_groups(Graph *g) {
  g->groups = arena_alloc(g->arena, sizeof *g->groups * (size_t)(g->nnodes + 1));
  for (int last = 0; last < 2; last++)
    for (int i = 0; i < g->nnodes; i++) {
      Group *k = g->nodes[i]->group;
      bool here = k && (!k->tm->fusion->product || k->anchor == g->nodes[i]);
      if (here && k->last == last && !place_group(g, k)) return false;
    }
  return true;
}

// ---- what a kernel reads and writes -----------------------------------------------------------

void group_add_once(Node **list, int *count, Node *n) {
  for (int i = 0; i < *count; i++)
    if (list[i] == n) return;
  list[(*count)++] = n;
}

// Does another group, an output or an update read n?
static bool is_needed(const Graph *g, const Node *n) {
  int count;
  Node **readers = fuse_readers(g, n, &count);
  for (int i = 0; i < count; i++)
    if (readers[i]->group != n->group) return true;
  for (int i = 0; i < g->noutputs; i++)
    if (g->outputs[i].node == n) return true;
  for (int i = 0; i < g->nupdates; i++)
    if (g->updates[i].value == n) return true;
  return false;
}

void group_borders(Group *k) {
  const Graph *g = k->graph;
  int most = 0;
  for (int j = 0; j < k->nnodes; j++) most += k->nodes[j]->nin;
  k->ninputs = k->noutputs = 0;
  k->inputs = arena_alloc(g->arena, sizeof(Node *) * (size_t)(most + 1));
  k->outputs = arena_alloc(g->arena, sizeof(Node *) * (size_t)k->nnodes);
  for (int j = 0; j < k->nnodes; j++) {
    Node *n = k->nodes[j];
    for (int m = 0; m < n->nin; m++)
      if (n->in[m]->group != n->group &&
          (n->in[m]->op->cls != OpSource || node_has_memory(n->in[m])))
        group_add_once(k->inputs, &k->ninputs, n->in[m]);
    if (is_needed(g, n)) k->outputs[k->noutputs++] = n;
  }
  if (!k->noutputs) return;
  k->domain = !k->tm->fusion->product ? k->outputs[k->noutputs - 1]->type
              : k->ntails > 1         ? k->anchor->type
                                      : tail_made(k, 0)->type;
}

Node *const *group_reads(const Group *g, int *count) {
  *count = g->first ? g->nreads : g->ninputs;
  return g->first ? g->reads : g->inputs;
}
Node *const *group_writes(const Group *g, int *count) {
  *count = g->first ? g->nwrites : g->noutputs;
  return g->first ? g->writes : g->outputs;
}

// ---- updates of states -------------------------------------------------------------------------

// Facts for moving updates; state and output by node id.
typedef struct Given {
  Node **state;
  bool *output;
  int *behind; // by group id: the group after which it is moved, or itself
} Given;

// Are all results of k that leave it new values of states?
static bool only_updates(const Graph *g, const Given *given, const Group *k) {
  for (int i = 0; i < k->nnodes; i++) {
    int count;
    Node *n = k->nodes[i], **readers = fuse_readers(g, n, &count);
    if (given->output[n->id]) return false;
    for (int j = 0; j < count && !given->state[n->id]; j++)
      if (readers[j]->group != k) return false;
  }
  return true;
}

// The later of two groups, `place` and k, in the order so far; -1 is none. k == than is ignored.
static int later(const Given *g, int place, const Group *k, const Group *than) {
  if (!k || k == than) return place;
  if (place < 0) return k->id;
  int a = g->behind[k->id], b = g->behind[place];
  return a > b || (a == b && k->id > place) ? k->id : place;
}

// The later of `place` and the groups that write n, or its parts, for k.
static int last_maker(const Given *g, int place, const Node *n, const Group *k) {
  place = later(g, place, n->group, k);
  for (int i = 0; n->placed && i < n->nin; i++) place = last_maker(g, place, n->in[i], k);
  return place;
}

// The last group that must run before k: it writes an input of k, or reads the old value of a state
// that k updates. -1: none.
static int last_before(const Graph *g, const Given *given, const Group *k) {
  int place = -1, count;
  for (int i = 0; i < k->nnodes; i++) {
    const Node *n = k->nodes[i], *state = given->state[n->id];
    for (int j = 0; j < n->nin; j++) place = last_maker(given, place, n->in[j], k);
    Node **readers = state ? fuse_readers(g, state, &count) : NULL;
    for (int j = 0; state && j < count; j++)
      if (readers[j]->entry == n->entry || readers[j]->fixed)
        place = later(given, place, readers[j]->group, k);
  }
  return place;
}

// Moves updates of states as early as possible, so that gradients are freed early.
static void place_updates_early(Graph *g) {
  Given given = {arena_alloc(g->arena, sizeof(Node *) * (size_t)(g->nnodes + 1)),
                 arena_alloc(g->arena, sizeof(bool) * (size_t)(g->nnodes + 1)),
                 arena_alloc(g->arena, sizeof(int) * (size_t)(g->ngroups + 1))};
  for (int i = 0; i < g->nupdates; i++) given.state[g->updates[i].value->id] = g->updates[i].state;
  for (int i = 0; i < g->noutputs; i++) given.output[g->outputs[i].node->id] = true;
  int total = g->ngroups, count = 0;
  Group **old = arena_alloc(g->arena, sizeof *old * (size_t)(total + 1));
  // list of groups moved after group i
  int *next = arena_alloc(g->arena, sizeof *next * (size_t)(total + 1));
  int *end = arena_alloc(g->arena, sizeof *end * (size_t)(total + 1));
  int *behind = given.behind;
  for (int i = 0; i < total; i++) {
    Group *k = old[i] = g->groups[i];
    int place = i;
    if (k->tm->fusion->maps && only_updates(g, &given, k)) place = last_before(g, &given, k);
    if (place < 0 || place >= i - 1) place = i;
    behind[i] = place < i ? behind[place] : i;
    end[i] = i;
    if (behind[i] == i) continue;
    next[end[behind[i]]] = i;
    end[behind[i]] = i;
  }
  for (int i = 0; i < total; i++)
    for (int j = i; behind[i] == i && j >= 0; j = j == end[i] ? -1 : next[j]) {
      g->groups[count] = old[j];
      old[j]->id = count++;
    }
}

// ---- names ------------------------------------------------------------------------------------

static const char *leaf(const char *name) {
  const char *dot = strrchr(name, '.');
  return dot && dot[1] ? dot + 1 : name;
}

// The last component of a dotted name; from downsample.1, the word before the number.
static const char *tail(const char *name) {
  const char *last = leaf(name);
  if (last == name || *last < '0' || *last > '9') return last;
  for (last -= 2; last > name && *last != '.'; last--) {
  }
  return *last == '.' ? last + 1 : last;
}

// Is `word` one of the underscore-separated words of `text`?
static bool has_word(const char *text, const char *word) {
  size_t length = strlen(word);
  for (const char *at = text; (at = strstr(at, word)); at++)
    if ((at == text || at[-1] == '_') && (!at[length] || at[length] == '_')) return true;
  return false;
}

// Is n a reshape, permute or slice that the model has not named?
static bool is_nameless_move(const Node *n) {
  return n->op->cls == OpMove && n->op->form <= MoveSlice &&
         !strcmp(leaf(n->name), n->op->name);
}

// The ops of a kernel as "conv2d+add+relu"; reshapes and permutations only if there is nothing
// else.
static const char *ops_of(const Group *k) {
  Buffer all = {0}, some = {0};
  for (int i = 0; i < k->nnodes; i++) {
    const Op *op = k->nodes[i]->op;
    bool index = op->cls == OpMove && (op->form == MoveReshape || op->form == MovePermute);
    buffer_put(&all, all.size ? "+%s" : "%s", op->name);
    if (!index) buffer_put(&some, some.size ? "+%s" : "%s", op->name);
  }
  const char *text = buffer_take(some.size ? &some : &all, k->graph->arena);
  buffer_free(&some);
  buffer_free(&all);
  return text;
}

enum { kLongName = 60 }; // bytes; longer names get no more words

// The symbol: model, the anchor's place, then the other layers it fuses, each word once:
// resnet18__layer1_0_conv1_bn1_relu
static void name_bundle(Graph *g, Group *k, Names *symbols) {
  const Group *first = k->parts[0];
  int more = k->nparts - 1;
  k->name = names_take(
      symbols, arena_printf(g->arena, "%s__%s_and_%d_more", g->model, first->anchor->name, more));
  k->ops = arena_printf(g->arena, "%s and %d more", ops_of(first), more);
  k->layer = arena_printf(g->arena, "%s and %d more", first->anchor->name, more);
}

static void name_group(Graph *g, Group *k, Names *symbols) {
  Buffer name = {0};
  if (k->nparts) {
    name_bundle(g, k, symbols);
    return;
  }
  buffer_put(&name, "%s__%s", g->model, k->anchor->name);
  size_t first = strlen(g->model) + 2 + (size_t)(leaf(k->anchor->name) - k->anchor->name);
  for (int i = 0; i < k->nnodes && name.size < kLongName; i++) {
    const Node *n = k->nodes[i];
    const char *word = tail(n->name);
    bool says = n->id > k->anchor->id && strcmp(n->name, k->anchor->name) && !is_nameless_move(n);
    if (says && !has_word(name.text + first, word)) buffer_put(&name, "_%s", word);
  }
  if (k->fixed) buffer_put(&name, "_init");
  if (k->anchor->again) buffer_put(&name, "_again");
  k->name = names_take(symbols, buffer_take(&name, g->arena));
  k->ops = ops_of(k);
  k->layer = k->anchor->name;
}

bool group_shares_state(const Group *g, int i) {
  const Node *n = g->nodes[i];
  bool shares = false;
  for (int j = 0; j < i && n->op->cls == OpReduce && !shares; j++)
    shares = g->nodes[j]->op->cls == OpReduce && g->nodes[j]->in[0] == n->in[0] &&
             monoid_same(op_monoid(g->nodes[j]), op_monoid(n));
  return shares;
}

int state_words(const Group *g) {
  int words = 0;
  for (int i = 0; i < g->nnodes; i++)
    if (g->nodes[i]->op->cls == OpReduce && !group_shares_state(g, i))
      words += op_monoid(g->nodes[i])->count;
  return words;
}

// Values have at most 2^31 elements, except for attention's scores, which are never stored.
static void check_sizes(const Graph *g) {
  if (g->c->options.compares) return;
  for (int i = 0; i < g->nnodes; i++) {
    const Node *n = g->nodes[i];
    const Group *k = n->group;
    if (!k) continue;
    for (int j = 0; j < n->nin && !k->attention; j++) // positions belong to no kernel
      if (!n->in[j]->group) check_elements(g->c, n->in[j], true);
    bool stored = !k->attention;
    for (int j = 0; j < k->noutputs; j++) stored = stored || k->outputs[j] == n;
    if (stored) check_elements(g->c, n, true);
  }
}

bool group_finish(Graph *g) {
  if (!order_groups(g)) return false;
  place_updates_early(g);
  for (int i = 0; i < g->ngroups; i++) group_borders(g->groups[i]);
  check_sizes(g);
  in_place_find(g);
  g->symbols = names_new(g->arena, NULL);
  for (int i = 0; i < g->ngroups; i++) name_group(g, g->groups[i], g->symbols);
  return true;
}
