// emit_maps.c: index maps of contractions as text. Linear indices m, n, k, batch are decomposed
// into positions on their axes if there are several.
#include "emit.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

const char *const product_letters[AxisRoles] = {
    [AxisBatch] = "batch", [AxisM] = "m", [AxisN] = "n", [AxisK] = "k"};

// ---- numbers -----------------------------------------------------------------------------------

const char *product_literal(const ProductText *h, int64_t value) {
  return arena_printf(h->arena, "%lld", (long long)value);
}

// A number that is value[i] in phase i: a literal, or the name of a member of the phase.
static const char *number(ProductText *h, const char *name, const int64_t *value) {
  bool same = true;
  for (int i = 1; i < h->p.phases; i++) same = same && value[i] == value[0];
  if (same) return product_literal(h, value[0]);
  const char *so_far = h->members.text;
  if (!expr_mentions(so_far, name)) {
    buffer_put(&h->members, so_far ? ", %s" : "%s", name);
    for (int i = 0; i < h->p.phases; i++)
      buffer_put(&h->values[i], ", %lld", (long long)value[i]);
  }
  return arena_printf(h->arena, "phase.%s", name);
}

const char *product_size_text(ProductText *h, int axis) {
  int64_t *size = arena_alloc(h->arena, sizeof *size * (size_t)h->p.phases);
  for (int i = 0; i < h->p.phases; i++) size[i] = h->p.maps[i].axis[axis].size;
  const char *name = h->maps->axis[axis].name;
  return number(h, arena_printf(h->arena, "size_%s", name), size);
}

const char *product_begin_text(ProductText *h, int tensor, int d) {
  int64_t *begin = arena_alloc(h->arena, sizeof *begin * (size_t)h->p.phases);
  for (int i = 0; i < h->p.phases; i++) begin[i] = h->p.maps[i].dim[tensor][d].begin;
  return number(h, arena_printf(h->arena, "begin_%c%d", "abo"[tensor], d), begin);
}

// ---- indices -----------------------------------------------------------------------------------

static int count_axes(const Maps *m, AxisRole role) {
  int count = 0;
  for (int i = 0; i < m->naxes; i++) count += m->axis[i].role == role;
  return count;
}

void product_name_axes(ProductText *h) {
  for (int i = 0; i < h->maps->naxes; i++) {
    const Axis *x = &h->maps->axis[i];
    h->axis[i] = count_axes(h->maps, x->role) == 1 ? h->number[x->role] : x->name;
  }
}

// Defines the mentioned positions on the axes of a role from its linear index.
static void decode_axes(ProductText *h, AxisRole role, const char *indent, int count,
                        const char *const *texts, Buffer *b) {
  const Maps *m = h->maps;
  const char *below = "1", *lines = "";
  if (count_axes(m, role) < 2) return;
  int first = 0;
  while (m->axis[first].role != role) first++;
  for (int i = axes_innermost(m, role); i >= first; i--) {
    const char *size = product_size_text(h, i);
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
            : numbers           ? product_literal(h, atoll(below) * atoll(size))
                                : arena_printf(h->arena, "%s * %s", below, size);
  }
  buffer_put(b, "%s", lines);
}

const char *product_decoded(ProductText *h, unsigned roles, const char *indent, int count,
                            const char *const *texts) {
  Buffer b = {0};
  for (int role = 0; role < AxisRoles; role++)
    if (roles >> role & 1) decode_axes(h, (AxisRole)role, indent, count, texts, &b);
  return b.text ? buffer_take(&b, h->arena) : "";
}

// x + y or x - y; x may be empty.
const char *product_joined(const ProductText *h, const char *x, const char *y, bool minus) {
  if (index_is_zero(y)) return x;
  if (index_is_zero(x)) return minus ? arena_printf(h->arena, "-%s", y) : y;
  return arena_printf(h->arena, "%s %c %s", x, minus ? '-' : '+', y);
}

// Index along dimension d of a tensor: contributions of some roles, and its begin.
const char *product_map_text(ProductText *h, int tensor, int d, unsigned roles, bool begin) {
  const IndexMap *map = &h->maps->dim[tensor][d];
  const char *text = "0";
  for (int minus = 0; minus < 2; minus++)
    for (int i = 0; i < h->maps->naxes; i++) {
      int64_t by = minus ? -map->by[i] : map->by[i];
      if (by > 0 && roles >> h->maps->axis[i].role & 1)
        text = product_joined(h, text, index_scaled(h->arena, h->axis[i], by), minus);
    }
  if (!begin) return text;
  const char *first = product_begin_text(h, tensor, d);
  return *first == '-' ? product_joined(h, text, first + 1, true)
                       : product_joined(h, text, first, false);
}

// Contribution of some roles to an element's offset: a multiple of the linear index if a role's
// positions are equally spaced.
const char *product_offset_text(ProductText *h, int tensor, const int64_t *stride, unsigned roles) {
  const Maps *m = h->maps;
  const char *text = "0";
  int64_t step;
  for (int role = 0; role < AxisRoles; role++) {
    if (!(roles >> role & 1)) continue;
    bool linear = true; // in every phase with the step of the innermost axis
    for (int i = 0; i < h->p.phases; i++)
      linear = linear && axes_linear(&h->p.maps[i], tensor, stride, (AxisRole)role, &step);
    if (linear && count_axes(m, (AxisRole)role)) {
      bool minus = step < 0;
      text = product_joined(h, text, index_scaled(h->arena, h->number[role], minus ? -step : step),
                            minus);
    }
    for (int i = 0; i < m->naxes && !linear; i++) {
      if (m->axis[i].role != (AxisRole)role) continue;
      int64_t by = axis_stride(m, tensor, stride, i);
      bool minus = by < 0;
      text = product_joined(h, text, index_scaled(h->arena, h->axis[i], minus ? -by : by), minus);
    }
  }
  return text;
}

// The index of an element of a tensor: numbers, or names defined in `b`.
void product_index(ProductText *h, int tensor, unsigned roles, const char *indent, Buffer *b,
                   Index *at) {
  int rank = h->maps->rank[tensor];
  const char *text[MaxRank] = {0};
  for (int d = 0; d < rank; d++) text[d] = product_map_text(h, tensor, d, roles, true);
  buffer_put(b, "%s", product_decoded(h, roles, indent, rank, text));
  for (int d = 0; d < rank; d++) {
    at[d] = (Index){h->maps->type[tensor]->dim[d] == 1 ? "0" : text[d], false};
    if (!strchr(at[d].text, ' ')) continue; // already a name or a number
    at[d].text = arena_printf(h->arena, "at_%s", emit_index_names(rank)[d]);
    buffer_put(b, "%sconst int %s = %s;\n", indent, at[d].text, text[d]);
  }
}

// The offset of an element with these strides, if it is linear in the roles' indices; else NULL.
const char *product_flat_text(ProductText *h, int tensor, const Type *t, unsigned roles) {
  int64_t stride[MaxRank], step;
  type_strides(t, stride);
  for (int role = 0; role < AxisRoles; role++)
    if (roles >> role & 1 && !axes_linear(h->maps, tensor, stride, (AxisRole)role, &step))
      return NULL;
  for (int d = 0; d < h->maps->rank[tensor]; d++)
    if (h->maps->dim[tensor][d].begin || maps_leave(h->maps, tensor, d)) return NULL;
  return h->p.phases > 1 ? NULL : product_offset_text(h, tensor, stride, roles);
}

void product_open(ProductText *h, Emitter *e, const Product *p) {
  *h = (ProductText){.e = e, .arena = e->c->arena, .p = *p};
  h->maps = h->p.maps;
  h->values = arena_alloc(h->arena, sizeof *h->values * (size_t)h->p.phases);
  memcpy(h->number, product_letters, sizeof product_letters);
  product_name_axes(h);
}
