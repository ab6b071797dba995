// index.c: indices and offsets as C text: constant-folding sums and products, broadcasting, moves.
#include "emit.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

bool expr_mentions(const char *text, const char *word) {
  size_t n = strlen(word);
  for (const char *at = text; at && (at = strstr(at, word)); at += n) {
    bool begins = at == text || (!isalnum((unsigned char)at[-1]) && at[-1] != '_');
    if (begins && !isalnum((unsigned char)at[n]) && at[n] != '_') return true;
  }
  return false;
}

// ---- index arithmetic -------------------------------------------------------------------------

bool index_is_zero(const char *text) {
  return !strcmp(text, "0");
}

static bool is_number(const char *text) {
  return *text && strspn(text, "0123456789") == strlen(text);
}

// Parenthesises the text unless it is a name or a number.
const char *index_atom(Arena *a, const char *text) {
  bool plain = isalnum((unsigned char)*text) && !strpbrk(text, " +-");
  return plain ? text : arena_printf(a, "(%s)", text);
}

const char *index_scaled(Arena *a, const char *text, int64_t by) {
  if (index_is_zero(text) || by == 0) return "0";
  if (by == 1) return text;
  if (is_number(text)) return arena_printf(a, "%lld", (long long)atoll(text) * by);
  return arena_printf(a, "%s * %lld", index_atom(a, text), (long long)by);
}

const char *index_sum(Arena *a, const char *x, const char *y) {
  if (index_is_zero(x)) return y;
  if (index_is_zero(y)) return x;
  return arena_printf(a, "%s + %s", x, y);
}

// Is the text a name plus a number? *length: of the name, *by: the number.
static bool is_shifted(const char *text, int *length, int64_t *by) {
  *length = (int)strcspn(text, " ");
  const char *sign = text + *length;
  bool shifted = isalpha((unsigned char)*text) && (*sign && sign[1] && strchr("+-", sign[1])) &&
                 sign[2] == ' ' && is_number(sign + 3);
  if (shifted) *by = sign[1] == '-' ? -atoll(sign + 3) : atoll(sign + 3);
  return shifted;
}

Index index_shifted(Arena *a, Index at, int64_t by) {
  int length;
  int64_t already;
  if (!by) return at;
  if (is_shifted(at.text, &length, &already)) {
    at.text = arena_printf(a, "%.*s", length, at.text);
    return index_shifted(a, at, by + already);
  }
  if (is_number(at.text))
    at.text = arena_printf(a, "%lld", (long long)atoll(at.text) + by);
  else
    at.text = by > 0 ? arena_printf(a, "%s + %lld", at.text, (long long)by)
                     : arena_printf(a, "%s - %lld", at.text, (long long)-by);
  return at;
}

// The index with the lane written out.
const char *index_whole(Arena *a, Index at) {
  if (!at.lane) return at.text;
  return index_is_zero(at.text) ? "j" : arena_printf(a, "(%s + j)", at.text);
}

void expr_broadcast(const Type *from, const Type *to, const Index *at, Index *out) {
  for (int d = 0; d < to->rank; d++) {
    int of = from->rank - to->rank + d;
    out[d] = to->dim[d] == 1 ? (Index){"0", false} : at[of];
  }
}

// ---- moves ------------------------------------------------------------------------------------

// The index in shape `from` of element `at` of the value reshaped to `to`. Dimensions are matched
// in runs of equal products, so that unchanged ones keep their index; a longer run is linearised
// and decomposed again. The innermost lane stays a lane if `lanes` adjacent elements stay adjacent.
void index_reshape(Arena *arena, const Type *to, const Type *from, int lanes, const Index *at,
                   Index *out) {
  int i = 0, j = 0;
  while (j < from->rank || i < to->rank) {
    int i0 = i, j0 = j;
    int64_t a = i < to->rank ? to->dim[i++] : 1, b = j < from->rank ? from->dim[j++] : 1;
    while (a != b) {
      if (a < b)
        a *= to->dim[i++];
      else
        b *= from->dim[j++];
    }
    int live_i = -1, live_j = -1, ni = 0, nj = 0;
    for (int d = i0; d < i; d++)
      if (to->dim[d] > 1) live_i = d, ni++;
    for (int d = j0; d < j; d++) {
      out[d] = (Index){"0", false};
      if (from->dim[d] > 1) live_j = d, nj++;
    }
    if (nj == 0) continue;
    if (ni == 1 && nj == 1) {
      out[live_j] = at[live_i];
      continue;
    }
    const char *linear = "0";
    int64_t step = 1;
    bool together = ni && lanes > 1 && at[live_i].lane && to->dim[live_i] % lanes == 0 &&
                    from->dim[live_j] % lanes == 0;
    for (int d = i - 1; d >= i0; d--) {
      const char *index = together && d == live_i ? at[d].text : index_whole(arena, at[d]);
      linear = index_sum(arena, index_scaled(arena, index, to->dim[d] == 1 ? 0 : step), linear);
      step *= to->dim[d];
    }
    out[live_j].lane = together;
    int64_t below = 1;
    for (int d = j - 1; d >= j0; d--) {
      if (from->dim[d] == 1) continue;
      const char *q = below == 1 ? linear
                                 : arena_printf(arena, "%s / %lld", index_atom(arena, linear),
                                                (long long)below);
      bool first = below * from->dim[d] == b;
      out[d].text = first ? q
                          : arena_printf(arena, "%s %% %lld", below == 1 ? index_atom(arena, q) : q,
                                         (long long)from->dim[d]);
      below *= from->dim[d];
    }
  }
}

Index index_rolled(Arena *arena, Index at, int64_t by, int64_t size, int lanes) {
  if (!by) return at;
  bool together = by % lanes == 0 && size % lanes == 0; // else adjacent lanes are separated
  Index from = {together ? at.text : index_whole(arena, at), false};
  const char *moved = index_shifted(arena, from, by).text;
  return (Index){arena_printf(arena, "(%s) %% %lld", moved, (long long)size), at.lane && together};
}

void expr_follow(const Node *move, int lanes, const Index *at, Index *out) {
  Arena *arena = move->group->graph->arena;
  const Type *from = &move->in[0]->type, *to = &move->type;
  if (move->op->form == MoveReshape) index_reshape(arena, from, to, lanes, at, out);
  for (int d = 0; d < to->rank && move->op->form == MovePermute; d++)
    out[d] = at[move->attr.dims[d]];
  for (int d = 0; d < to->rank && move->op->form == MoveSlice; d++)
    out[d] = index_shifted(arena, at[d], -move->attr.dims[d]);
  for (int d = 0; d < to->rank && move->op->form == MoveRoll; d++)
    out[d] = index_rolled(arena, at[d], move->attr.dims[d], to->dim[d], lanes);
}

void index_name(const Group *g, Buffer *out, const char *indent, int rank, Index *at) {
  for (int d = 0; d < rank; d++) {
    if (!strchr(at[d].text, ' ') || expr_mentions(at[d].text, "j")) continue;
    const char *word = expr_name(g, emit_index_names(rank)[d]);
    buffer_put(out, "%sconst int %s = %s;\n", indent, word, at[d].text);
    at[d].text = word;
  }
}

// ---- linear to index --------------------------------------------------------------------------

void expr_decode(Buffer *out, const char *indent, const char *i, int n, const int64_t *size,
                 const char *const *name) {
  int64_t below = 1;
  for (int d = n - 1; d >= 0; d--) {
    int64_t count = size[d] ? size[d] : 1; // 0: the kernel has no elements
    if (name[d]) {
      buffer_put(out, "%sconst int %s = %s", indent, name[d], i);
      if (below > 1) buffer_put(out, " / %lld", (long long)below);
      buffer_put(out, d ? " %% %lld;\n" : ";\n", (long long)count);
    }
    below *= count;
  }
}
