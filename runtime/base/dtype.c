// dtype.c: the element types of tensors: one row each.
#include <strings.h>

#include "base/base.h"

typedef struct DtypeRow {
  const char *name;
  size_t size;
  const char *aliases[3];
} DtypeRow;

static const DtypeRow rows[DtCount] = {
    [DtF32] = {"f32", 4, {"fp32", "float32", "float"}},
    [DtF16] = {"f16", 2, {"fp16", "float16", "half"}},
    [DtBf16] = {"bf16", 2, {"bfloat16"}},
    [DtF64] = {"f64", 8, {"fp64", "float64", "double"}},
    [DtI32] = {"i32", 4, {"int32", "int"}},
    [DtU8] = {"u8", 1, {"uint8", "byte"}},
    [DtI64] = {"i64", 8, {"int64", "long"}},
    [DtBool] = {"bool", 1, {"b1"}},
};

size_t dtype_size(Dtype dtype) {
  return rows[dtype].size;
}
bool dtype_is_float(Dtype dtype) {
  return dtype == DtF32 || dtype == DtF16 || dtype == DtBf16 || dtype == DtF64;
}
const char *dtype_name(Dtype dtype) {
  return rows[dtype].name;
}

bool dtype_parse(const char *name, Dtype *dtype) {
  for (int i = 0; i < DtCount; i++) {
    bool same = !strcasecmp(name, rows[i].name);
    for (int a = 0; a < 3 && rows[i].aliases[a]; a++)
      same = same || !strcasecmp(name, rows[i].aliases[a]);
    if (same) return *dtype = (Dtype)i, true;
  }
  return false;
}
