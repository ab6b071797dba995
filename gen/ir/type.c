// type.c: sizes and strides of types, dtype promotion, precisions.
#include "ir.h"

#include <string.h>

int64_t type_count(const Type *t) {
  int64_t n = 1;
  for (int d = 0; d < t->rank; d++) n *= t->dim[d];
  return n;
}

int64_t type_bytes(const Type *t) {
  return type_count(t) * (int64_t)dtype_size(t->dtype);
}

void type_strides(const Type *t, int64_t stride[MaxRank]) {
  int64_t step = 1;
  for (int i = t->rank - 1; i >= 0; i--) {
    int d = t->order[i];
    stride[d] = t->dim[d] == 1 ? 0 : step;
    step *= t->dim[d];
  }
}

Type type_make(Dtype dtype, int rank, const int64_t *dim) {
  Type t = {.dtype = dtype, .rank = rank};
  for (int d = 0; d < rank; d++) t.dim[d] = dim[d], t.order[d] = (uint8_t)d;
  return t;
}

bool type_same_order(const Type *a, const Type *b) { // same shape: do the strides agree?
  int64_t sa[MaxRank], sb[MaxRank];
  type_strides(a, sa);
  type_strides(b, sb);
  return !memcmp(sa, sb, sizeof sa[0] * (size_t)a->rank);
}

bool type_same_shape(const Type *a, const Type *b) {
  return a->rank == b->rank && !memcmp(a->dim, b->dim, sizeof a->dim[0] * (size_t)a->rank);
}

ShapeText type_shape(const Type *t) {
  ShapeText text = {"("};
  size_t used = 1;
  for (int d = 0; d < t->rank; d++)
    used += (size_t)snprintf(text.s + used, sizeof text.s - used, d ? ", %lld" : "%lld",
                             (long long)t->dim[d]);
  snprintf(text.s + used, sizeof text.s - used, ")");
  return text;
}

// True if the dimensions in `axes` (bits) are the innermost in memory; size-1 dimensions are
// ignored.
bool type_axes_innermost(const Type *t, int64_t axes) {
  bool inside = true;
  for (int i = t->rank - 1; i >= 0; i--) {
    int d = t->order[i];
    if (t->dim[d] == 1) continue;
    bool reduced = axes >> d & 1;
    if (reduced && !inside) return false;
    inside = inside && reduced;
  }
  return true;
}

int64_t type_kept_run(const Type *t, int64_t axes) {
  int64_t run = 1;
  for (int i = t->rank - 1; i >= 0; i--) {
    int d = t->order[i];
    if (t->dim[d] > 1 && axes >> d & 1) break;
    run *= t->dim[d];
  }
  return run;
}

bool type_innermost_in(const Type *t, int64_t axes) {
  for (int i = t->rank - 1; i >= 0; i--)
    if (t->dim[t->order[i]] > 1) return axes >> t->order[i] & 1;
  return true;
}

// ---- dtypes -----------------------------------------------------------------------------------

Dtype type_compute(Dtype dtype) {
  return dtype_is_float(dtype) ? DtF32 : dtype == DtI64 ? DtI32 : dtype;
}

// Promotion order: bool, integer, float.
static int kind_of(Dtype dtype) {
  return dtype == DtBool ? 0 : dtype_is_float(dtype) ? 2 : 1;
}

static Dtype promote(Dtype a, Dtype b) {
  if (kind_of(a) != kind_of(b)) return kind_of(a) > kind_of(b) ? a : b;
  if (a == b) return a;
  return kind_of(a) == 2 ? DtF32 : DtI32; // f16 and bf16 meet in f32, u8 and i64 in i32
}

// Priority in promotion: tensors, then 0-dimensional tensors, then literals.
static int weight_of(const Node *n) {
  return n->type.rank ? 2 : node_is_number(n) ? 0 : 1;
}

// Promoted dtype of the inputs from `first` on, as in PyTorch: inputs of lower priority matter only
// if their kind is higher.
static Dtype promoted(const Node *n, int first) {
  Dtype of[3] = {DtBool, DtBool, DtBool}, all = DtBool;
  bool any[3] = {false}, found = false;
  for (int i = first; i < n->nin; i++) {
    int weight = weight_of(n->in[i]);
    Dtype in = n->in[i]->type.dtype;
    of[weight] = any[weight] ? promote(of[weight], in) : in;
    any[weight] = true;
  }
  for (int weight = 2; weight >= 0; weight--) {
    if (!any[weight] || (found && kind_of(of[weight]) <= kind_of(all))) continue;
    all = of[weight];
    found = true;
  }
  return all;
}

Dtype type_operand(const Node *n, int i) {
  switch (n->op->typing) {
  case TypeArith:
  case TypeCompare:
    return promoted(n, 0);
  case TypeWhere:
    return i ? promoted(n, 1) : DtBool;
  case TypeLogic:
    return DtBool;
  case TypeConvert:
    return n->in[i]->type.dtype;
  case TypeDraw:
  case TypeWhole:
    return DtI32;
  default:
    return DtF32;
  }
}

Dtype type_result(const Node *n) {
  switch (n->op->typing) {
  case TypeArith:
  case TypeWhere: {
    Dtype dtype = type_operand(n, n->nin - 1);
    return dtype == DtI64 ? DtI32 : dtype;
  }
  case TypeCompare:
  case TypeLogic:
    return DtBool;
  case TypeWhole:
    return DtI32;
  case TypeConvert:
    return (Dtype)n->attr.dtype;
  default: { // 16-bit floats keep their dtype
    Dtype dtype = promoted(n, 0);
    return n->op->typing == TypeFloat && dtype_is_float(dtype) ? dtype : DtF32;
  }
  }
}

// ---- precision --------------------------------------------------------------------------------

static const char *const precisions[PrecCount] = {"fp32", "tf32", "fp16", "bf16"};

const char *precision_name(Precision precision) {
  return precisions[precision];
}

Dtype precision_dtype(Precision precision) { // tf32: stored as f32, rounded when multiplied
  static const Dtype dtypes[PrecCount] = {
      [PrecFp32] = DtF32, [PrecTf32] = DtF32, [PrecFp16] = DtF16, [PrecBf16] = DtBf16};
  return dtypes[precision];
}

bool precision_parse(const char *name, Precision *precision) {
  for (int i = 0; i < PrecCount; i++)
    if (!strcmp(name, precisions[i])) return *precision = (Precision)i, true;
  return false;
}
