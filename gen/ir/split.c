// split.c: separates the entries of a model, which are one graph as written. Nodes used by several
// entries are duplicated, so that each computed node belongs to one entry. Sources stay shared, and
// so do fixed values, which the entry `init` computes.
#include "ir.h"

#include <stdlib.h>
#include <string.h>

typedef struct Split {
  Graph *to;
  int entry;
  Node **copy; // by id: copies of shared nodes
  Node **own;  // by id: copies for the current entry
} Split;

static bool shared(const Node *n) {
  return n->op->cls == OpSource || n->fixed;
}

static Node *copy_of(const Split *s, const Node *n) {
  if (n->subst) n = n->subst;
  return shared(n) ? s->copy[n->id] : s->own[n->id];
}

// One walk is enough because inputs precede users.
static void copy_entry(Split *s, const Graph *g, const bool *needed) {
  for (int i = 0; i < g->nnodes; i++) {
    Node *n = g->nodes[i], **at = shared(n) ? &s->copy[i] : &s->own[i];
    if (!needed[i] || *at) continue;
    Node **in = arena_alloc(g->arena, sizeof *in * (size_t)(n->nin + 1));
    for (int j = 0; j < n->nin; j++) in[j] = copy_of(s, n->in[j]);
    *at = graph_add(s->to, n->op, n->nin, in, &n->attr, n);
    (*at)->type = n->type;
    if (!shared(n)) (*at)->entry = s->entry;
  }
}

static void find_needed(const Graph *g, int entry, bool *needed) {
  memset(needed, 0, sizeof *needed * (size_t)g->nnodes);
  for (int i = 0; i < g->noutputs; i++)
    if (g->outputs[i].entry == entry) needed[g->outputs[i].node->id] = true;
  for (int i = 0; i < g->nupdates; i++)
    if (g->updates[i].entry == entry) needed[g->updates[i].value->id] = true;
  for (int i = g->nnodes - 1; i >= 0; i--)
    for (int j = 0; needed[i] && j < g->nodes[i]->nin; j++) needed[g->nodes[i]->in[j]->id] = true;
}

static void set_instead(const Graph *g, int entry) {
  for (int i = 0; i < g->nnodes; i++) g->nodes[i]->subst = NULL;
  for (int i = 0; i < g->ninstead; i++)
    if (g->instead[i].entry == entry) g->instead[i].source->subst = g->instead[i].other;
}

// With options.trains only the entries of nn.train are compiled, if the model has them.
static bool is_wanted(const Compiler *c, int entry) {
  bool training = false, wanted = false;
  for (int i = 0; i < c->nentries; i++) {
    bool one = !strcmp(c->entries[i], "train") || !strcmp(c->entries[i], "eval") ||
               !strcmp(c->entries[i], "neighbours");
    training = training || one;
    wanted = wanted || (one && i == entry);
  }
  return wanted || !training || !c->options.trains;
}

Graph *graph_split(Graph *g) {
  size_t count = (size_t)g->nnodes + 1;
  Split s = {.to = graph_new(g->c, g->model), .copy = base_alloc(count, sizeof(Node *))};
  bool *needed = base_alloc(count, sizeof *needed);
  for (int i = 0; i < g->nnodes; i++) // keep all sources with memory, in the model's order
    needed[i] = node_has_memory(g->nodes[i]);
  set_instead(g, -1);
  copy_entry(&s, g, needed);
  for (s.entry = 0; s.entry < g->c->nentries; s.entry++) {
    if (!is_wanted(g->c, s.entry)) continue;
    s.own = base_alloc(count, sizeof *s.own);
    find_needed(g, s.entry, needed);
    set_instead(g, s.entry);
    copy_entry(&s, g, needed);
    for (int i = 0; i < g->noutputs; i++) {
      Output o = g->outputs[i];
      if (o.entry != s.entry) continue;
      o.node = copy_of(&s, o.node);
      graph_output(s.to, o);
    }
    for (int i = 0; i < g->nupdates; i++)
      if (g->updates[i].entry == s.entry)
        graph_update(s.to, s.copy[g->updates[i].state->id], copy_of(&s, g->updates[i].value),
                     g->updates[i].loc, s.entry);
    free(s.own);
  }
  free(s.copy);
  free(needed);
  return s.to;
}
