// op.c: lookup in the table of ops. Rows are declared in Lua (ops.lua, or a model file) and kept
// here as data, so that passes branch on class, form and flags.
#include "ir.h"

#include <lauxlib.h>
#include <string.h>

#define FIELD(name, count, real)                                                                   \
  { #name, offsetof(Attr, name), count, real, false }
const AttrField attr_fields[] = {
    FIELD(value, 1, true),
    FIELD(init, 1, false),
    FIELD(init_a, 1, true),
    FIELD(init_b, 1, true),
    FIELD(axes, 1, false),
    FIELD(kernel, 2, false),
    FIELD(stride, 2, false),
    FIELD(pad, 4, false),
    FIELD(dilation, 2, false),
    FIELD(groups, 1, false),
    FIELD(size, 2, false),
    FIELD(axis, 1, false),
    FIELD(count, 1, false),
    FIELD(dims, -1, false),
    FIELD(ends, -1, false),
    FIELD(dtype, 1, false),
    {"table", offsetof(Attr, table), 1, false, true},
    {"below", offsetof(Attr, below), 1, false, true},
    {"smallest", offsetof(Attr, smallest), 1, false, true},
    {"fixed", offsetof(Attr, fixed), 1, false, true},
    {"tensor", offsetof(Attr, tensor), 1, false, true},
};
#undef FIELD
const int attr_nfields = sizeof attr_fields / sizeof attr_fields[0];

static const char *const class_names[OpClassCount] = { // CLASS
    "source", "map", "reduce", "scan", "select", "sort", "scatter", "window", "contract", "move"};

const Monoid *op_monoid(const Node *n) {
  return dtype_is_float(n->in[0]->type.dtype) ? n->op->acc : n->op->whole;
}

const char *op_class_name(OpClass cls) {
  return class_names[cls];
}

const Op *op_find(const Compiler *c, const char *name) {
  for (int i = 0; i < c->nops; i++)
    if (!strcmp(c->ops[i]->name, name)) return c->ops[i];
  return NULL;
}

const Op *op_need(const Compiler *c, const char *name) {
  const Op *op = op_find(c, name);
  if (!op) die("ops.lua has no row '%s'", name);
  return op;
}

bool op_ranks(const Op *op) {
  return op->cls == OpSelect || op->cls == OpSort;
}

bool op_scatters(const Op *op) {
  return op->cls == OpMove && (op->form <= MoveSlice || op->form == MoveRoll);
}
bool op_gathers(const Op *op) {
  return op->cls == OpMove && op->form >= MoveRoll;
}

void op_copy_attrs(const Op *op, const Attr *from, Attr *to) {
  for (int i = 0; i < attr_nfields; i++) {
    const AttrField *f = &attr_fields[i];
    size_t count = (size_t)(f->count < 0 ? MaxRank : f->count);
    if (op->attrs >> i & 1)
      memcpy((char *)to + f->offset, (const char *)from + f->offset, count * sizeof(int64_t));
  }
}

bool monoid_wants_places(const Monoid *m) {
  bool wants = false;
  for (int i = 0; i < m->count; i++) wants = wants || strstr(m->part[i].element, "$i");
  return wants;
}

bool monoid_same(const Monoid *a, const Monoid *b) {
  if (a == b) return true;
  bool same = a->count == b->count;
  for (int i = 0; same && i < a->count; i++) {
    const Accumulator *x = &a->part[i], *y = &b->part[i];
    same = !strcmp(x->name, y->name) && !strcmp(x->type, y->type) && !strcmp(x->init, y->init) &&
           !strcmp(x->element, y->element) && !strcmp(x->combine, y->combine) &&
           !x->append == !y->append && (!x->append || !strcmp(x->append, y->append));
  }
  return same;
}
