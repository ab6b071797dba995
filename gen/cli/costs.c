// costs.c: `nngen show --costs`: modelled time of each kernel (of one entry with --entry) next to
// its lower bound, and the share of padding in its multiplications.
#include "cli.h"

#include <jansson.h>
#include <math.h>
#include <string.h>

enum { kNameWidth = 44, kTileWidth = 42 }; // columns

typedef struct Costs { // of one kernel, or of all
  double seconds, floor;
  double issued, counted,
      inside; // multiplications: issued for tiles; by the FLOP count; without the image's padding
  double term[CostNoted];
} Costs;

static Costs costs_of(const Group *g, const Arch *arch) {
  Costs c = {.seconds = g->tile.seconds};
  memcpy(c.term, g->tile.term, sizeof c.term);
  c.floor = fmax(sched_flop_seconds(g, arch), sched_dram_seconds(g, arch));
  if (g->tm->multiplies) g->tm->multiplies(g, &c.issued, &c.counted, &c.inside);
  return c;
}

static void add(Costs *sum, const Costs *c) {
  sum->seconds += c->seconds, sum->floor += c->floor;
  sum->issued += c->issued, sum->counted += c->counted, sum->inside += c->inside;
  for (int i = 0; i < CostNoted; i++) sum->term[i] += c->term[i];
}

static double ratio(double a, double b) {
  return b > 0 ? a / b : 1;
}

static void print_row(Arena *arena, const char *name, const char *tile, const Costs *c) {
  printf("%-*s %-*s %9.2f %9.2f %7.2fx", kNameWidth, text_fit(arena, name, kNameWidth), kTileWidth,
         tile, c->seconds * 1e6, c->floor * 1e6, ratio(c->seconds, c->floor));
  if (c->issued > 0)
    printf(" %8.3f %8.3f", ratio(c->issued, c->counted), ratio(c->counted, c->inside));
  else
    printf(" %17s", "");
  printf(" %s\n", cost_text(arena, c->term));
}

static json_t *json_row(const Group *g, const Costs *c) {
  const char *tile = g->tm->candidates ? tuning_tile(g->graph->arena, &g->tile) : "";
  json_t *terms = json_object();
  int most = 0;
  for (int i = 0; i < CostNoted; i++) {
    json_object_set_new(terms, cost_terms[i], json_real(c->term[i] * 1e6));
    if (i < CostTerms && c->term[i] > c->term[most]) most = i;
  }
  return json_pack("{s:s s:s s:s s:s s:f s:f s:o s:f s:f s:f s:i s:i}", "name", g->name, "layer",
                   g->layer, "tile", tile, "bound", cost_terms[most], "modelled_us",
                   c->seconds * 1e6, "floor_us", c->floor * 1e6, "terms_us", terms, "issued",
                   c->issued, "counted", c->counted, "inside", c->inside, "threads",
                   g->tile.threads, "blocks_per_sm", g->tile.blocks);
}

// Is kernel g run by `entry`? -1: by any. Kernels of init are none of these.
static bool is_of(const Group *g, int entry) {
  return !g->fixed && (entry < 0 || g->anchor->entry == entry);
}

static int print_json(const Compiler *c, int entry, Error *err) {
  json_t *rows = json_array();
  Costs sum = {0};
  for (int i = 0; i < c->graph->ngroups; i++) {
    const Group *g = c->graph->groups[i];
    if (!is_of(g, entry)) continue;
    Costs one = costs_of(g, c->options.arch);
    add(&sum, &one);
    json_array_append_new(rows, json_row(g, &one));
  }
  json_t *o = json_pack("{s:i s:s s:s s:s s:f s:f s:f s:f s:o}", "schema_version", 1, "model",
                        c->graph->model, "dtype", c->options.dtype, "gpu", c->options.arch->gpu,
                        "modelled_us", sum.seconds * 1e6, "floor_us", sum.floor * 1e6, "padding",
                        ratio(sum.issued, sum.counted), "border", ratio(sum.counted, sum.inside),
                        "kernels", rows);
  int failed = json_dumpf(o, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
  json_decref(o);
  printf("\n");
  return failed ? err_set(err, ExitBadInput, "stdout cannot be written") : ExitOk;
}

int show_costs(const Compiler *c, bool json, int entry, Error *err) {
  if (json) return print_json(c, entry, err);
  Costs sum = {0};
  printf("%s, %s, for %s; microseconds by the cost model, not measured; padding: "
         "multiplications issued / counted; border: counted / those without the image's padding; "
         "a kernel takes the fourth root of the sum of its bounds' fourth powers (math to wait; of "
         "math and issue the larger where no tensor cores multiply), then fill, join and launch; "
         "sectors: the part of l2 and dram for bytes that accesses touch without need\n",
         c->graph->model, c->options.dtype, c->options.arch->gpu);
  printf("%-*s %-*s %9s %9s %8s %8s %8s %s\n", kNameWidth, "kernel", kTileWidth, "tile", "modelled",
         "floor", "ratio", "padding", "border", "terms, the largest first");
  for (int i = 0; i < c->graph->ngroups; i++) {
    const Group *g = c->graph->groups[i];
    if (!is_of(g, entry)) continue;
    Costs one = costs_of(g, c->options.arch);
    add(&sum, &one);
    print_row(c->arena, g->layer, g->tm->candidates ? tuning_tile(g->graph->arena, &g->tile) : "",
              &one);
  }
  print_row(c->arena, "all", "", &sum);
  return ExitOk;
}
