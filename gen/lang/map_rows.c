// map_rows.c: parses the index maps of a contraction from its row of ops.lua:
//   maps = {"image, g:c, p*stride1 + r*dilation1 - pad1", ...}
// A dimension is an axis, two axes joined by a colon, or a sum of terms, optionally in parentheses
// and divided by an attribute. A name that is not an attribute is an axis. Rows are part of nngen:
// errors are fatal.
#include "lang.h"

#include <ctype.h>
#include <lauxlib.h>
#include <string.h>

typedef struct Reader {
  Compiler *c;
  const Op *op;
  MapRow *row;
  const char *at; // the rest of the text
} Reader;

static bool takes(Reader *r, char wanted) {
  r->at += strspn(r->at, " ");
  if (*r->at != wanted) return false;
  r->at++;
  return true;
}

// stride2: the second number of the attribute `stride`.
static bool read_attr(const char *word, MapTerm *t) {
  size_t length = strlen(word);
  for (int i = 0; i < attr_nfields; i++) {
    size_t n = strlen(attr_fields[i].name);
    if (length != n + 1 || strncmp(word, attr_fields[i].name, n) || !isdigit(word[n])) continue;
    t->attr = i;
    t->element = word[n] - '1';
    return true;
  }
  return false;
}

static int axis_index(Reader *r, const char *word) {
  for (int i = 0; i < r->row->naxes; i++)
    if (!strcmp(r->row->axis[i], word)) return i;
  if (r->row->naxes == kMostAxes) die("op %s: more than %d axes", r->op->name, kMostAxes);
  r->row->axis[r->row->naxes] = word;
  return r->row->naxes++;
}

static void read_factor(Reader *r, MapTerm *t) {
  r->at += strspn(r->at, " ");
  size_t n = strspn(r->at, "abcdefghijklmnopqrstuvwxyz0123456789");
  if (!n) die("op %s: maps: a name is missing at '%s'", r->op->name, r->at);
  const char *word = arena_printf(r->c->arena, "%.*s", (int)n, r->at);
  r->at += n;
  if (!read_attr(word, t)) t->axis = axis_index(r, word);
}

static MapTerm read_term(Reader *r, int sign) {
  MapTerm t = {.axis = -1, .sign = sign, .attr = -1};
  do read_factor(r, &t);
  while (takes(r, '*'));
  return t;
}

static MapDim read_dim(Reader *r) {
  MapDim d = {.over = {.axis = -1, .attr = -1}};
  bool whole = takes(r, '(');
  int sign = 1;
  for (;;) {
    if (d.nterms == kMostTerms) die("op %s: maps: too many terms", r->op->name);
    d.term[d.nterms++] = read_term(r, sign);
    if (takes(r, ':')) {
      d.joined = true;
      continue;
    }
    sign = takes(r, '+') ? 1 : takes(r, '-') ? -1 : 0;
    if (!sign) break;
  }
  if (whole && (!takes(r, ')') || !takes(r, '/')))
    die("op %s: maps: ')/' is missing at '%s'", r->op->name, r->at);
  if (whole) read_factor(r, &d.over);
  return d;
}

static void read_tensor(Reader *r, int tensor) {
  r->at += strspn(r->at, " ");
  if (!strncmp(r->at, "...,", 4)) r->row->leading = true, r->at += 4;
  do r->row->dim[tensor][r->row->rank[tensor]++] = read_dim(r);
  while (takes(r, ',') && r->row->rank[tensor] < kMostMapDims);
  r->at += strspn(r->at, " ");
  if (*r->at) die("op %s: maps: '%s' is too much", r->op->name, r->at);
}

// For each list at field `name` of the row at 1: leaves its element i on the stack.
static bool push_element(lua_State *lua, const char *name, int i) {
  lua_getfield(lua, 1, name);
  if (!lua_istable(lua, -1)) return false;
  lua_geti(lua, -1, i);
  lua_remove(lua, -2);
  return !lua_isnil(lua, -1);
}

// The tensor with a dimension that is indexed by this axis alone, or -1.
static int tensor_along(const MapRow *row, int axis) {
  for (int t = 0; t < 3; t++)
    for (int d = 0; d < row->rank[t]; d++) {
      const MapTerm *first = &row->dim[t][d].term[0];
      if (row->dim[t][d].nterms == 1 && first->axis == axis && first->attr < 0) return t;
    }
  return -1;
}

// Finds the parts from an index position * stride + tap * dilation - pad into the image, or from
// its inverse, (pixel - tap * dilation + pad) / stride, into the positions.
static void find_parts(const Reader *r) {
  MapRow *row = r->row;
  for (int t = 0; t < 3; t++)
    for (int d = 0; d < row->rank[t]; d++)
      for (int i = 0; i < row->dim[t][d].nterms; i++) {
        const MapTerm *term = &row->dim[t][d].term[i];
        if (term->attr < 0 || strcmp(attr_fields[term->attr].name, "dilation")) continue;
        int filter = tensor_along(row, term->axis);
        if (filter < 0 || filter == t) die("op %s: maps: no tensor has the taps", r->op->name);
        bool inverse = row->dim[t][d].over.attr >= 0;
        row->part[t] = inverse ? PartPositions : PartImage;
        row->part[filter] = PartFilter;
        row->part[MapA + MapB + MapOut - t - filter] = inverse ? PartImage : PartPositions;
      }
}

void maps_read(lua_State *lua, Op *op) {
  Reader r = {.c = front_compiler(lua), .op = op};
  r.row = arena_alloc(r.c->arena, sizeof *r.row);
  for (int i = 0; i < 3; i++) {
    if (!push_element(lua, "maps", i + 1)) die("op %s: expected three maps", op->name);
    r.at = arena_dup(r.c->arena, luaL_checkstring(lua, -1));
    read_tensor(&r, i);
    op->last[i] = push_element(lua, "last", i + 1) ? (int)lua_tointeger(lua, -1) - 1 : -1;
    lua_pop(lua, 2);
  }
  find_parts(&r);
  op->maps = r.row;
}
