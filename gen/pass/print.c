// print.c: groups, as comments behind the IR's text and as a drawing.
#include "pass.h"

void print_groups(const Graph *g, FILE *file) {
  for (int i = 0; i < g->ngroups; i++) {
    const Group *k = g->groups[i];
    fprintf(file, "# kernel %d %s: %s, %s, reads", i, k->name, k->ops,
            k->fixed ? "init" : g->c->entries[k->anchor->entry]);
    for (int j = 0; j < k->ninputs; j++) fprintf(file, " %%%d", k->inputs[j]->id);
    fputs(", computes", file);
    for (int j = 0; j < k->nnodes; j++) fprintf(file, " %%%d", k->nodes[j]->id);
    fputs(", writes", file);
    for (int j = 0; j < k->noutputs; j++) fprintf(file, " %%%d", k->outputs[j]->id);
    if (k->tile.threads)
      fprintf(file, ", grid %lldx%lldx%lld block %d", (long long)k->tile.grid[0],
              (long long)k->tile.grid[1], (long long)k->tile.grid[2], k->tile.threads);
    fputs("\n", file);
  }
}

static void dot_nodes(const Graph *g, const Group *only, FILE *file) {
  for (int i = 0; i < g->nnodes; i++) {
    const Node *n = g->nodes[i];
    if (n->group != only || !n->uses || n->fixed) continue;
    fprintf(file, "    n%d [label=\"%s\\n%s %s\"];\n", n->id, n->op->name, n->name ? n->name : "",
            type_shape(&n->type).s);
  }
}

void print_dot(const Graph *g, FILE *file) {
  fprintf(file, "digraph %s {\n  node [shape=box fontname=Helvetica fontsize=10];\n", g->model);
  for (int i = 0; i < g->ngroups; i++) {
    if (g->groups[i]->fixed) continue;
    fprintf(file, "  subgraph cluster%d {\n    label=\"%s\"; style=rounded; color=gray;\n", i,
            g->groups[i]->layer);
    dot_nodes(g, g->groups[i], file);
    fputs("  }\n", file);
  }
  dot_nodes(g, NULL, file);
  for (int i = 0; i < g->nnodes; i++)
    for (int j = 0; j < g->nodes[i]->nin; j++)
      if (g->nodes[i]->uses && !g->nodes[i]->fixed && !g->nodes[i]->in[j]->fixed)
        fprintf(file, "  n%d -> n%d;\n", g->nodes[i]->in[j]->id, g->nodes[i]->id);
  fputs("}\n", file);
}
