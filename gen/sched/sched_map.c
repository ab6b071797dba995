// sched_map.c: element-wise kernels: lanes per thread, and how many rows of the result a block has.
#include "sched.h"

#include <stdlib.h>

static Excess map_excess(const Group *part, const Sectors *sectors, const Arch *arch) {
  const Tile *t = &part->tile;
  Stream s = {.blocks = (double)t->grid[0], .threads = t->threads};
  Spread x = {type_count(&part->anchor->type), 1, t->threads, t->lanes};
  if (t->columns) x = (Spread){t->columns, t->rows, t->threads / t->rows, t->lanes};
  return sectors_excess(sectors, &x, stream_per_sm(&s, arch), arch);
}

static void add_part(Stream *sum, const Group *part, Excess excess) {
  double elements = (double)in_place_elements(part);
  sum->blocks += (double)part->tile.grid[0];
  sum->elements += elements;
  sum->vectors += elements / part->tile.lanes * (part->ninputs + part->noutputs);
  sum->sectors.accesses += excess.accesses, sum->sectors.l1 += excess.l1;
  sum->sectors.l2 += excess.l2, sum->sectors.dram += excess.dram;
}

static void note_maps(Group *g, const Arch *arch, Stream *s) {
  s->threads = g->tile.threads;
  s->flops = g->flops / s->elements;
  s->steps = 1;
  Cost c = stream_cost(s, g, arch);
  cost_note(&g->tile, &c);
}

// Blocks of several rows of the result as a matrix, by which transposed reads fill sectors, where
// they are cheaper than runs of elements.
static void choose_matrix(Group *part, const Arch *arch, const Sectors *sectors) {
  enum { kLeastRows = 8, kMostRows = 64 };
  const double kOfMatrix = 0.98; // only if it gains more than that
  const Type *made = &part->anchor->type;
  Tile *t = &part->tile, best = *t;
  int64_t columns = 1;
  for (int i = made->rank - 1; i > 0; i--) {
    columns *= made->dim[made->order[i]];
    if (columns % t->lanes || !sectors_may_fill(sectors, columns)) continue;
    for (int rows = kLeastRows; rows <= kMostRows; rows *= 2) {
      Stream s = {0};
      t->columns = columns, t->rows = rows;
      t->grid[0] = ceil_div(type_count(made) / columns, rows) *
                   ceil_div(columns, (int64_t)(t->threads / rows) * t->lanes);
      add_part(&s, part, map_excess(part, sectors, arch));
      note_maps(part, arch, &s);
      if (t->seconds < best.seconds * (best.columns ? 1 - 1e-9 : kOfMatrix)) best = *t;
    }
  }
  *t = best;
}

// The tile of one part, added to the sum of all.
static void cut_map(Group *part, const Arch *arch, Stream *sum) {
  Tile *t = &part->tile;
  Sectors *sectors = sectors_of(part, &part->anchor->type);
  *t = (Tile){.lanes = sched_lanes(part, sched_innermost(&part->anchor->type)), .threads = 256};
  t->grid[0] = ceil_div(in_place_elements(part), (int64_t)t->threads * t->lanes);
  if (sectors && !part->changes) {
    Stream own = {0};
    sched_count_work(part);
    add_part(&own, part, map_excess(part, sectors, arch));
    note_maps(part, arch, &own);
    choose_matrix(part, arch, sectors);
  }
  add_part(sum, part, map_excess(part, sectors, arch));
  free(sectors);
}

// Parts of a multi-tensor launch have their own vector width, and consecutive blocks.
void sched_map(Group *g, const Arch *arch) {
  int nparts;
  Group *const *parts = group_parts(&g, &nparts);
  Stream s = {0};
  for (int i = 0; i < nparts; i++) cut_map(parts[i], arch, &s);
  g->tile.lanes = parts[0]->tile.lanes;
  g->tile.threads = parts[0]->tile.threads;
  g->tile.grid[0] = (int64_t)s.blocks;
  note_maps(g, arch, &s);
}
