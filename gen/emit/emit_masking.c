// emit_masking.c: mask classification of key tiles as device code: interval arithmetic over a
// score's conditions (lib/span.cuh) decides which tiles are masked for all rows of the block, or
// plain.
#include "emit.h"

#include <math.h>
#include <string.h>

enum { kMostKnown = 256, kMostText = 200 };

typedef struct SpanIndex { // index along one dimension of a value
  const char *text;        // an index, or the name of a Span
  bool ranged, key;        // ranged: a span; key: depends on the tile of keys
} SpanIndex;

typedef struct SpanValue {
  const char *text;
  bool key;      // depends on the tile of keys
  bool constant; // a number, or unknown
  Span span;     // if constant
} SpanValue;

typedef struct SpanText {
  Emitter *e;
  Arena *arena;
  Buffer outer, inner; // statements per block; per tile
  struct {
    const Node *node;
    SpanIndex at[MaxRank];
    SpanValue value;
  } known[kMostKnown];
  int nknown;
} SpanText;

static const SpanValue unknown = {.text = "span_any()", .constant = true, .span = {-1e300, 1e300}};

static const char *number(SpanText *t, double v) {
  if (isnan(v)) return "span_unknown()";
  if (isinf(v)) return v > 0 ? "span_at(nn_inf())" : "span_at(-nn_inf())";
  return arena_printf(t->arena, "span_at(%.17g)", v);
}

static SpanValue value_of(SpanText *t, const Node *n, const SpanIndex *at);

// Defines a name of this kernel.
static SpanValue defined(SpanText *t, const char *word, const char *text, bool key) {
  const char *name = expr_name(t->e->g, arena_printf(t->arena, "%s_span", word));
  buffer_put(key ? &t->inner : &t->outer, "%sconst Span %s = %s;\n", key ? "    " : "  ", name,
             text);
  return (SpanValue){.text = name, .key = key};
}

// A stored value or table: read at its index, or over all of one range.
static SpanValue loaded(SpanText *t, const Node *n, const SpanIndex *at) {
  const SpanIndex *range = NULL;
  Index index[MaxRank];
  const char *i = "0";
  for (int d = 0; d < n->type.rank; d++) {
    index[d] = (Index){at[d].text, false};
    if (!at[d].ranged) continue;
    if (range) return unknown;
    range = &at[d];
    index[d].text = i = expr_name(t->e->g, "i");
  }
  Scope s = {.group = t->e->g, .lanes = 1, .indent = "    "};
  const char *value = expr_value(&s, n, index);
  const char *body = arena_printf(t->arena, "%s%s", s.loads.text ? s.loads.text : "",
                                  s.body.text ? s.body.text : "");
  scope_free(&s);
  if (range)
    return defined(t, n->op->name,
                   arena_printf(t->arena, "span_over(%s, [&](int %s) {\n%s    return %s;\n  })",
                                range->text, i, body, value),
                   range->key);
  buffer_put(&t->outer, "%s", body);
  return defined(t, n->op->name, arena_printf(t->arena, "span_at(double(%s))", value), false);
}

// The value converted by n (span_converted).
static const char *converted(SpanText *t, const Node *n, SpanValue of) {
  Dtype from = n->in[0]->type.dtype, to = (Dtype)n->attr.dtype;
  double least, most;
  if (from == to) return of.text;
  if (to == DtBool) return arena_printf(t->arena, "span_bool(%s)", of.text);
  if (!strchr(of.text, '(') && to == DtF32) // a name, because it is mentioned several times
    return arena_printf(t->arena, "span_near(%s, %s, %s)", of.text, of.text, of.text);
  if (to == DtF32) return of.text; // a number, or unknown
  if (!span_holds(to, &least, &most)) return "span_unknown()";
  return arena_printf(t->arena, "span_cut(%s, %.0f, %.0f)", of.text, least, most);
}

static SpanValue of_map(SpanText *t, const Node *n, const SpanIndex *at) {
  SpanValue in[MaxInputs];
  const char *text[kMostCodes + MaxInputs];
  Span span[MaxInputs];
  const Traced *k = program_of(t->e->c, n->op);
  bool constant = true, key = false, converts = n->op->typing == TypeConvert;
  if (!k->ok) return unknown;
  for (int i = 0; i < n->nin; i++) {
    const Type *of = &n->in[i]->type;
    SpanIndex to[MaxRank];
    for (int d = 0; d < of->rank; d++)
      to[d] = of->dim[d] == 1 ? (SpanIndex){.text = "0"} : at[d + n->type.rank - of->rank];
    in[i] = value_of(t, n->in[i], to);
    text[i] = in[i].text, span[i] = in[i].span;
    constant = constant && in[i].constant, key = key || in[i].key;
  }
  if (constant) {
    Span s = span_run(&k->program, span, span_of_floats(n));
    if (converts) s = span_converted(n->in[0]->type.dtype, (Dtype)n->attr.dtype, s);
    if (span_is_open(s)) return unknown;
    if (s.lo == s.hi) return (SpanValue){.text = number(t, s.lo), .constant = true, .span = s};
  }
  for (int i = 0; i < k->program.nsteps; i++) {
    const Step *s = &k->program.steps[i];
    const char **to = &text[n->nin + i];
    int count = program_inputs(s->code);
    if (s->code == CodeConst)
      *to = number(t, span_number(s->value, span_of_floats(n)));
    else if (s->code == CodeCopy)
      *to = text[s->in[0]];
    else if (!span_has_code(s->code))
      *to = count > 1 ? "span_unknown()"
                      : arena_printf(t->arena, "span_of_any(%s)", text[s->in[0]]);
    else
      *to = arena_printf(t->arena, "span_%s(%s%s%s%s%s)", program_code(s->code), text[s->in[0]],
                         count > 1 ? ", " : "", count > 1 ? text[s->in[1]] : "",
                         count > 2 ? ", " : "", count > 2 ? text[s->in[2]] : "");
    if (!span_rounds(s->code) || !span_of_floats(n)) continue;
    *to = arena_printf(t->arena, "span_near(%s, %s, %s)", *to, text[s->in[0]], text[s->in[1]]);
    if (strlen(*to) > kMostText) *to = defined(t, n->op->name, *to, key).text;
  }
  const char *result = text[n->nin + k->program.nsteps - 1];
  if (converts) result = converted(t, n, in[0]);
  if (n->op->wraps && span_wraps(t->e->g, n))
    result = arena_printf(t->arena, "span_cut(%s, %.0f, %.0f)", result, (double)INT32_MIN,
                          (double)INT32_MAX);
  if (!strchr(result, '(')) return (SpanValue){.text = result, .key = key};
  return defined(t, n->op->name, result, key);
}

static SpanValue of_move(SpanText *t, const Node *n, const SpanIndex *at) {
  int from[MaxRank];
  SpanIndex in[MaxRank];
  if (!span_follow(n, from)) return loaded(t, n, at); // a table gathered by computed ids
  for (int d = 0; d < n->in[0]->type.rank; d++) {
    in[d] = from[d] < 0 ? (SpanIndex){.text = "0"} : at[from[d]];
    int64_t shift = n->op->form == MoveSlice ? n->attr.dims[d] : 0;
    if (shift && in[d].ranged) {
      const char *sum =
          arena_printf(t->arena, "span_add(%s, %s)", in[d].text, number(t, (double)shift));
      in[d].text = defined(t, "slice", sum, in[d].key).text;
    } else if (shift) {
      in[d].text = index_shifted(t->arena, (Index){in[d].text, false}, shift).text;
    }
  }
  return value_of(t, n->in[0], in);
}

static bool same_index(const SpanIndex *a, const SpanIndex *b, int rank) {
  for (int d = 0; d < rank; d++)
    if (strcmp(a[d].text, b[d].text)) return false;
  return true;
}

static SpanValue value_of(SpanText *t, const Node *n, const SpanIndex *at) {
  bool source = n->op->cls == OpSource;
  if (source && n->op->form == SourceConst) {
    double value = span_number(n->attr.value, span_of_floats(n));
    return (SpanValue){.text = number(t, value), .constant = true, .span = {value, value}};
  }
  if (source && n->op->form == SourceIndex) {
    const SpanIndex *i = &at[n->attr.axis];
    return (SpanValue){.text = i->ranged ? i->text : arena_printf(t->arena, "span_at(%s)", i->text),
                       .key = i->key};
  }
  for (int i = 0; i < t->nknown; i++)
    if (t->known[i].node == n && same_index(t->known[i].at, at, n->type.rank))
      return t->known[i].value;
  // without memory the text would be repeated exponentially
  if (t->nknown == kMostKnown) return unknown;
  SpanValue v = n->group != t->e->g    ? loaded(t, n, at)
                : n->op->cls == OpMap  ? of_map(t, n, at)
                : n->op->cls == OpMove ? of_move(t, n, at)
                                       : unknown;
  if (t->nknown == kMostKnown) return v;
  t->known[t->nknown].node = n;
  t->known[t->nknown].value = v;
  memcpy(t->known[t->nknown++].at, at, sizeof *at * (size_t)n->type.rank);
  return v;
}

// ---- dimensions of scores ----------------------------------------------------------------------

// Spans of the rows' axes: the rows themselves, or the digits of their linear index.
static void index_rows(SpanText *t, const Maps *m, SpanIndex *at) {
  int count = 0;
  int64_t below = 1;
  for (int i = 0; i < m->naxes; i++) count += m->axis[i].role == AxisM;
  for (int i = m->naxes - 1; i >= 0; i--) {
    if (m->axis[i].role != AxisM) continue;
    const char *name = "rows";
    if (count > 1)
      name = defined(t, m->axis[i].name,
                     arena_printf(t->arena, "span_digit(m0, last_m, %lld, %lld)", (long long)below,
                                  (long long)m->axis[i].size),
                     false)
                 .text;
    for (int d = 0; d < m->rank[MapA]; d++)
      if (m->dim[MapA][d].by[i]) at[d] = (SpanIndex){.text = name, .ranged = true};
    below *= m->axis[i].size;
  }
  hole_bool(t->e, "several", count > 1);
}

void emit_masking(Emitter *e, const ProductText *values, const Masking *masking,
                  const Index *element) {
  const Maps *m = values->maps;
  const Node *score = e->g->attention->score;
  SpanText t = {.e = e, .arena = e->c->arena};
  SpanIndex at[MaxRank];
  lua_newtable(e->c->lua);
  for (int d = 0; d < score->type.rank; d++) {
    at[d] = (SpanIndex){.text = element[d].text};
    if (maps_uses(&m->dim[MapA][d], m, AxisK))
      at[d] = (SpanIndex){.text = "keys", .ranged = true, .key = true};
  }
  index_rows(&t, m, at);
  const char *plain = "";
  for (int i = 0; i < masking->count; i++) {
    const Node *c = masking->condition[i].node;
    SpanIndex of[MaxRank];
    for (int d = 0; d < c->type.rank; d++)
      of[d] =
          c->type.dim[d] == 1 ? (SpanIndex){.text = "0"} : at[d + score->type.rank - c->type.rank];
    plain = arena_printf(t.arena, "%s%sspan_%s(%s)", plain, *plain ? " && " : "",
                         masking->condition[i].holds ? "true" : "false", value_of(&t, c, of).text);
  }
  hole_text(e, "score", value_of(&t, score, at).text);
  hole_text(e, "plain", plain);
  hole_text(e, "masked", attend_masked(e->g->attention) ? "" : ", 0.");
  hole_take(e, "outer", &t.outer);
  hole_take(e, "inner", &t.inner);
}
