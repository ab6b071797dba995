// print.c: groups as comments after the IR text, and as a graphviz drawing.
#include "fuse.h"

// ---- values in memory ---------------------------------------------------------------------------

enum { kSmall = 1000 }; // values below this fraction of the total are counted, not listed

// by value id: index of the kernel of an entry that writes it, and that reads it last
typedef struct Waiting {
  int *made, *last;      // made: -1 if not written by a kernel of the entry
} Waiting;

static bool is_of(const Group *k, int entry) {
  return !k->fixed && k->anchor->entry == entry;
}

static Waiting find_waiting(const Graph *g, int entry) {
  Waiting w = {arena_alloc(g->arena, sizeof(int) * (size_t)(g->nnodes + 1)),
               arena_alloc(g->arena, sizeof(int) * (size_t)(g->nnodes + 1))};
  for (int i = 0; i < g->nnodes; i++) w.made[i] = w.last[i] = -1;
  for (int i = 0; i < g->ngroups; i++) {
    const Group *k = g->groups[i];
    int nreads, nwrites;
    Node *const *reads = group_reads(k, &nreads), *const *writes = group_writes(k, &nwrites);
    for (int j = 0; is_of(k, entry) && j < nwrites; j++) w.made[writes[j]->id] = i;
    for (int j = 0; is_of(k, entry) && j < nreads; j++) w.last[reads[j]->id] = i;
  }
  return w;
}

// in memory, but neither read nor written by it
static bool waits_at(const Waiting *w, int id, int kernel) {
  return w->made[id] >= 0 && w->made[id] < kernel && w->last[id] > kernel;
}

// The kernel of the entry at which most bytes wait in memory, and how many.
static int find_most(const Graph *g, const Waiting *w, int entry, double *most) {
  double *more = arena_alloc(g->arena, sizeof *more * (size_t)(g->ngroups + 1)), waiting = 0;
  for (int i = 0; i < g->nnodes; i++) {
    double bytes = (double)type_bytes(&g->nodes[i]->type);
    if (w->made[i] < 0 || w->last[i] <= w->made[i]) continue;
    more[w->made[i] + 1] += bytes; // compared with the kernel before
    more[w->last[i]] -= bytes;
  }
  int at = 0;
  *most = 0;
  for (int i = 0; i < g->ngroups; i++) {
    waiting += more[i];
    if (is_of(g->groups[i], entry) && waiting > *most) *most = waiting, at = i;
  }
  return at;
}

typedef struct SizeText {
  char s[16];
} SizeText;

// "8.19 KB": three significant digits.
static SizeText size_text(double bytes) {
  static const char *const units[] = {"B", "KB", "MB", "GB", "TB"};
  int u = 0;
  while (bytes >= 999.5 && u < 4) bytes /= 1000, u++;
  SizeText text;
  snprintf(text.s, sizeof text.s, "%.3g %s", bytes, units[u]);
  return text;
}

// Values in memory at the peak; in a training step, those kept for backward, and those recomputed.
static void print_waiting(const Graph *g, int entry, FILE *file) {
  Waiting w = find_waiting(g, entry);
  double most;
  int at = find_most(g, &w, entry, &most);
  if (!most) return;
  fprintf(file, "# %s: most memory is kept at kernel %d: %s for later kernels\n",
          g->c->entries[entry], at, size_text(most).s);
  int small = 0;
  for (int i = 0; i < g->nnodes; i++) {
    double bytes = (double)type_bytes(&g->nodes[i]->type);
    if (!waits_at(&w, i, at)) continue;
    if (bytes * kSmall < most)
      small++;
    else
      fprintf(file, "#   %%%d: %s, written by kernel %d %s, last read by kernel %d\n", i,
              size_text(bytes).s, w.made[i], g->groups[w.made[i]]->name, w.last[i]);
  }
  if (small) fprintf(file, "#   and %d smaller ones\n", small);
  for (int i = 0; i < g->nnodes; i++)
    if (w.made[i] >= 0 && g->nodes[i]->again)
      fprintf(file, "#   %%%d: %s, recomputed by kernel %d %s\n", i,
              size_text((double)type_bytes(&g->nodes[i]->type)).s, w.made[i],
              g->groups[w.made[i]]->name);
}

// ---- kernels ------------------------------------------------------------------------------------

void print_groups(const Graph *g, FILE *file) {
  for (int i = 0; i < g->ngroups; i++) {
    const Group *k = g->groups[i];
    int nreads, nwrites;
    Node *const *reads = group_reads(k, &nreads), *const *writes = group_writes(k, &nwrites);
    fprintf(file, "# kernel %d %s: %s, %s, reads", i, k->name, k->ops,
            k->fixed ? "init" : g->c->entries[k->anchor->entry]);
    for (int j = 0; j < nreads; j++) fprintf(file, " %%%d", reads[j]->id);
    fputs(", computes", file);
    for (int j = 0; k->first && j < k->first->nnodes; j++)
      fprintf(file, " %%%d", k->first->nodes[j]->id);
    for (int j = 0; j < k->nnodes; j++) fprintf(file, " %%%d", k->nodes[j]->id);
    fputs(", writes", file);
    for (int j = 0; j < nwrites; j++) fprintf(file, " %%%d", writes[j]->id);
    if (k->tile.threads)
      fprintf(file, ", grid %lldx%lldx%lld block %d", (long long)k->tile.grid[0],
              (long long)k->tile.grid[1], (long long)k->tile.grid[2], k->tile.threads);
    fputs("\n", file);
  }
  for (int e = 0; g->ngroups && e < g->c->nentries; e++) print_waiting(g, e, file);
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
    if (g->groups[i]->first) dot_nodes(g, g->groups[i]->first, file);
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
