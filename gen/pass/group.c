// group.c: groups that are whole: the order of their launches, what they read and write, and their
// names, which are their places in the model.
#include "pass.h"

#include <string.h>

bool group_sums_columns(const Group *g, const Node *n) {
  return g->tm->fusion->product && n->op->cls == OpReduce;
}

// Does n have an element for each one that the group goes through, in the same order?
static bool in_step(const Group *g, const Node *n) {
  const Type *t = g->tm->fusion->elements ? g->tm->fusion->elements(g) : &g->anchor->type;
  return type_same_shape(t, &n->type) && !memcmp(t->order, n->type.order, sizeof t->order);
}

const Node *group_stored(const Group *g, const Node *n) {
  while (!g->tm->fusion->product && n != g->anchor && !in_step(g, n) && n->op->cls == OpMove &&
         n->nin == 1 && n->in[0]->group == g && view_same_memory(n))
    n = n->in[0];
  return n;
}

// ---- the order of launches --------------------------------------------------------------------

static int place_group(Graph *g, Group *k, int count) { // depth first: what k reads comes before it
  if (k->visited) return count;
  k->visited = true;
  for (int i = 0; i < k->nnodes; i++)
    for (int j = 0; j < k->nodes[i]->nin; j++) {
      const Node *from = k->nodes[i]->in[j];
      if (from->group && from->group != k) count = place_group(g, from->group, count);
      for (int m = 0; from->placed && m < from->nin; m++) // who writes its parts
        count = place_group(g, from->in[m]->group, count);
    }
  k->id = count;
  g->groups[count] = k;
  return count + 1;
}

static void order_groups(Graph *g) {
  g->groups = arena_alloc(g->arena, sizeof *g->groups * (size_t)(g->nnodes + 1));
  for (int i = 0; i < g->nnodes; i++)
    if (g->nodes[i]->group) g->ngroups = place_group(g, g->nodes[i]->group, g->ngroups);
}

// ---- what a kernel reads and writes -----------------------------------------------------------

static void add_unique(Node **list, int *count, Node *n) {
  for (int i = 0; i < *count; i++)
    if (list[i] == n) return;
  list[(*count)++] = n;
}

// Values that leave their group: read by another one, or outputs of the model.
static void find_borders(Graph *g) {
  int *outside = arena_alloc(g->arena, sizeof *outside * (size_t)g->nnodes);
  for (int i = 0; i < g->nnodes; i++)
    for (int j = 0; g->nodes[i]->uses && j < g->nodes[i]->nin; j++)
      if (g->nodes[i]->in[j]->group != g->nodes[i]->group) outside[g->nodes[i]->in[j]->id] = 1;
  for (int i = 0; i < g->noutputs; i++) outside[g->outputs[i].node->id] = 1;
  for (int i = 0; i < g->nupdates; i++) outside[g->updates[i].value->id] = 1;
  for (int i = 0; i < g->ngroups; i++) {
    Group *k = g->groups[i];
    int most = 0;
    for (int j = 0; j < k->nnodes; j++) most += k->nodes[j]->nin;
    k->inputs = arena_alloc(g->arena, sizeof(Node *) * (size_t)(most + 1));
    k->outputs = arena_alloc(g->arena, sizeof(Node *) * (size_t)k->nnodes);
    for (int j = 0; j < k->nnodes; j++) {
      Node *n = k->nodes[j];
      for (int m = 0; m < n->nin; m++)
        if (n->in[m]->group != k && (n->in[m]->op->cls != OpSource || node_has_memory(n->in[m])))
          add_unique(k->inputs, &k->ninputs, n->in[m]);
      if (outside[n->id]) k->outputs[k->noutputs++] = n;
    }
    k->domain = !k->tm->fusion->product ? k->outputs[k->noutputs - 1]->type
                : k->ntails > 1         ? k->anchor->type
                                        : tail_made(k, 0)->type;
  }
}

// ---- names ------------------------------------------------------------------------------------

static const char *leaf(const char *name) {
  const char *dot = strrchr(name, '.');
  return dot && dot[1] ? dot + 1 : name;
}

// A name like downsample.1 keeps the word before its number.
static const char *tail(const char *name) {
  const char *last = leaf(name);
  if (last == name || *last < '0' || *last > '9') return last;
  for (last -= 2; last > name && *last != '.'; last--) {
  }
  return *last == '.' ? last + 1 : last;
}

static void append_word(Buffer *b, const char *word) {
  buffer_put(b, b->size ? "_%s" : "%s", word);
}

// The ops of a kernel, but for those that only change how elements are counted.
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

// The symbol: model, the anchor's place, then the other layers it fuses:
// resnet18__layer1_0_conv1_bn1_relu
static void name_group(Graph *g, Group *k, Names *symbols) {
  Buffer name = {0};
  buffer_put(&name, "%s_", g->model);
  append_word(&name, k->anchor->name);
  const char *said = k->anchor->name;
  for (int i = 0; i < k->nnodes; i++) {
    Node *n = k->nodes[i];
    if (n->id > k->anchor->id && strcmp(n->name, said) && strcmp(n->name, k->anchor->name) &&
        name.size < 96)
      append_word(&name, tail(n->name));
    said = n->name;
  }
  if (k->fixed) buffer_put(&name, "_init");
  k->name = names_take(symbols, buffer_take(&name, g->arena));
  k->ops = ops_of(k);
  k->layer = k->anchor->name;
}

// ---- updates in place ---------------------------------------------------------------------------

static bool reads(const Group *k, const Node *n) {
  for (int i = 0; i < k->ninputs; i++)
    if (k->inputs[i] == n) return true;
  return false;
}

// Does k read each element of the state only where it writes the same one?
static bool element_wise(const Group *k, const Node *state, const Node *value) {
  if (!k->tm->fusion->maps || !type_same_shape(&k->anchor->type, &state->type) ||
      !type_same_shape(&value->type, &state->type))
    return false;
  for (int i = 0; i < k->nnodes; i++)
    for (int j = 0; j < k->nodes[i]->nin; j++)
      if (k->nodes[i]->in[j] == state &&
          (k->nodes[i]->op->cls != OpMap || !type_same_shape(&k->nodes[i]->type, &state->type)))
        return false;
  return true;
}

// A kernel writes a state where it is when nobody reads its former value later.
static bool writes_in_place(const Graph *g, const Update *u) {
  const Group *k = u->value->group;
  for (int i = 0; i < g->ngroups; i++) {
    const Group *other = g->groups[i];
    if (!reads(other, u->state) || (other->anchor->entry != u->entry && !other->fixed)) continue;
    if (other == k ? !element_wise(k, u->state, u->value) : other->id > k->id) return false;
  }
  for (int i = 0; i < g->nupdates; i++) // a value of its own entry alone
    if (&g->updates[i] != u && g->updates[i].value == u->value) return false;
  return true;
}

bool group_aliases(const Group *k, const Node *n) {
  const Graph *g = k->graph;
  for (int i = 0; i < g->nupdates; i++) {
    const Update *u = &g->updates[i];
    if (u->in_place && u->value->group == k && (u->state == n || u->value == n) &&
        reads(k, u->state))
      return true;
  }
  return false;
}

void group_finish(Graph *g) {
  order_groups(g);
  find_borders(g);
  for (int i = 0; i < g->nupdates; i++) g->updates[i].in_place = writes_in_place(g, &g->updates[i]);
  Names *symbols = names_new(g->arena, NULL);
  for (int i = 0; i < g->ngroups; i++) name_group(g, g->groups[i], symbols);
}
