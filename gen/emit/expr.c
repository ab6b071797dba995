// expr.c: fused expressions as CUDA text. expr_value walks from a node back to the values its group
// reads, and writes one statement per op, named as the model names it. Moves (reshape, permute,
// slice, concat, pad) become index arithmetic: nothing is ever copied for them.
#include "emit.h"

#include <ctype.h>
#include <stdarg.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *expr_ctype(Dtype dtype) {
  static const char *const names[DtCount] = {
      [DtF32] = "float", [DtF16] = "f16",          [DtBf16] = "bf16",     [DtF64] = "double",
      [DtI32] = "int",   [DtU8] = "unsigned char", [DtI64] = "long long", [DtBool] = "bool"};
  return names[dtype];
}

static Arena *arena_of(const Scope *s) {
  return s->group->graph->arena;
}

// ---- names ------------------------------------------------------------------------------------

// The last part of the model's name; downsample.1 keeps the word before its number.
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

static const Node *nth_arg(const Group *g, int i, int *count) { // of so many
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

// A local for what n makes: conv1, or conv1_add of an op within a layer.
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

// Does the flat offset of the scope stand for element `at` of a value laid out as t?
static bool is_flat(const Scope *s, const Type *t, const Index *at) {
  if (!s->flat || !type_same_shape(t, &s->flat_type) || !same_index(at, s->flat_at, t->rank))
    return false;
  int64_t a[MaxRank], b[MaxRank];
  type_strides(t, a);
  type_strides(&s->flat_type, b);
  return !memcmp(a, b, sizeof a[0] * (size_t)t->rank);
}

const char *expr_offset(Scope *s, const Type *t, const Index *at, int64_t *lane_step) {
  int64_t stride[MaxRank];
  type_strides(t, stride);
  *lane_step = 0;
  const char *offset = "0";
  for (int i = 0; i < t->rank; i++) {
    int d = t->order[i];
    if (at[d].lane) *lane_step += stride[d];
    offset = index_sum(arena_of(s), offset, index_scaled(arena_of(s), at[d].text, stride[d]));
  }
  return is_flat(s, t, at) ? s->flat : offset;
}

// Is the text a name, or a name and a multiple of `lanes`?
static bool begins_vector(const char *text, int lanes) {
  const char *blank = strchr(text, ' ');
  if (!blank) return true;
  bool shifted = blank[1] && strchr("+-", blank[1]) && blank[2] == ' ';
  char *end = NULL;
  long by = shifted ? strtol(blank + 3, &end, 10) : 0;
  return shifted && end > blank + 3 && !*end && by % lanes == 0;
}

// Is the text a sum of the index of a part, once, and of multiples of `lanes`?
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

// May `lanes` neighbours be one access? Their run must begin at a multiple of `lanes`: every other
// stride is one, and the lane dimension's indices are (the template's promise for a bare index).
static bool aligned(const Scope *s, const Type *t, int64_t first, const Index *at) {
  int64_t stride[MaxRank];
  type_strides(t, stride);
  if (first % s->lanes) return false;
  if ((size_t)s->lanes * dtype_size(t->dtype) > 32) return false;
  for (int d = 0; d < t->rank; d++) {
    if (at[d].lane && (!begins_lanes(s, at[d].text) || t->dim[d] % s->lanes)) return false;
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
  memcpy(b->at, at, sizeof *at * (size_t)n->type.rank);
}

void expr_bind(Scope *s, const Node *n, const Index *at, const char *text) {
  bind(s, n, at, text, NULL);
}

// Indices that are computed inside the lane loop: what is read at them is read there.
static void note_inner(Scope *s, const char *name) {
  s->inner = arena_grow(arena_of(s), s->inner, s->ninner, sizeof *s->inner);
  s->inner[s->ninner++] = name;
}

static bool is_inner(const Scope *s, const char *offset) {
  bool inner = expr_mentions(offset, "j");
  for (int i = 0; i < s->ninner && !inner; i++) inner = expr_mentions(offset, s->inner[i]);
  return inner;
}

void scope_free(Scope *s) {
  buffer_free(&s->loads);
  buffer_free(&s->body);
  free(s->bound);
}

// Does what is read where `pred` holds, if it is not null, stand for what the scope reads now? Its
// own condition is the same, or the same and more.
static bool is_read(const Scope *s, const char *pred) {
  size_t length = pred ? strlen(pred) : 0;
  if (!pred) return true;
  if (!s->pred || strncmp(s->pred, pred, length)) return false;
  return !s->pred[length] || !strncmp(s->pred + length, " && ", 4);
}

static const char *find_bound(const Scope *s, const Node *n, const Index *at) {
  for (int i = s->nbound - 1; i >= 0; i--) {
    const struct Bound *b = &s->bound[i];
    if (b->node == n && same_index(b->at, at, n->type.rank) && is_read(s, b->pred)) return b->text;
  }
  return NULL;
}

static const char *float_literal(Arena *a, double v) {
  if (isnan(v)) return "nn_nan()";
  if (isinf((float)v) || (float)v == 0) v = (float)v; // of no float's size: no literal as written
  if (isinf(v)) return v > 0 ? "nn_inf()" : "(-nn_inf())";
  char text[40];
  snprintf(text, sizeof text, "%.9g", v);
  return arena_printf(
      a, strpbrk(text, ".e") ? (v < 0 ? "(%sf)" : "%sf") : (v < 0 ? "(%s.f)" : "%s.f"), text);
}

// The number v as a value of this dtype.
const char *expr_literal(Arena *a, double v, Dtype dtype) {
  if (dtype_is_float(dtype)) return float_literal(a, v);
  if (dtype == DtBool) return v != 0 ? "true" : "false";
  int64_t whole = isnan(v) ? 0 : (int64_t)fmin(fmax(v, INT32_MIN), INT32_MAX);
  if (whole == INT32_MIN) return "(-2147483647 - 1)"; // which has no literal
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

// What turns a stored value of n's dtype into one to compute with.
static const char *loaded(const Node *n) {
  return is_float(n) ? "nn_float" : "nn_value";
}

// Where n's first element is, as a pointer that can be indexed.
static const char *place_of(const Scope *s, const Node *n, int64_t first) {
  const char *pointer = expr_pointer(s->group, n);
  return first ? arena_printf(arena_of(s), "(%s + %lld)", pointer, (long long)first) : pointer;
}

// Reads element `at` of n from memory. The three ways, best first: a vector before the lane loop, a
// scalar before it (the same for all lanes), a scalar in the loop.
static const char *load(Scope *s, const Node *n, const Index *at) {
  int64_t step, first;
  const Type *memory = view_memory(n, &first);
  const char *offset = expr_offset(s, memory, at, &step), *pointer = place_of(s, n, first);
  const char *name = expr_local(s->group, n), *type = expr_compute_type(n), *value = loaded(n);
  Arena *arena = arena_of(s);
  const char *near = s->brought && !s->pred ? s->brought(s, n, pointer, offset) : NULL;
  if (near) {
    buffer_put(&s->body, "%sconst %s %s = %s;\n", s->indent, type, name, near);
    return name;
  }
  const char *lane = step == 0 || s->lanes == 1 ? "0"
                     : step == 1                ? "j"
                                                : arena_printf(arena, "j * %lld", (long long)step);
  if (s->pred) {
    buffer_put(&s->body, "%sconst %s %s = %s ? %s(%s[%s]) : %s;\n", s->indent, type, name, s->pred,
               value, pointer, index_sum(arena, offset, lane),
               expr_literal(arena, 0, n->type.dtype));
  } else if (step == 0 && !is_inner(s, offset)) {
    buffer_put(&s->loads, "  const %s %s = %s(%s[%s]);\n", type, name, value, pointer, offset);
  } else if (step == 1 && s->lanes > 1 && aligned(s, memory, first, at) && !is_inner(s, offset)) {
    buffer_put(&s->loads, "  const Vec<%s, %d> %s = %s(nn_load<%d>(%s + %s));\n", type, s->lanes,
               name, value, s->lanes, pointer, offset);
    return arena_printf(arena, "%s[j]", name);
  } else {
    buffer_put(&s->body, "%sconst %s %s = %s(%s[%s]);\n", s->indent, type, name, value, pointer,
               index_sum(arena, offset, lane));
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

// Input i of map n, in the type that n computes it in.
static const char *operand(Scope *s, const Node *n, int i, const Index *at) {
  const Node *from = n->in[i];
  Dtype wanted = type_compute(type_operand(n, i));
  if (from->op->cls == OpSource && from->op->form == SourceConst)
    return expr_literal(arena_of(s), from->attr.value, wanted);
  Index in[MaxRank];
  expr_broadcast(&n->type, &from->type, at, in);
  const char *text = expr_value(s, from, in);
  if (type_compute(from->type.dtype) == wanted) return text;
  return arena_printf(arena_of(s), "nn_to<%s>(%s)", expr_ctype(wanted), text);
}

// What a conversion to n's dtype makes of a value.
static const char *converted(Scope *s, const Node *n, const char *value) {
  Dtype dtype = (Dtype)n->attr.dtype;
  bool rounds = dtype == DtF16 || dtype == DtBf16;
  if (rounds && is_float(n->in[0]))
    return arena_printf(arena_of(s), "nn_float(nn_cast<%s>(%s))", expr_ctype(dtype), value);
  if (type_compute(n->in[0]->type.dtype) == type_compute(dtype)) return value;
  return arena_printf(arena_of(s), "nn_to<%s>(%s)", expr_ctype(type_compute(dtype)), value);
}

static const char *map_value(Scope *s, const Node *n, const Index *at) {
  const char *args[MaxInputs];
  args[0] = operand(s, n, 0, at);
  if (n->op->typing == TypeWhere && !strcmp(args[0], "true")) return operand(s, n, 1, at);
  if (n->op->typing == TypeWhere && !strcmp(args[0], "false")) return operand(s, n, 2, at);
  for (int i = 1; i < n->nin; i++) args[i] = operand(s, n, i, at);
  if (n->op->flags & FlagCopy) return args[0];
  if (n->op->typing == TypeConvert) args[0] = converted(s, n, args[0]);
  const char *name = expr_local(s->group, n);
  bool wraps = n->op->wraps && span_wraps(s->group, n);
  bool narrow = n->op->narrow && (n->type.dtype == DtF16 || n->type.dtype == DtBf16);
  const char *cuda = wraps ? n->op->wraps : narrow ? n->op->narrow : n->op->cuda;
  buffer_put(s->first ? &s->loads : &s->body, "%sconst %s %s = %s;\n", s->first ? "  " : s->indent,
             expr_compute_type(n), name, expr_substitute(arena_of(s), cuda, args));
  return name;
}

// ---- moves ------------------------------------------------------------------------------------

static const char *both(Arena *a, const char *x, const char *y) {
  return x ? arena_printf(a, "%s && %s", x, y) : y;
}

// Elements outside the source are 0 and are not read.
static const char *pad_value(Scope *s, const Node *n, const Index *at) {
  const Type *from = &n->in[0]->type;
  Index in[MaxRank];
  const char *inside = NULL, *outer = s->pred;
  for (int d = 0; d < from->rank; d++) {
    in[d] = index_shifted(arena_of(s), at[d], -n->attr.dims[d]);
    if (n->attr.dims[d] || n->attr.ends[d])
      inside = both(arena_of(s), inside,
                    arena_printf(arena_of(s), "unsigned(%s) < %lldu",
                                 index_whole(arena_of(s), in[d]), (long long)from->dim[d]));
  }
  if (inside) s->pred = both(arena_of(s), outer, inside);
  const char *value = expr_value(s, n->in[0], in);
  s->pred = outer;
  const char *zero = expr_literal(arena_of(s), 0, n->type.dtype);
  return inside ? arena_printf(arena_of(s), "(%s ? %s : %s)", inside, value, zero) : value;
}

// Are all indices of the part, moved as `at` says, among the `size` first ones?
static bool part_within(const Scope *s, Index at, int64_t size) {
  size_t length = s->part ? strlen(s->part) : 0;
  if (!s->part || strncmp(at.text, s->part, length)) return false;
  const char *rest = at.text + length;
  char *end = (char *)rest;
  bool shifted = *rest == ' ' && strchr("+-", rest[1]) && rest[2] == ' ';
  int64_t by = shifted ? strtoll(rest + 3, &end, 10) * (rest[1] == '-' ? -1 : 1) : 0;
  return !*end && s->part_begin + by >= 0 && s->part_end + by <= size;
}

// The one input of a concat that holds all of the part; null: none does.
static const char *part_value(Scope *s, const Node *n, const Index *at) {
  int64_t axis = n->attr.axis, begin = 0;
  for (int i = 0; i < n->nin; i++) {
    Index in[MaxRank];
    memcpy(in, at, sizeof *at * (size_t)n->type.rank);
    in[axis] = index_shifted(arena_of(s), at[axis], -begin);
    if (part_within(s, in[axis], n->in[i]->type.dim[axis]))
      return expr_value(s, n->in[i], in);
    begin += n->in[i]->type.dim[axis];
  }
  return NULL;
}

static const char *concat_value(Scope *s, const Node *n, const Index *at) {
  int64_t axis = n->attr.axis, begin = 0;
  const char *whole = part_value(s, n, at);
  if (whole) return whole;
  const char *outer = s->pred, *name = expr_local(s->group, n), *chain = "";
  for (int i = 0; i < n->nin; i++) {
    const Type *from = &n->in[i]->type;
    Index in[MaxRank];
    memcpy(in, at, sizeof *at * (size_t)from->rank);
    in[axis] = index_shifted(arena_of(s), at[axis], -begin);
    const char *mine = arena_printf(arena_of(s), "unsigned(%s) < %lldu",
                                    index_whole(arena_of(s), in[axis]), (long long)from->dim[axis]);
    s->pred = both(arena_of(s), outer, mine);
    const char *value = expr_value(s, n->in[i], in);
    chain = i + 1 < n->nin ? arena_printf(arena_of(s), "%s%s ? %s : ", chain, mine, value)
                           : arena_printf(arena_of(s), "%s%s", chain, value);
    begin += from->dim[axis];
  }
  s->pred = outer;
  buffer_put(&s->body, "%sconst %s %s = %s;\n", s->indent, expr_compute_type(n), name, chain);
  return name;
}

// Where the input of a reshape, permutation or slice has the element `at`.
static void moved_from(const Scope *s, const Node *n, const Index *at, Index *in) {
  if (n->op->form == MoveReshape)
    index_reshape(arena_of(s), &n->type, &n->in[0]->type, s->part ? s->lanes : 1, at, in);
  for (int d = 0; d < n->type.rank && n->op->form == MovePermute; d++) in[n->attr.dims[d]] = at[d];
  for (int d = 0; d < n->type.rank && n->op->form == MoveSlice; d++)
    in[d] = index_shifted(arena_of(s), at[d], n->attr.dims[d]);
}

// Is n at this index the same for all lanes, made by maps and moves of what is at hand before their
// loop? No more than *left nodes are asked.
static bool comes_first(const Scope *s, const Node *n, const Index *at, int *left) {
  for (int d = 0; d < n->type.rank; d++)
    if (at[d].lane || is_inner(s, at[d].text)) return false;
  const char *bound = find_bound(s, n, at);
  if (bound) return expr_mentions(s->loads.text ? s->loads.text : "", bound);
  if (n->op->cls == OpSource || n->group != s->group) return true;
  bool moves = n->op->cls == OpMove && n->op->form <= MoveSlice;
  bool first = (n->op->cls == OpMap || moves) && (*left)-- > 0;
  for (int i = 0; first && i < n->nin; i++) {
    Index in[MaxRank];
    if (moves)
      moved_from(s, n, at, in);
    else
      expr_broadcast(&n->type, &n->in[i]->type, at, in);
    first = comes_first(s, n->in[i], in, left);
  }
  return first;
}

// Where a gather reads: before the lane loop, if it can be, so that lanes are read as a vector.
static const char *id_value(Scope *s, const Node *ids, const Index *at) {
  int left = 32;
  bool outer = s->first;
  s->first = outer || (s->lanes > 1 && !s->pred && !s->brought && comes_first(s, ids, at, &left));
  const char *id = expr_value(s, ids, at);
  s->first = outer;
  return id;
}

// The element of a gather: where it is along the axis is a value of its own. Where nothing is read,
// at the rim of a tile or beside what is padded, a computed id may be none.
static const char *gathered_value(Scope *s, const Node *n, const Index *at) {
  const Node *x = n->in[0], *ids = n->in[1];
  int axis = (int)n->attr.axis, more = n->op->form == MoveGather ? ids->type.rank : 1;
  Index in[MaxRank], id_at[MaxRank];
  for (int d = 0; d < ids->type.rank; d++)
    id_at[d] =
        ids->type.dim[d] == 1 ? (Index){"0", false} : at[n->op->form == MoveGather ? axis + d : d];
  const char *id = id_value(s, ids, id_at), *name = expr_name(s->group, "id");
  bool inside = !s->pred && s->lanes > 1 && expr_mentions(id, "j");
  bool hoisted = !s->pred && !inside && expr_mentions(s->loads.text ? s->loads.text : "", id);
  const char *guard = s->pred ? arena_printf(arena_of(s), "%s ? ", s->pred) : "";
  buffer_put(hoisted ? &s->loads : &s->body, "%sconst int %s = %snn_index(%s, %lld)%s;\n",
             hoisted ? "  " : s->indent, name, guard, id, (long long)x->type.dim[axis],
             s->pred ? " : 0" : "");
  if (!hoisted) note_inner(s, name);
  for (int d = 0; d < x->type.rank; d++)
    in[d] = d == axis               ? (Index){name, false}
            : x->type.dim[d] == 1   ? (Index){"0", false}
            : d < axis || more == 1 ? at[d]
                                    : at[d + more - 1];
  return expr_value(s, x, in);
}

static const char *move_value(Scope *s, const Node *n, const Index *at) {
  Index in[MaxRank];
  switch (n->op->form) {
  case MovePad:
    return pad_value(s, n, at);
  case MoveConcat:
    return concat_value(s, n, at);
  case MoveGather:
  case MoveAlong:
    return gathered_value(s, n, at);
  default:
    moved_from(s, n, at, in);
    return expr_value(s, n->in[0], in);
  }
}

const char *expr_value(Scope *s, const Node *n, const Index *at) {
  if (n->op->cls == OpSource && n->op->form == SourceConst)
    return expr_literal(arena_of(s), n->attr.value, n->type.dtype);
  if (n->op->cls == OpSource && n->op->form == SourceIndex)
    return index_atom(arena_of(s), index_whole(arena_of(s), at[n->attr.axis]));
  const char *text = find_bound(s, n, at);
  if (text) return text;
  if (n->group != s->group)
    text = load(s, n, at);
  else if (n->op->cls == OpMap)
    text = map_value(s, n, at);
  else if (n->op->cls == OpMove)
    text = move_value(s, n, at);
  else if (s->reduced)
    return s->reduced(s, n, at);
  else
    die("%%%d %s is not at hand in kernel %s", n->id, n->op->name, s->group->name);
  bind(s, n, at, text, s->pred);
  return text;
}

// ---- stores -----------------------------------------------------------------------------------

const char *expr_as_tf32(Arena *a, const char *value) {
  return arena_printf(a, "nn_from_bits(nn_tf32(%s))", value);
}

void expr_store(Scope *s, Buffer *stores, const Node *n, const Index *at, const char *value) {
  int64_t step, first;
  if (n->tf32) value = expr_as_tf32(arena_of(s), value);
  const Node *stored = group_stored(s->group, n);
  const Type *as = view_memory(stored, &first); // it lies as this one
  const char *offset = expr_offset(s, as, at, &step), *type = expr_ctype(n->type.dtype);
  const char *pointer = place_of(s, n, first), *cast = expr_cast(n);
  if (step == 1 && s->lanes > 1 && aligned(s, as, first, at)) {
    const char *word = expr_pointer(s->group, n) + strlen("g_");
    const char *name = expr_name(s->group, arena_printf(arena_of(s), "%s_out", word));
    buffer_put(&s->loads, "  Vec<%s, %d> %s;\n", expr_compute_type(n), s->lanes, name);
    buffer_put(&s->body, "%s%s[j] = %s;\n", s->indent, name, value);
    buffer_put(stores, "  nn_store<%d>(%s + %s, %s<%s>(%s));\n", s->lanes, pointer, offset, cast,
               type, name);
    return;
  }
  const char *lane = s->lanes == 1 || step == 0 ? "0"
                     : step == 1                ? "j"
                                 : arena_printf(arena_of(s), "j * %lld", (long long)step);
  buffer_put(&s->body, "%s%s[%s] = %s<%s>(%s);\n", s->indent, pointer,
             index_sum(arena_of(s), offset, lane), cast, type, value);
}
