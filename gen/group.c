// group.c: the names of kernels: their places in the model.
#include "nngen.h"

#include <stdlib.h>
#include <string.h>

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
  if (b->size) buffer_put(b, "_");
  for (; *word; word++) buffer_put(b, "%c", *word == '.' || *word == '-' ? '_' : *word);
}

// The symbol: model, the anchor's place, then the other layers it fuses:
// resnet18__layer1_0_conv1_bn1_relu
static void name_group(Graph *g, Group *k) {
  Buffer name = {0}, ops = {0};
  buffer_put(&name, "%s_", g->model);
  append_word(&name, k->anchor->name);
  const char *said = k->anchor->name;
  for (int i = 0; i < k->nnodes; i++) {
    Node *n = k->nodes[i];
    if (n->id > k->anchor->id && strcmp(n->name, said) && strcmp(n->name, k->anchor->name) &&
        name.size < 96)
      append_word(&name, tail(n->name));
    said = n->name;
    buffer_put(&ops, i ? "+%s" : "%s", n->op->name);
  }
  if (k->fixed) buffer_put(&name, "_init");
  k->name = arena_dup(g->arena, name.text);
  k->ops = arena_dup(g->arena, ops.text);
  k->layer = k->anchor->name;
  buffer_free(&name);
  buffer_free(&ops);
}

static int by_name(const void *a, const void *b) {
  const Group *x = *(Group *const *)a, *y = *(Group *const *)b;
  int order = strcmp(x->name, y->name);
  return order ? order : x->id - y->id;
}

// Equal names get _2, _3, ...
static void make_unique(Graph *g) {
  Group **sorted = arena_alloc(g->arena, sizeof *sorted * (size_t)(g->ngroups + 1));
  memcpy(sorted, g->groups, sizeof *sorted * (size_t)g->ngroups);
  qsort(sorted, (size_t)g->ngroups, sizeof *sorted, by_name);
  const char *said = "";
  for (int i = 0, run = 1; i < g->ngroups; i++) {
    run = strcmp(sorted[i]->name, said) ? 1 : run + 1;
    said = run == 1 ? sorted[i]->name : said;
    if (run > 1) sorted[i]->name = arena_printf(g->arena, "%s_%d", said, run);
  }
}

void group_name_all(Graph *g) {
  for (int i = 0; i < g->ngroups; i++) name_group(g, g->groups[i]);
  make_unique(g);
}
