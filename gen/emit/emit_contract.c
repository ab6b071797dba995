// emit_contract.c: the holes of a contraction's kernel. Its index maps become text: rows, columns,
// k and the batch are numbers m, n, k, batch, cut into positions on their axes where there are
// several.
#include "emit.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static const char *const letters[AxisRoles] = {
    [AxisBatch] = "batch", [AxisM] = "m", [AxisN] = "n", [AxisK] = "k"};

typedef struct Holes {
  Emitter *e;
  Arena *arena;
  Product p;
  const Maps *maps;              // of the first phase: the axes of all
  const char *axis[kMostAxes];   // the position on an axis, as text
  const char *number[AxisRoles]; // the positions of a role as one number: m, n, k, batch
  Buffer *constants;             // of each phase: what differs between them
} Holes;

enum { kRoleBatch = 1 << AxisBatch, kRoleM = 1 << AxisM, kRoleN = 1 << AxisN, kRoleK = 1 << AxisK };

// ---- numbers
// -------------------------------------------------------------------------------------

static const char *literal(const Holes *h, int64_t value) {
  return arena_printf(h->arena, "%lld", (long long)value);
}

// A number that is value[i] in phase i: itself, or the name of a constant of the phases.
static const char *number(Holes *h, const char *name, const int64_t *value) {
  bool same = true;
  for (int i = 1; i < h->p.phases; i++) same = same && value[i] == value[0];
  if (same) return literal(h, value[0]);
  for (int i = 0; i < h->p.phases; i++)
    if (!expr_mentions(h->constants[i].text, name))
      buffer_put(&h->constants[i], "  static constexpr int %s = %lld;\n", name,
                 (long long)value[i]);
  return arena_printf(h->arena, "Phase::%s", name);
}

static const char *size_text(Holes *h, int axis) {
  int64_t *size = arena_alloc(h->arena, sizeof *size * (size_t)h->p.phases);
  for (int i = 0; i < h->p.phases; i++) size[i] = h->p.maps[i].axis[axis].size;
  const char *name = h->maps->axis[axis].name;
  return number(h, arena_printf(h->arena, "kSize%c%s", toupper(*name), name + 1), size);
}

static const char *begin_text(Holes *h, int tensor, int d) {
  int64_t *begin = arena_alloc(h->arena, sizeof *begin * (size_t)h->p.phases);
  for (int i = 0; i < h->p.phases; i++) begin[i] = h->p.maps[i].dim[tensor][d].begin;
  return number(h, arena_printf(h->arena, "kBegin%c%d", "ABO"[tensor], d), begin);
}

// ---- indices
// -------------------------------------------------------------------------------------

static int count_axes(const Maps *m, AxisRole role) {
  int count = 0;
  for (int i = 0; i < m->naxes; i++) count += m->axis[i].role == role;
  return count;
}

static void name_axes(Holes *h) {
  for (int i = 0; i < h->maps->naxes; i++) {
    const Axis *x = &h->maps->axis[i];
    h->axis[i] = count_axes(h->maps, x->role) == 1 ? h->number[x->role] : x->name;
  }
}

// Positions on the axes of a role that the texts mention, cut from its number.
static void decode_axes(Holes *h, AxisRole role, const char *indent, int count,
                        const char *const *texts, Buffer *b) {
  const Maps *m = h->maps;
  const char *below = "1", *lines = "";
  if (count_axes(m, role) < 2) return;
  int first = 0;
  while (m->axis[first].role != role) first++;
  for (int i = axes_innermost(m, role); i >= first; i--) {
    const char *size = size_text(h, i);
    bool used = false;
    for (int t = 0; t < count; t++)
      used = used || (texts[t] && expr_mentions(texts[t], h->axis[i]));
    if (used) {
      const char *text = h->number[role];
      if (strcmp(below, "1"))
        text = arena_printf(h->arena, strpbrk(below, "*") ? "%s / (%s)" : "%s / %s", text, below);
      if (i > first) text = arena_printf(h->arena, "%s %% %s", text, size);
      lines = arena_printf(h->arena, "%sconst int %s = %s;\n%s", indent, h->axis[i], text, lines);
    }
    bool numbers = isdigit(*below) && isdigit(*size) && !strpbrk(below, "*");
    below = !strcmp(below, "1") ? size
            : numbers           ? literal(h, atoll(below) * atoll(size))
                                : arena_printf(h->arena, "%s * %s", below, size);
  }
  buffer_put(b, "%s", lines);
}

static const char *decoded(Holes *h, unsigned roles, const char *indent, int count,
                           const char *const *texts) {
  Buffer b = {0};
  for (int role = 0; role < AxisRoles; role++)
    if (roles >> role & 1) decode_axes(h, (AxisRole)role, indent, count, texts, &b);
  return b.text ? buffer_take(&b, h->arena) : "";
}

// x + y or x - y, where x may be empty.
static const char *joined(const Holes *h, const char *x, const char *y, bool minus) {
  if (index_is_zero(y)) return x;
  if (index_is_zero(x)) return minus ? arena_printf(h->arena, "-%s", y) : y;
  return arena_printf(h->arena, "%s %c %s", x, minus ? '-' : '+', y);
}

// Where products are along dimension d of a tensor: what the axes of some roles add, and its begin.
static const char *map_text(Holes *h, int tensor, int d, unsigned roles, bool begin) {
  const IndexMap *map = &h->maps->dim[tensor][d];
  const char *text = "0";
  for (int minus = 0; minus < 2; minus++)
    for (int i = 0; i < h->maps->naxes; i++) {
      int64_t by = minus ? -map->by[i] : map->by[i];
      if (by > 0 && roles >> h->maps->axis[i].role & 1)
        text = joined(h, text, index_scaled(h->arena, h->axis[i], by), minus);
    }
  if (!begin) return text;
  const char *first = begin_text(h, tensor, d);
  return *first == '-' ? joined(h, text, first + 1, true) : joined(h, text, first, false);
}

// What positions of some roles add to an element's offset: one multiple of the role's number where
// they are steps of one size.
static const char *offset_text(Holes *h, int tensor, const int64_t *stride, unsigned roles) {
  const Maps *m = h->maps;
  const char *text = "0";
  int64_t step;
  for (int role = 0; role < AxisRoles; role++) {
    if (!(roles >> role & 1)) continue;
    bool linear = true; // in every phase, by the same step, which is that of the innermost axis
    for (int i = 0; i < h->p.phases; i++)
      linear = linear && axes_linear(&h->p.maps[i], tensor, stride, (AxisRole)role, &step);
    if (linear && count_axes(m, (AxisRole)role)) {
      bool minus = step < 0;
      text = joined(h, text, index_scaled(h->arena, h->number[role], minus ? -step : step), minus);
    }
    for (int i = 0; i < m->naxes && !linear; i++) {
      if (m->axis[i].role != (AxisRole)role) continue;
      int64_t by = axis_stride(m, tensor, stride, i);
      bool minus = by < 0;
      text = joined(h, text, index_scaled(h->arena, h->axis[i], minus ? -by : by), minus);
    }
  }
  return text;
}

// The index of an element of a tensor: names, which `b` gives a value, or numbers.
static void put_index(Holes *h, int tensor, unsigned roles, const char *indent, Buffer *b,
                      Index *at) {
  int rank = h->maps->rank[tensor];
  const char *text[MaxRank] = {0};
  for (int d = 0; d < rank; d++) text[d] = map_text(h, tensor, d, roles, true);
  buffer_put(b, "%s", decoded(h, roles, indent, rank, text));
  for (int d = 0; d < rank; d++) {
    at[d] = (Index){h->maps->type[tensor]->dim[d] == 1 ? "0" : text[d], false};
    if (!strpbrk(at[d].text, " :")) continue; // a name, or a number
    at[d].text = arena_printf(h->arena, "at_%s", emit_index_names(rank)[d]);
    buffer_put(b, "%sconst int %s = %s;\n", indent, at[d].text, text[d]);
  }
}

// Where an element of a tensor of these strides is, if that is a sum of multiples of its numbers.
static const char *flat_text(Holes *h, int tensor, const Type *t, unsigned roles) {
  int64_t stride[MaxRank], step;
  type_strides(t, stride);
  for (int role = 0; role < AxisRoles; role++)
    if (roles >> role & 1 && !axes_linear(h->maps, tensor, stride, (AxisRole)role, &step))
      return NULL;
  for (int d = 0; d < h->maps->rank[tensor]; d++)
    if (h->maps->dim[tensor][d].begin || maps_leave(h->maps, tensor, d)) return NULL;
  return h->p.phases > 1 ? NULL : offset_text(h, tensor, stride, roles);
}

// ---- operands
// ------------------------------------------------------------------------------------

static bool leaves(const Holes *h, int tensor, int d) { // in some phase
  bool found = false;
  for (int i = 0; i < h->p.phases; i++) found = found || maps_leave(&h->p.maps[i], tensor, d);
  return found;
}

static unsigned rows_of(int tensor) {
  return kRoleBatch | (tensor == MapA ? kRoleM : kRoleN);
}

// " && unsigned(y) < 56u" for each dimension that some products leave.
static const char *inside_text(Holes *h, int tensor, const char *text) {
  unsigned all = rows_of(tensor) | kRoleK;
  for (int d = 0; d < h->maps->rank[tensor]; d++)
    if (leaves(h, tensor, d))
      text =
          arena_printf(h->arena, "%s%sunsigned(%s) < %lldu", text, *text ? " && " : "",
                       map_text(h, tensor, d, all, true), (long long)h->maps->type[tensor]->dim[d]);
  return text;
}

// One operand's element: statements, then the value.
static void put_computed(Emitter *o, Holes *h, int tensor) {
  const Node *operand = o->g->anchor->in[tensor];
  unsigned all = rows_of(tensor) | kRoleK;
  Buffer decode = {0}, body = {0};
  Index at[MaxRank];
  put_index(h, tensor, all, "    ", &decode, at);
  Scope s = {.group = o->g, .lanes = 1, .indent = "    ", .pred = "inside"};
  s.flat_type = type_make(DtF32, operand->type.rank, operand->type.dim);
  s.flat = flat_text(h, tensor, &s.flat_type, all); // of values that lie as the operand would
  memcpy(s.flat_at, at, sizeof *at * (size_t)operand->type.rank);
  const char *value = expr_value(&s, operand, at);
  const char *limits = arena_printf(h->arena, "%s < %s && k < %skK", tensor == MapA ? "m" : "n",
                                    tensor == MapA ? "kM" : "kN", h->p.phases > 1 ? "Phase::" : "");
  const char *inside = inside_text(h, tensor, limits);
  buffer_put(&body, "%s%s", s.loads.text ? s.loads.text : "", s.body.text ? s.body.text : "");
  Buffer needed = {0}; // put_index has cut all axes that some index needs; `inside` may need more
  const char *more = decoded(h, all, "    ", 1, &inside);
  for (const char *line = more; *line; line = strchr(line, '\n') + 1) {
    const char *text = arena_printf(h->arena, "%.*s", (int)(strchr(line, '\n') + 1 - line), line);
    if (!decode.text || !strstr(decode.text, text)) buffer_put(&needed, "%s", text);
  }
  buffer_put(&needed, "%s", decode.text ? decode.text : "");
  buffer_free(&decode);
  hole_take(o, "decode", &needed);
  hole_take(o, "body", &body);
  hole_text(o, "inside", inside);
  hole_text(o, "value", value);
  scope_free(&s);
}

// The taps of a row that miss the operand, a bit for each position of the reduced axis of a
// dimension.
static void put_missing(Emitter *o, Holes *h, int tensor) {
  const Maps *m = h->maps;
  Buffer missing = {0}, tap = {0};
  int bit = 0;
  for (int d = 0; d < m->rank[tensor]; d++) {
    if (!leaves(h, tensor, d)) continue;
    const char *first = map_text(h, tensor, d, rows_of(tensor), true),
               *name = emit_index_names(m->rank[tensor])[d];
    buffer_put(&missing, "    const int at_%s = %s;\n", name, first);
    int axis = 0;
    while (axis < m->naxes && !(m->axis[axis].role == AxisK && m->dim[tensor][d].by[axis])) axis++;
    const char *size = axis < m->naxes ? size_text(h, axis) : "1",
               *tap_axis = axis < m->naxes ? h->axis[axis] : "0";
    int64_t by = axis < m->naxes ? m->dim[tensor][d].by[axis] : 0, most = 1;
    const char *step = index_scaled(h->arena, "i", by < 0 ? -by : by);
    buffer_put(&missing,
               "#pragma unroll\n    for (int i = 0; i < %s; ++i) bits |= unsigned(unsigned(%s) >= "
               "%lldu) << ",
               size, joined(h, arena_printf(h->arena, "at_%s", name), step, by < 0),
               (long long)m->type[tensor]->dim[d]);
    buffer_put(&missing, bit ? "(%d + i);\n" : "i;\n", bit);
    if (bit)
      buffer_put(&tap, " | 1u << (%d + %s)", bit, tap_axis);
    else
      buffer_put(&tap, "1u << %s", tap_axis);
    for (int i = 0; i < h->p.phases && axis < m->naxes; i++)
      if (h->p.maps[i].axis[axis].size > most) most = h->p.maps[i].axis[axis].size;
    bit += (int)most;
  }
  Buffer all = {0};
  buffer_put(&all, "%s%s", decoded(h, rows_of(tensor), "    ", 1, (const char *[]){missing.text}),
             missing.text);
  buffer_free(&missing);
  hole_take(o, "missing", &all);
  hole_text(o, "tap_decode", decoded(h, kRoleK, "    ", 1, (const char *[]){tap.text}));
  hole_text(o, "tap_arg", "int k");
  hole_take(o, "tap", &tap);
}

// "int m, int batch": names of those that the text does not mention are left out.
static const char *arguments(const Holes *h, const char *one, const char *two, const char *text) {
  const char *list = arena_printf(h->arena, "int%s%s", expr_mentions(text, one) ? " " : "",
                                  expr_mentions(text, one) ? one : "");
  if (!two) return list;
  bool used = expr_mentions(text, two);
  return arena_printf(h->arena, "%s, int%s%s", list, used ? " " : "", used ? two : "");
}

// An operand's element is at its row's offset plus that of k.
static void put_copied(Emitter *o, Holes *h, int tensor) {
  const Operand *from = tensor == MapA ? &h->p.a : &h->p.b;
  const char *letter = letters[tensor == MapA ? AxisM : AxisN];
  int64_t step;
  bool linear = true;
  for (int i = 0; i < h->p.phases; i++)
    linear = linear && axes_linear(&h->p.maps[i], tensor, from->stride, AxisK, &step);
  const char *pointer = expr_pointer(o->g, from->base), *begin = "0";
  for (int d = 0; d < h->maps->rank[tensor]; d++) {
    const char *first = begin_text(h, tensor, d);
    bool minus = *first == '-';
    begin = joined(h, begin, index_scaled(h->arena, first + minus, from->stride[d]), minus);
  }
  begin = joined(h, begin, literal(h, from->offset), false);
  const char *row = offset_text(h, tensor, from->stride, rows_of(tensor));
  if (h->p.phases > 1)
    row = joined(h, row, begin, false);
  else
    pointer = joined(h, pointer, begin + (*begin == '-'), *begin == '-');
  const char *at = offset_text(h, tensor, from->stride, kRoleK);
  const char *decode = decoded(h, rows_of(tensor), "    ", 1, &row);
  hole_text(o, "pointer", pointer);
  hole_text(o, "row", row);
  hole_text(o, "row_decode", decode);
  hole_text(o, "row_args",
            arguments(h, letter, "batch",
                      arena_printf(h->arena, "%s %s%s", row, decode,
                                   h->p.pair && tensor == MapB ? " n" : "")));
  hole_text(o, "at", at);
  decode = decoded(h, kRoleK, "    ", 1, &at);
  hole_text(o, "k_decode", decode);
  hole_text(o, "k_arg", arguments(h, "k", NULL, arena_printf(h->arena, "%s %s", at, decode)));
  hole_bool(o, "copied", true);
  hole_bool(o, "across", from->across);
  hole_int(o, "piece", from->piece);
  hole_int(o, "tap_run", tensor == MapA ? h->p.tap_run : 0);
  hole_text(o, "linear", linear ? "true" : "false");
  hole_text(o, "bounded", from->bounded ? "true" : "false");
  if (from->bounded && !from->across) put_missing(o, h, tensor);
  if (from->bounded && from->across) {
    const char *inside = inside_text(h, tensor, "");
    hole_text(o, "inside", inside);
    hole_text(o, "inside_decode", decoded(h, rows_of(tensor) | kRoleK, "    ", 1, &inside));
  }
}

static void put_operand(Holes *h, int tensor) {
  Emitter o = *h->e;
  bool halves = h->p.pair && tensor == MapB; // its row n is another column of the product
  if (halves) h->number[AxisN] = "column", name_axes(h);
  const Operand *from = tensor == MapA ? &h->p.a : &h->p.b;
  lua_newtable(o.c->lua);
  hole_text(&o, "name", tensor == MapA ? "a" : "b");
  hole_text(&o, "map", tensor == MapA ? "MapA" : "MapB");
  hole_text(&o, "index", tensor == MapA ? "m" : "n");
  hole_text(&o, "comment",
            arena_printf(h->arena, "Operand %s: where its rows are, and k from there.",
                         tensor == MapA ? "a" : "b"));
  hole_bool(&o, "halves", halves);
  (from->piece ? put_copied : put_computed)(&o, h, tensor);
  if (halves) h->number[AxisN] = letters[AxisN], name_axes(h);
  lua_setfield(o.c->lua, -2, tensor == MapA ? "a" : "b");
}

// ---- the kernel ---------------------------------------------------------------------------------

static void put_shape(Holes *h) {
  Emitter *e = h->e;
  const Tile *t = &e->g->tile;
  const Product *p = &h->p;
  hole_text(e, "unit", t->mma ? "mma" : "fma");
  hole_text(e, "operand", expr_ctype(prec_operand(e->g->anchor)));
  hole_text(e, "across",
            p->b.across   ? p->a.across ? ", true, true" : ", false, true"
            : p->a.across ? ", true"
                          : "");
  hole_int(e, "n", p->n);
  hole_int(e, "batch", p->batch);
  hole_int(e, "tile_m", t->m);
  hole_int(e, "tile_n", t->n);
  hole_int(e, "warp_m", t->tm);
  hole_int(e, "warp_n", t->tn);
  hole_int(e, "stages", t->stages);
  hole_int(e, "splits", t->splits);
  hole_int(e, "blocks", t->blocks);
  hole_int(e, "tiles", product_row_tiles(p, t->m) * ceil_div(p->n, t->n));
  hole_int(e, "taps", tile_tap_bytes(p) / kTapBytes);
  hole_int(e, "smem", t->smem);
}

// k.phases, and the names of the kernel's parameters, which it hands on.
static void put_phases(Holes *h) {
  Emitter *e = h->e;
  lua_State *lua = e->c->lua;
  const Tile *t = &e->g->tile;
  lua_newtable(lua);
  for (int i = 0; i < h->p.phases; i++) {
    lua_newtable(lua);
    Emitter inner = *e;
    int64_t rows = maps_count(&h->p.maps[i], AxisM);
    hole_int(&inner, "m", rows);
    hole_int(&inner, "k", maps_count(&h->p.maps[i], AxisK));
    hole_int(&inner, "tiles", ceil_div(rows, t->m) * ceil_div(h->p.n, t->n));
    hole_take(&inner, "constants", &h->constants[i]);
    lua_rawseti(lua, -2, i + 1);
  }
  lua_setfield(lua, -2, "phases");
  Buffer b = {0};
  const Group *g = e->g;
  for (int i = 0; i < g->ninputs + g->noutputs + g->nscratch; i++)
    buffer_put(&b, "%s%s", i ? ", " : "",
               i < g->ninputs + g->noutputs ? g->args[i]
                                            : g->scratch[i - g->ninputs - g->noutputs].name);
  hole_take(e, "arguments", &b);
}

// k.columns: the sums of columns.
static void put_columns(Emitter *e) {
  lua_State *lua = e->c->lua;
  int count = 0;
  lua_newtable(lua);
  for (int i = 0; i < e->g->noutputs; i++) {
    const Node *n = e->g->outputs[i];
    if (!group_sums_columns(e->g, n)) continue;
    lua_newtable(lua);
    Emitter inner = *e;
    hole_text(&inner, "pointer", expr_pointer(e->g, n));
    hole_text(&inner, "name", e->g->sums[i]);
    hole_text(&inner, "type", expr_ctype(n->type.dtype));
    lua_rawseti(lua, -2, ++count);
  }
  lua_setfield(lua, -2, "columns");
  hole_int(e, "group", e->g->tile.group);
}

// Gives each index of a moved value a name, unless it is one: it is computed once, and a vector
// wants a bare one.
static void name_indices(Emitter *e, Buffer *moves, int rank, Index *at) {
  for (int d = 0; d < rank; d++) {
    if (!strchr(at[d].text, ' ')) continue;
    const char *word = expr_name(e->g, emit_index_names(rank)[d]);
    buffer_put(moves, "    const int %s = %s;\n", word, at[d].text);
    at[d].text = word;
  }
}

// Nothing is stored where a slice drops the element.
static void put_dropped(Buffer *moves, const Node *slice, const Index *at) {
  for (int d = 0; d < slice->type.rank; d++)
    if (slice->type.dim[d] < slice->in[0]->type.dim[d])
      buffer_put(moves, "    if (unsigned(%s) >= %lldu) return;\n", at[d].text,
                 (long long)slice->type.dim[d]);
}

// Follows the moves of a tail from `at`, an index of the product: the last moved value is bound
// where it goes to, and `at` is this index then.
static void follow_moves(Emitter *e, Scope *s, Index *at) {
  const Tail *tail = &e->g->tails[s->tail];
  Buffer moves = {0};
  for (int i = 0; i < tail->nmoves; i++) {
    const Node *n = tail->moves[i];
    const char *value = expr_value(s, n->in[0], at);
    Index to[MaxRank];
    expr_follow(n, s->lanes, at, to);
    name_indices(e, &moves, n->type.rank, to);
    if (n->op->form == MoveSlice) put_dropped(&moves, n, to);
    for (int d = 0; d < n->type.rank; d++)
      at[d] = n->type.dim[d] == 1 ? (Index){"0", false} : to[d];
    expr_bind(s, n, at, value);
  }
  if (expr_mentions(moves.text, "j")) die("%s: moves cut the lanes apart", e->g->name);
  hole_take(e, "moves", &moves);
}

// Of the lines that define indices of the output, those that its epilogue or a later line mentions.
static void keep_mentioned(Emitter *e, Buffer *decode) {
  const char *texts[] = {hole_get(e, "moves"), hole_get(e, "loads"), hole_get(e, "body"),
                         hole_get(e, "stores")};
  Arena *arena = e->c->arena;
  const char *kept = "", *all = decode->text ? buffer_take(decode, arena) : "";
  for (const char *end = all + strlen(all); end > all;) {
    const char *line = end - 1;
    while (line > all && line[-1] != '\n') line--;
    const char *text = arena_printf(arena, "%.*s", (int)(end - line), line);
    const char *name = strstr(text, "const int ") + strlen("const int ");
    const char *word = arena_printf(arena, "%.*s", (int)strcspn(name, " "), name);
    bool used = expr_mentions(kept, word);
    for (size_t i = 0; i < LENGTH(texts); i++)
      used = used || (texts[i] && expr_mentions(texts[i], word));
    if (used) kept = arena_printf(arena, "%s%s", text, kept);
    end = line;
  }
  hole_text(e, "decode", kept);
}

static void open_holes(Holes *h, Emitter *e) {
  *h = (Holes){.e = e, .arena = e->c->arena, .p = contract_product(e->g)};
  h->maps = h->p.maps;
  h->constants = arena_alloc(h->arena, sizeof *h->constants * (size_t)h->p.phases);
  memcpy(h->number, letters, sizeof letters);
  name_axes(h);
}

// The epilogue of one tail: from the product's element (of a pair, elements) to its outputs.
static void put_tail(Holes *h, int tail) {
  Emitter *e = h->e;
  const Group *g = e->g;
  const unsigned out = kRoleBatch | kRoleM | kRoleN;
  Scope s = {.group = g, .lanes = g->tile.lanes, .indent = "    ", .tail = tail};
  Buffer decode = {0};
  Index at[MaxRank];
  put_index(h, MapOut, out, "    ", &decode, at);
  at[tail_product_lane(g->anchor).dim].lane = g->tile.lanes > 1;
  expr_bind(&s, g->anchor, at, "acc[j]");
  if (g->pair[0]) { // its columns, and those of the second half
    int dim = tail_product_lane(g->anchor).dim;
    Index other[MaxRank];
    memcpy(other, at, sizeof other);
    other[dim] = index_shifted(h->arena, at[dim], g->pair[1]->attr.dims[dim]);
    expr_bind(&s, g->anchor, other, "acc_2[j]");
  }
  follow_moves(e, &s, at);
  bool plain = !g->pair[0] && !g->tails[tail].nmoves;
  emit_epilogue(e, &s, &tail_made(g, tail)->type, at,
                plain ? flat_text(h, MapOut, &g->anchor->type, out) : NULL);
  keep_mentioned(e, &decode);
}

// k.tails: those that write something.
static void put_tails(Holes *h) {
  lua_State *lua = h->e->c->lua;
  int count = 0;
  lua_newtable(lua);
  for (int i = 0; i < h->e->g->ntails; i++) {
    if (!tail_writes(h->e->g, i)) continue;
    lua_newtable(lua);
    put_tail(h, i);
    lua_rawseti(lua, -2, ++count);
  }
  lua_setfield(lua, -2, "tails");
  hole_bool(h->e, "pair", h->p.pair);
}

void emit_contract(Emitter *e) {
  Holes h;
  open_holes(&h, e);
  put_shape(&h);
  put_operand(&h, MapA);
  put_operand(&h, MapB);
  put_columns(e);
  put_tails(&h);
  put_phases(&h);
}
