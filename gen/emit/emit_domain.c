// emit_domain.c: iteration domains of reductions: indices of elements and outputs.
#include "emit.h"

#include <string.h>

int domain_dims(const Type *t, int64_t axes, bool in, int *dims) {
  int count = 0;
  for (int i = 0; i < t->rank; i++) {
    int d = t->order[i];
    if (t->dim[d] > 1 && (axes >> d & 1) == in) dims[count++] = d;
  }
  return count;
}

void domain_index(const Type *t, int64_t axes, Index *full, Index *out) {
  for (int d = 0; d < t->rank; d++) {
    full[d] = t->dim[d] == 1 ? (Index){"0", false} : (Index){emit_index_names(t->rank)[d], false};
    out[d] = axes >> d & 1 ? (Index){"0", false} : full[d];
  }
}

void domain_decode(Buffer *b, const char *from, const Type *t, const int *dims, int count,
                   const char *const *texts, int ntexts) {
  int64_t size[MaxRank];
  const char *named[MaxRank];
  for (int i = 0; i < count; i++) {
    const char *name = emit_index_names(t->rank)[dims[i]];
    size[i] = t->dim[dims[i]];
    named[i] = NULL;
    for (int j = 0; j < ntexts; j++)
      if (texts[j] && expr_mentions(texts[j], name)) named[i] = name;
  }
  expr_decode(b, "  ", from, count, size, named);
}

void domain_flat(Scope *s, Arena *arena, const Type *t, int64_t axes, const Index *full,
                 const char *output, const char *element) {
  int64_t outputs = 1, reduced = 1;
  bool rows = true, columns = true; // memory order: outputs then elements; the reverse
  int last = -1;
  for (int i = 0; i < t->rank; i++) {
    int d = t->order[i], gone = axes >> d & 1;
    if (t->dim[d] == 1) continue;
    *(gone ? &reduced : &outputs) *= t->dim[d];
    rows = rows && gone >= last;
    columns = columns && (last < 0 || gone <= last);
    last = gone;
  }
  s->flat_type = *t;
  memcpy(s->flat_at, full, sizeof s->flat_at);
  if (outputs == 1)
    s->flat = element;
  else if (rows)
    s->flat = arena_printf(arena, "%s * %lld + %s", output, (long long)reduced, element);
  else if (columns)
    s->flat = arena_printf(arena, "%s * %lld + %s", element, (long long)outputs, output);
}

const char *domain_place(Arena *arena, const Type *t, int64_t axes, const Index *full) {
  const char *place = NULL;
  int64_t step = 1;
  for (int d = t->rank - 1; d >= 0; d--) {
    if (!(axes >> d & 1) || t->dim[d] == 1) continue;
    const char *at = full[d].lane ? arena_printf(arena, "(%s + j)", full[d].text) : full[d].text;
    if (step > 1) at = arena_printf(arena, "%s * %lld", at, (long long)step);
    place = place ? arena_printf(arena, "%s + %s", at, place) : at;
    step *= t->dim[d];
  }
  return place ? place : "0";
}
