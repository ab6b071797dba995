// expr.c: fused expressions as CUDA text. expr_value recurses from a node to the values its group
// reads and writes one statement per op, named as in the model; moves: expr_moves.c.
#include "emit.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *expr_ctype(Dtype dtype) {
  static const char *const names[DtCount] = {
      [DtF32] = "float", [DtF16] = "f16",          [DtBf16] = "bf16",     [DtF64] = "double",
      [DtI32] = "int",   [DtU8] = "unsigned char", [DtI64] = "long long", [DtBool] = "bool"};
  return names[dtype];
}

Arena *scope_arena(const Scope *s) {
  return s->group->graph->arena;
}

// ---- names ------------------------------------------------------------------------------------

// The last component of the model's name; downsample.1 keeps the word before its number.
static const char *leaf(const Node *n) {
  const char *dot = n->name ? strrchr(n->name, '.') : NULL;
  if (!dot) return n->name && *n->name ? n->name : n->op->name;
  if (!isdigit((unsigned char)dot[1])) return dot + 1;
  while (dot > n->name && dot[-1] != '.') dot--;
  return dot;
}

const char *expr_name(const Group *g, const char *wanted) {
  return names_take(g->names, wanted);
}

static const Node *nth_arg(const Group *g, int i, int *count) { // *count: number of arguments
  int nreads, nwrites;
  Node *const *reads = group_reads(g, &nreads), *const *writes = group_writes(g, &nwrites);
  *count = nreads + nwrites;
  return i < nreads ? reads[i] : i < *count ? writes[i - nreads] : NULL;
}

void expr_name_args(Group *g) {
  int count;
  nth_arg(g, 0, &count);
  g->args = arena_alloc(g->graph->arena, sizeof *g->args * (size_t)count);
  g->asked = arena_alloc(g->graph->arena, sizeof *g->asked * (size_t)count);
  for (int i = 0; i < count; i++)
    g->args[i] = expr_name(g, arena_printf(g->graph->arena, "g_%s", leaf(nth_arg(g, i, &count))));
}

const char *expr_pointer(const Group *g, const Node *n) {
  if (g->inside) g = g->inside;
  int count = 1;
  for (int i = 0; i < count; i++)
    if (nth_arg(g, i, &count) == n) {
      g->asked[i] = true;
      return g->args[i];
    }
  die("%%%d is no argument of kernel %s", n->id, g->name);
}

bool expr_takes_pointer(const Group *g, int i) {
  int count;
  const Node *n = nth_arg(g, i, &count);
  for (int b = 0; b < g->nboxes; b++)
    if (g->boxes[b].of == n) return g->asked[i];
  return true;
}

// A local name for n's value: conv1, or conv1_add for an op within a layer.
const char *expr_local(const Group *g, const Node *n) {
  const char *word = leaf(n), *op = n->op->cls == OpMap ? n->op->name : "";
  bool plain = !*op || !strcmp(op, word);
  return expr_name(g, plain ? word : arena_printf(g->graph->arena, "%s_%s", word, op));
}

static bool same_index(const Index *a, const Index *b, int rank) {
  for (int d = 0; d < rank; d++)
    if (a[d].lane != b[d].lane || strcmp(a[d].text, b[d].text)) return false;
  return true;
}

bool expr_is_flat(const Scope *s, const Type *t, const int64_t *stride, const Index *at) {
  if (!s->flat || !type_same_shape(t, &s->flat_type) || !same_index(at, s->flat_at, t->rank))
    return false;
  int64_t flat[MaxRank];
  type_strides(&s->flat_type, flat);
  return !memcmp(stride, flat, sizeof flat[0] * (size_t)t->rank);
}

// Memory offset of element `at` without the lane; *lane_step: stride of the lane.
static const char *offset_of(Scope *s, const Type *t, const int64_t *stride, const Index *at,
                             int64_t *lane_step) {
  *lane_step = 0;
  const char *offset = "0";
  for (int i = 0; i < t->rank; i++) {
    int d = t->order[i];
    if (at[d].lane) *lane_step += stride[d];
    offset = index_sum(scope_arena(s), offset, index_scaled(scope_arena(s), at[d].text, stride[d]));
  }
  return expr_is_flat(s, t, stride, at) ? s->flat : offset;
}

// Is the text a name, or a name plus or minus a multiple of `lanes`?
static bool begins_vector(const char *text, int lanes) {
  const char *blank = strchr(text, ' ');
  if (!blank) return true;
  bool shifted = blank[1] && strchr("+-", blank[1]) && blank[2] == ' ';
  char *end = NULL;
  long by = shifted ? strtol(blank + 3, &end, 10) : 0;
  return shifted && end > blank + 3 && !*end && by % lanes == 0;
}

// Is the index `part` plus multiples of `lanes` (so that a vector access is aligned)?
static bool begins_part(const char *text, const char *part, int lanes) {
  int parts = 0;
  for (const char *term = text; *term;) {
    const char *end = term;
    for (int depth = 0; *end; end++) {
      depth += (*end == '(') - (*end == ')');
      if (!depth && *end == ' ' && strchr("+-", end[1]) && end[2] == ' ') break;
    }
    int length = (int)(end - term), last = length;
    while (last > 0 && isdigit((unsigned char)term[last - 1])) last--;
    bool number = last < length && (last == 0 || (last > 3 && !memcmp(term + last - 3, " * ", 3)));
    bool own = (int)strlen(part) == length && !memcmp(term, part, (size_t)length);
    if (!own && !(number && strtoll(term + last, NULL, 10) % lanes == 0)) return false;
    if (own && term > text && term[-2] == '-') return false;
    parts += own;
    term = *end ? end + 3 : end;
  }
  return parts == 1;
}

static bool begins_lanes(const Scope *s, const char *text) {
  return s->part ? begins_part(text, s->part, s->lanes) : begins_vector(text, s->lanes);
}

// May `lanes` adjacent elements be one access? All other strides must be multiples of `lanes`, and
// so must the lane dimension's index (guaranteed by the template for a plain name).
static bool aligned(const Scope *s, const Type *t, const int64_t *stride, int64_t first,
                    const Index *at) {
  bool flat = expr_is_flat(s, t, stride, at); // begins a vector
  if (first % s->lanes) return false;
  if ((size_t)s->lanes * dtype_size(t->dtype) > 32) return false;
  for (int d = 0; d < t->rank; d++) {
    bool begins = flat || begins_lanes(s, at[d].text);
    if (at[d].lane && (!begins || t->dim[d] % s->lanes)) return false;
    if (!at[d].lane && stride[d] % s->lanes && !index_is_zero(at[d].text)) return false;
  }
  return true;
}

// ---- values -----------------------------------------------------------------------------------

static void bind(Scope *s, const Node *n, const Index *at, const char *text, const char *pred) {
  if (s->nbound == s->capacity) {
    s->capacity = s->capacity ? s->capacity * 2 : 16;
    s->bound = realloc(s->bound, sizeof *s->bound * (size_t)s->capacity);
    if (!s->bound) die("out of memory");
  }
  struct Bound *b = &s->bound[s->nbound++];
  b->node = n;
  b->text = text;
  b->pred = pred;
  b->made = NULL;
  memcpy(b->at, at, sizeof *at * (size_t)n->type.rank);
}

void expr_bind(Scope *s, const Node *n, const Index *at, const char *text) {
  bind(s, n, at, text, NULL);
}

void expr_bind_as(Scope *s, const struct Bound *b) {
  bind(s, b->node, b->at, b->text, b->pred);
  s->bound[s->nbound - 1].made = b->made;
}

// Indices defined inside the lane loop: loads that use them are placed there.
void scope_note_inner(Scope *s, const char *name) {
  s->inner = arena_grow(scope_arena(s), s->inner, s->ninner, sizeof *s->inner);
  s->inner[s->ninner++] = name;
}

bool scope_is_inner(const Scope *s, const char *offset) {
  bool inner = expr_mentions(offset, "j");
  for (int i = 0; i < s->ninner && !inner; i++) inner = expr_mentions(offset, s->inner[i]);
  return inner;
}

void scope_free(Scope *s) {
  buffer_free(&s->loads);
  buffer_free(&s->body);
  free(s->bound);
}

// May a value loaded under `pred` (or NULL) be reused under the scope's predicate? Yes if that is
// the same, or the same and more (textual prefix).
static bool is_read(const Scope *s, const char *pred) {
  size_t length = pred ? strlen(pred) : 0;
  if (!pred) return true;
  if (!s->pred || strncmp(s->pred, pred, length)) return false;
  return !s->pred[length] || !strncmp(s->pred + length, " && ", 4);
}

const char *scope_find(const Scope *s, const Node *n, const Index *at) {
  for (int i = s->nbound - 1; i >= 0; i--) {
    const struct Bound *b = &s->bound[i];
    if (b->node == n && same_index(b->at, at, n->type.rank) && is_read(s, b->pred)) return b->text;
  }
  return NULL;
}

bool scope_zero_elsewhere(const Scope *s, const char *value) {
  bool found = false;
  for (int i = 0; i < s->nbound && !found; i++) {
    const struct Bound *b = &s->bound[i];
    bool alike = b->pred && s->pred && !strcmp(b->pred, s->pred);
    found = alike && b->node->group != s->group && !strcmp(b->text, value);
  }
  return found;
}

static const char *float_literal(Arena *a, double v) {
  if (isnan(v)) return "nn_nan()";
  if (isinf((float)v) || (float)v == 0) v = (float)v; // inf, or 0 after rounding to float
  if (isinf(v)) return v > 0 ? "nn_inf()" : "(-nn_inf())";
  char text[40];
  snprintf(text, sizeof text, "%.9g", v);
  return arena_printf(
      a, strpbrk(text, ".e") ? (v < 0 ? "(%sf)" : "%sf") : (v < 0 ? "(%s.f)" : "%s.f"), text);
}

// v as a literal of this dtype.
const char *expr_literal(Arena *a, double v, Dtype dtype) {
  if (dtype_is_float(dtype)) return float_literal(a, v);
  if (dtype == DtBool) return v != 0 ? "true" : "false";
  int64_t whole = isnan(v) ? 0 : (int64_t)fmin(fmax(v, INT32_MIN), INT32_MAX);
  if (whole == INT32_MIN) return "(-2147483647 - 1)"; // has no literal
  return arena_printf(a, whole < 0 ? "(%lld)" : "%lld", (long long)whole);
}

static bool is_float(const Node *n) {
  return dtype_is_float(n->type.dtype);
}

const char *expr_compute_type(const Node *n) {
  return expr_ctype(type_compute(n->type.dtype));
}

const char *expr_cast(const Node *n) {
  return is_float(n) ? "nn_cast" : "nn_stored";
}

// The function that converts a stored value of n to its compute type.
static const char *loaded(const Node *n) {
  return is_float(n) ? "nn_float" : "nn_value";
}

// A pointer to n's first element.
static const char *place_of(const Scope *s, const Node *n, int64_t first) {
  const char *pointer = expr_pointer(s->group, n);
  return first ? arena_printf(scope_arena(s), "(%s + %lld)", pointer, (long long)first) : pointer;
}

// Guards a load: `value` under the scope's predicate, else `nothing` (0).
static const char *guarded(const Scope *s, const char *value, const char *nothing) {
  return s->pred ? arena_printf(scope_arena(s), "%s ? %s : %s", s->pred, value, nothing) : value;
}

// Loads element `at` of n. In order of preference: a vector before the lane loop, a scalar before
// it (the same for all lanes), a scalar in the loop.
static const char *load(Scope *s, const Node *n, const Index *at) {
  int64_t step, first, stride[MaxRank];
  view_memory(n, stride, &first);
  const char *offset = offset_of(s, &n->type, stride, at, &step);
  const char *pointer = place_of(s, n, first);
  const char *name = expr_local(s->group, n), *type = expr_compute_type(n), *value = loaded(n);
  Arena *arena = scope_arena(s);
  const char *near = s->brought && !s->pred ? s->brought(s, n, pointer, offset) : NULL;
  if (near) {
    buffer_put(&s->body, "%sconst %s %s = %s;\n", s->indent, type, name, near);
    return name;
  }
  const char *lane = step == 0 || s->lanes == 1 ? "0"
                     : step == 1                ? "j"
                                                : arena_printf(arena, "j * %lld", (long long)step);
  const char *zero = expr_literal(arena, 0, n->type.dtype);
  bool before = !scope_is_inner(s, offset) && (!s->pred || !scope_is_inner(s, s->pred));
  if (step == 0 && before) {
    const char *element = arena_printf(arena, "%s(%s[%s])", value, pointer, offset);
    buffer_put(&s->loads, "  const %s %s = %s;\n", type, name, guarded(s, element, zero));
  } else if (step == 1 && s->lanes > 1 && before && aligned(s, &n->type, stride, first, at)) {
    const char *vector = arena_printf(arena, "Vec<%s, %d>", type, s->lanes);
    const char *elements =
        arena_printf(arena, "%s(nn_load<%d>(%s + %s))", value, s->lanes, pointer, offset);
    buffer_put(&s->loads, "  const %s %s = %s;\n", vector, name,
               guarded(s, elements, arena_printf(arena, "%s{}", vector)));
    return arena_printf(arena, "%s[j]", name);
  } else {
    const char *element =
        arena_printf(arena, "%s(%s[%s])", value, pointer, index_sum(arena, offset, lane));
    buffer_put(&s->body, "%sconst %s %s = %s;\n", s->indent, type, name,
               guarded(s, element, zero));
  }
  return name;
}

const char *expr_substitute(Arena *arena, const char *cuda, const char *const *args) {
  Buffer b = {0};
  for (; *cuda; cuda++) {
    if (*cuda != '$') {
      buffer_put(&b, "%c", *cuda);
      continue;
    }
    const char *arg = args[*++cuda - '1'];
    buffer_put(&b, "%s", arg);
  }
  return buffer_take(&b, arena);
}

// Input i of map n, in the dtype in which n computes.
static const char *operand(Scope *s, const Node *n, int i, const Index *at) {
  const Node *from = n->in[i];
  Dtype wanted = type_compute(type_operand(n, i));
  if (from->op->cls == OpSource && from->op->form == SourceConst) {
    double value = from->attr.value;
    if (from->attr.tensor && wanted == DtU8) // eval.c: cut_to_bytes
      value -= 256 * floor(value / 256);
    return expr_literal(scope_arena(s), value, wanted);
  }
  Index in[MaxRank];
  expr_broadcast(&n->type, &from->type, at, in);
  const char *text = expr_value(s, from, in);
  if (type_compute(from->type.dtype) == wanted) return text;
  return arena_printf(scope_arena(s), "nn_to<%s>(%s)", expr_ctype(wanted), text);
}

// `value` converted to n's dtype.
static const char *converted(Scope *s, const Node *n, const char *value) {
  Dtype dtype = (Dtype)n->attr.dtype, from = type_compute(n->in[0]->type.dtype);
  bool rounds = (dtype == DtF16 || dtype == DtBf16) && from != DtU8 && from != DtBool;
  if (from != type_compute(dtype))
    value = arena_printf(scope_arena(s), "nn_to<%s>(%s)", expr_ctype(type_compute(dtype)), value);
  if (!rounds) return value; // 16-bit floats hold every byte
  return arena_printf(scope_arena(s), "nn_float(nn_cast<%s>(%s))", expr_ctype(dtype), value);
}

// *made: the expression, if it got a name.
static const char *map_value(Scope *s, const Node *n, const Index *at, const char **made) {
  const char *args[MaxInputs];
  // equal branches
  if (n->op->typing == TypeWhere && n->in[1] == n->in[2]) return operand(s, n, 1, at);
  args[0] = operand(s, n, 0, at);
  if (n->op->typing == TypeWhere && !strcmp(args[0], "true")) return operand(s, n, 1, at);
  if (n->op->typing == TypeWhere && !strcmp(args[0], "false")) return operand(s, n, 2, at);
  for (int i = 1; i < n->nin; i++) args[i] = operand(s, n, i, at);
  if (n->op->flags & FlagCopy) return args[0];
  if (n->op->typing == TypeConvert) args[0] = converted(s, n, args[0]);
  bool wraps = n->op->wraps && span_wraps(s->group, n);
  bool narrow = n->op->narrow && (n->type.dtype == DtF16 || n->type.dtype == DtBf16);
  const char *cuda = wraps ? n->op->wraps : narrow ? n->op->narrow : n->op->cuda;
  const char *type = expr_compute_type(n);
  *made = expr_substitute(scope_arena(s), cuda, args);
  for (int i = 0; i < s->nbound; i++) { // computed by an identical node
    const struct Bound *b = &s->bound[i];
    bool here = b->made && (!b->pred || b->pred == s->pred) && !strcmp(b->made, *made);
    if (here && !strcmp(expr_compute_type(b->node), type)) return b->text;
  }
  const char *name = expr_local(s->group, n);
  buffer_put(s->first ? &s->loads : &s->body, "%sconst %s %s = %s;\n", s->first ? "  " : s->indent,
             type, name, *made);
  return name;
}

const char *expr_value(Scope *s, const Node *n, const Index *at) {
  if (n->op->cls == OpSource && n->op->form == SourceConst)
    return expr_literal(scope_arena(s), n->attr.value, n->type.dtype);
  if (n->op->cls == OpSource && n->op->form == SourceIndex)
    return index_atom(scope_arena(s), index_whole(scope_arena(s), at[n->attr.axis]));
  const char *text = scope_find(s, n, at), *made = NULL;
  if (text) return text;
  if (n->group != s->group)
    text = load(s, n, at);
  else if (n->op->cls == OpMap)
    text = map_value(s, n, at, &made);
  else if (n->op->cls == OpMove)
    text = expr_moved(s, n, at);
  else if (s->reduced)
    return s->reduced(s, n, at);
  else
    die("%%%d %s is not available in kernel %s", n->id, n->op->name, s->group->name);
  bind(s, n, at, text, s->pred);
  s->bound[s->nbound - 1].made = made;
  return text;
}

// ---- stores -----------------------------------------------------------------------------------

const char *expr_as_tf32(Arena *a, const char *value) {
  return arena_printf(a, "nn_from_bits(nn_tf32(%s))", value);
}

// Follows the moves from `from` to n in a row kernel; updates index `at`.
static void follow_from(Scope *s, const Node *from, const Node *n, Index *at) {
  Index to[MaxRank];
  if (n == from) return;
  follow_from(s, from, n->in[0], at);
  if (!view_reorders(n)) return; // a copy
  expr_follow(n, s->lanes, at, to);
  index_name(s->group, &s->loads, "  ", n->type.rank, to);
  memcpy(at, to, sizeof *at * (size_t)n->type.rank);
}

// The node whose layout the group stores as n, its strides and first element; `at` becomes its
// index.
static const Node *stored_as(Scope *s, const Node *n, int64_t *stride, int64_t *first, Index *at) {
  const Node *stored = group_stored(s->group, n), *led = group_led(s->group, n);
  view_memory(n, stride, first);
  if (led) follow_from(s, led, n, at);
  if (led) return n;
  if (stored != n) type_strides(&stored->type, stride);
  return stored;
}

const char *expr_element(Scope *s, const Node *n, const Index *from) {
  int64_t step, first, stride[MaxRank];
  Index at[MaxRank];
  memcpy(at, from, sizeof at);
  const Node *stored = stored_as(s, n, stride, &first, at);
  const char *offset = offset_of(s, &stored->type, stride, at, &step);
  return arena_printf(scope_arena(s), "%s[%s]", place_of(s, n, first), offset);
}

void expr_store(Scope *s, Buffer *stores, const Node *n, const Index *from, const char *value) {
  int64_t step, first, stride[MaxRank];
  Index at[MaxRank];
  if (n->tf32) value = expr_as_tf32(scope_arena(s), value);
  memcpy(at, from, sizeof at);
  const Node *stored = stored_as(s, n, stride, &first, at);
  const char *offset = offset_of(s, &stored->type, stride, at, &step);
  const char *type = expr_ctype(n->type.dtype);
  const char *pointer = place_of(s, n, first), *cast = expr_cast(n);
  if (step == 1 && s->lanes > 1 && aligned(s, &stored->type, stride, first, at)) {
    const char *word = expr_pointer(s->group, n) + strlen("g_");
    const char *name = expr_name(s->group, arena_printf(scope_arena(s), "%s_out", word));
    buffer_put(&s->loads, "  Vec<%s, %d> %s;\n", expr_compute_type(n), s->lanes, name);
    buffer_put(&s->body, "%s%s[j] = %s;\n", s->indent, name, value);
    buffer_put(stores, "  nn_store<%d>(%s + %s, %s<%s>(%s));\n", s->lanes, pointer, offset, cast,
               type, name);
    return;
  }
  const char *lane = s->lanes == 1 || step == 0 ? "0"
                     : step == 1                ? "j"
                                 : arena_printf(scope_arena(s), "j * %lld", (long long)step);
  buffer_put(&s->body, "%s%s[%s] = %s<%s>(%s);\n", s->indent, pointer,
             index_sum(scope_arena(s), offset, lane), cast, type, value);
}
