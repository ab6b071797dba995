// emit_header.c: a kernel's opening comment: its ops, model lines, values, launch and traffic.
#include "emit.h"

#include <limits.h>
#include <string.h>

// Describes argument i by the parameters that pass it.
static void describe_value(Buffer *b, const Group *g, int i, const Node *n, const char *role) {
  const char *between = expr_takes_pointer(g, i) ? g->args[i] : "";
  buffer_put(b, "//   %-3s %s", role, between);
  for (int j = 0; j < g->nboxes; j++)
    if (g->boxes[j].of == n) {
      buffer_put(b, "%s%s", *between ? ", " : "", g->boxes[j].name);
      between = g->boxes[j].name;
    }
  buffer_put(b, ": %s%s", dtype_name(n->type.dtype), type_shape(&n->type).s);
  bool plain = true;
  for (int d = 0; d < n->type.rank; d++) plain = plain && n->type.order[d] == d;
  for (int d = 0; !plain && d < n->type.rank; d++)
    buffer_put(b, d ? ",%d" : " in memory order %d", n->type.order[d]);
  buffer_put(b, ", %s\n", n->name && *n->name ? n->name : n->op->name);
}

static bool same_file(Loc a, Loc b) {
  return a.file && b.file && !strcmp(a.file, b.file);
}

// The smallest line of this file above `last` that a node comes from, or INT_MAX.
static int next_line(const Group *g, Loc file, int last) {
  int next = INT_MAX;
  for (int i = 0; i < g->nnodes; i++) {
    Loc loc = g->nodes[i]->loc;
    if (same_file(loc, file) && loc.line > last && loc.line < next) next = loc.line;
  }
  return next;
}

// Lists the model lines: each file once, lines ascending.
static void put_lines(Buffer *b, const Group *g) {
  const char *between = "";
  for (int i = 0; i < g->nnodes; i++) {
    Loc loc = g->nodes[i]->loc;
    bool known = !loc.file;
    for (int j = 0; j < i; j++) known = known || same_file(g->nodes[j]->loc, loc);
    if (known) continue;
    buffer_put(b, "%s%s", between, loc.file);
    between = "; ";
    for (int last = -1, next; (next = next_line(g, loc, last)) != INT_MAX; last = next)
      buffer_put(b, last < 0 ? ":%d" : ", %d", next);
  }
}

void emit_header(Emitter *e) {
  const Group *g = e->g;
  Buffer b = {0};
  buffer_put(&b, "// %s: %s\n// from ", g->name, g->ops);
  put_lines(&b, g);
  buffer_put(&b, "\n");
  if (g->first) {
    buffer_put(&b, "// prologue: the rows of %s, from ", g->first->layer);
    put_lines(&b, g->first);
    buffer_put(&b, "\n");
  }
  int nreads, nwrites;
  Node *const *reads = group_reads(g, &nreads), *const *writes = group_writes(g, &nwrites);
  for (int i = 0; i < nreads; i++) describe_value(&b, g, i, reads[i], "in");
  for (int i = 0; i < nwrites; i++) describe_value(&b, g, nreads + i, writes[i], "out");
  buffer_put(&b, "// grid %lldx%lldx%lld of %d threads, %d bytes of dynamic shared memory\n",
             (long long)g->tile.grid[0], (long long)g->tile.grid[1], (long long)g->tile.grid[2],
             g->tile.threads, g->tile.smem);
  buffer_put(&b, "// %.0f FLOP, %lld bytes read, %lld bytes written\n", g->flops,
             (long long)g->bytes_read, (long long)g->bytes_written);
  hole_take(e, "header", &b);
}
