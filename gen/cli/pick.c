// pick.c: finds kernels by name, for --kernel and --explain: by a kernel's symbol, with or without
// the model's name, or by the dotted name of a layer that it computes. If none matches exactly,
// every kernel whose symbol contains the name, or that computes a layer inside of it.
#include "cli.h"

#include <string.h>

typedef enum Match { MatchNone, MatchPart, MatchInit, MatchLayer, MatchSymbol } Match;

enum { kMostListed = 6 }; // names in a message

static const char *place(const Graph *graph, const Group *g) { // without the model's name
  size_t n = strlen(graph->model);
  return strncmp(g->name, graph->model, n) ? g->name : g->name + n + strlen("__");
}

static bool is_inside(const char *layer, const char *scope) { // layer1.0.conv1 is inside layer1
  size_t n = strlen(scope);
  return !strncmp(layer, scope, n) && layer[n] == '.';
}

static Match match(const Graph *graph, const Group *g, const char *word) {
  if (!strcmp(g->name, word) || !strcmp(place(graph, g), word)) return MatchSymbol;
  bool part = strstr(g->name, word) != NULL;
  for (const Group *k = g; k; k = k->first)
    for (int i = 0; i < k->nnodes; i++) {
      const char *layer = k->nodes[i]->name;
      if (layer && !strcmp(layer, word)) return g->fixed ? MatchInit : MatchLayer;
      part = part || (layer && is_inside(layer, word));
    }
  return part ? MatchPart : MatchNone;
}

static int no_kernel(const Graph *graph, const char *option, const char *word, Error *err) {
  int most = 2 * graph->ngroups, count = 0;
  for (int i = 0; i < graph->ngroups; i++)
    for (const Group *k = graph->groups[i]; k; k = k->first) most += k->nnodes;
  const char **names = arena_alloc(graph->arena, sizeof *names * (size_t)(most + 1));
  for (int i = 0; i < graph->ngroups; i++) {
    const Group *g = graph->groups[i];
    for (const Group *k = g; k; k = k->first)
      for (int j = 0; j < k->nnodes; j++)
        if (k->nodes[j]->name) names[count++] = k->nodes[j]->name;
    names[count++] = place(graph, g);
    names[count++] = g->name;
  }
  const char *near = text_nearest(word, names, count);
  return err_set(err, ExitUsage, "--%s %s: there is no such kernel or layer%s%s%s", option, word,
                 near ? "; did you mean '" : "; nngen show MODEL --costs lists them",
                 near ? near : "", near ? "'?" : "");
}

static void tell(const Graph *graph, const char *option, const char *word, Group *const *picked,
                 int count) {
  Buffer text = {0};
  for (int i = 0; i < count && i < kMostListed; i++)
    buffer_put(&text, "%s%s", i ? ", " : "", place(graph, picked[i]));
  if (count > kMostListed) buffer_put(&text, " and %d more", count - kMostListed);
  fprintf(stderr, "nngen: --%s %s: %d kernels match: %s\n", option, word, count, text.text);
  buffer_free(&text);
}

int pick_kernels(const Graph *graph, const char *option, const char *word, Group ***picked,
                 int *count, Error *err) {
  Match best = MatchNone;
  *picked = arena_alloc(graph->arena, sizeof **picked * (size_t)(graph->ngroups + 1));
  *count = 0;
  for (int i = 0; i < graph->ngroups; i++) {
    Match m = match(graph, graph->groups[i], word);
    if (m == MatchNone || m < best) continue;
    if (m > best) *count = 0, best = m;
    (*picked)[(*count)++] = graph->groups[i];
  }
  if (!*count) return no_kernel(graph, option, word, err);
  if (*count > 1) tell(graph, option, word, *picked, *count);
  return ExitOk;
}
