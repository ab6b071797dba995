// plan.c: a Plan as JSON, written and read.
//
// Every struct of plan.h has one table of its fields; the same tables write, read and free, so the
// two directions cannot diverge. A plan that is read is untrusted: types, enums and array lengths
// are checked here, relations between fields by plan_check.
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/base.h"

enum { FormatVersion = 1 };

typedef enum FieldKind {
  FieldText,
  FieldMaybeText, // omitted if NULL
  FieldInt,
  FieldInt64,
  FieldReal,
  FieldBool,
  FieldEnum,   // an int, one of `names`
  FieldInts,   // int[], as many as the member at count_offset says, or 3
  FieldInt64s, // int64_t[]
  FieldStructs, // pointer to an array of structs, its length (an int) at count_offset
  FieldMaybeStruct // pointer to a struct, omitted if NULL
} FieldKind;

typedef struct Field {
  const char *name;
  FieldKind kind;
  size_t offset, count_offset;
  const char *const *names;   // FieldEnum
  const struct Field *fields; // FieldStructs, FieldMaybeStruct
  size_t size;                // size of one struct
} Field;

// count_offset of grid, block and cluster; no count member is at offset 0
enum { CountIsThree = 0 };

#define FIELD(type, member, kind)                                                                  \
  { #member, kind, offsetof(type, member), 0, NULL, NULL, 0 }
#define ENUM(type, member, table)                                                                  \
  { #member, FieldEnum, offsetof(type, member), 0, table, NULL, 0 }
#define INTS(type, member, kind, count)                                                            \
  { #member, kind, offsetof(type, member), offsetof(type, count), NULL, NULL, 0 }
#define SIZE(type, member) sizeof(*((type *)0)->member)
#define STRUCTS(type, member, count, table)                                                        \
  {                                                                                                \
    #member, FieldStructs, offsetof(type, member), offsetof(type, count), NULL, table,             \
        SIZE(type, member)                                                                         \
  }
#define MAYBE(type, member, table)                                                                 \
  { #member, FieldMaybeStruct, offsetof(type, member), 0, NULL, table, SIZE(type, member) }
#define END                                                                                        \
  { NULL, FieldText, 0, 0, NULL, NULL, 0 }

static const char *const dtypes[] = {"f32", "f16", "bf16", "f64", "i32", "u8", "i64", "bool", NULL};
static const char *const roles[] = {"input", "output", "param", "temp", "state", NULL};
static const char *const spaces[] = {"static", "arena", "init", NULL};
static const char *const inits[] = {"none", "constant", "normal", "uniform", "table", NULL};
static const char *const kinds[] = {"launch", "copy", "memset", "library", "host", NULL};

static const Field tensor_fields[] = {
    FIELD(PlanTensor, name, FieldText),
    ENUM(PlanTensor, role, roles),
    ENUM(PlanTensor, space, spaces),
    ENUM(PlanTensor, dtype, dtypes),
    FIELD(PlanTensor, rank, FieldInt), // before the two that it counts
    INTS(PlanTensor, shape, FieldInt64s, rank),
    INTS(PlanTensor, order, FieldInts, rank),
    FIELD(PlanTensor, offset, FieldInt64),
    FIELD(PlanTensor, bytes, FieldInt64),
    FIELD(PlanTensor, value, FieldInt),
    ENUM(PlanTensor, init, inits),
    FIELD(PlanTensor, init_a, FieldReal),
    FIELD(PlanTensor, init_b, FieldReal),
    FIELD(PlanTensor, table, FieldMaybeText),
    FIELD(PlanTensor, loc, FieldText),
    END};
static const Field scalar_fields[] = {ENUM(PlanScalar, dtype, dtypes),
                                      FIELD(PlanScalar, value, FieldReal), END};
static const Field map_fields[] = {FIELD(PlanMap, offset, FieldInt64),
                                   FIELD(PlanMap, swizzle, FieldInt),
                                   FIELD(PlanMap, rank, FieldInt), // before the three it counts
                                   INTS(PlanMap, extent, FieldInt64s, rank),
                                   INTS(PlanMap, stride, FieldInt64s, rank),
                                   INTS(PlanMap, box, FieldInts, rank),
                                   END};
static const Field arg_fields[] = {FIELD(PlanArg, name, FieldText),
                                   FIELD(PlanArg, tensor, FieldInt),
                                   FIELD(PlanArg, written, FieldBool),
                                   MAYBE(PlanArg, scalar, scalar_fields),
                                   MAYBE(PlanArg, map, map_fields),
                                   END};
static const Field attribute_fields[] = {FIELD(PlanAttributes, cluster, FieldInts),
                                         FIELD(PlanAttributes, early, FieldBool), END};
static const Field kernel_fields[] = {FIELD(PlanKernel, name, FieldText),
                                      FIELD(PlanKernel, layer, FieldText),
                                      FIELD(PlanKernel, ops, FieldText),
                                      FIELD(PlanKernel, class_name, FieldText),
                                      FIELD(PlanKernel, tile, FieldText),
                                      FIELD(PlanKernel, source, FieldText),
                                      FIELD(PlanKernel, names, FieldText),
                                      FIELD(PlanKernel, file, FieldText),
                                      FIELD(PlanKernel, loc, FieldText),
                                      FIELD(PlanKernel, grid, FieldInts),
                                      FIELD(PlanKernel, block, FieldInts),
                                      FIELD(PlanKernel, smem, FieldInt),
                                      FIELD(PlanKernel, resident, FieldInt),
                                      FIELD(PlanKernel, flops, FieldReal),
                                      FIELD(PlanKernel, bytes_read, FieldInt64),
                                      FIELD(PlanKernel, bytes_written, FieldInt64),
                                      STRUCTS(PlanKernel, args, nargs, arg_fields),
                                      MAYBE(PlanKernel, attributes, attribute_fields),
                                      END};
static const Field step_fields[] = {ENUM(PlanStep, kind, kinds), FIELD(PlanStep, kernel, FieldInt),
                                    FIELD(PlanStep, source, FieldInt),
                                    FIELD(PlanStep, target, FieldInt), END};
static const Field entry_fields[] = {FIELD(PlanEntry, name, FieldText),
                                     STRUCTS(PlanEntry, steps, nsteps, step_fields), END};
static const Field header_fields[] = {FIELD(PlanHeader, name, FieldText),
                                      FIELD(PlanHeader, text, FieldText), END};
static const Field plan_fields[] = {FIELD(Plan, model, FieldText),
                                    FIELD(Plan, lowering, FieldText),
                                    FIELD(Plan, dtype, FieldText),
                                    FIELD(Plan, arch, FieldText),
                                    FIELD(Plan, static_bytes, FieldInt64),
                                    FIELD(Plan, arena_bytes, FieldInt64),
                                    FIELD(Plan, init_bytes, FieldInt64),
                                    FIELD(Plan, arena_bound, FieldInt64),
                                    STRUCTS(Plan, tensors, ntensors, tensor_fields),
                                    STRUCTS(Plan, kernels, nkernels, kernel_fields),
                                    STRUCTS(Plan, entries, nentries, entry_fields),
                                    STRUCTS(Plan, headers, nheaders, header_fields),
                                    END};

static int *int_at(const void *record, size_t offset) {
  return (int *)((char *)record + offset);
}

static int array_length(const Field *field, const void *record) {
  return field->count_offset == CountIsThree ? 3 : *int_at(record, field->count_offset);
}

// ---- writing: NULL when a value has no JSON form (NaN, bytes that are not UTF-8) ---------------

static json_t *write_struct(const Field *fields, const void *record);

static json_t *write_list(const Field *field, const void *record) {
  json_t *list = json_array();
  const char *at = (const char *)record + field->offset;
  int count = array_length(field, record);
  if (field->kind == FieldStructs) at = *(const char *const *)at;
  for (int i = 0; i < count; i++) {
    json_t *item = field->kind == FieldInts ? json_integer(((const int *)at)[i])
                   : field->kind == FieldInt64s
                       ? json_integer(((const int64_t *)at)[i])
                       : write_struct(field->fields, at + (size_t)i * field->size);
    if (json_array_append_new(list, item)) return json_decref(list), NULL;
  }
  return list;
}

static json_t *write_field(const Field *field, const void *record) {
  const char *at = (const char *)record + field->offset;
  switch (field->kind) {
  case FieldText:
  case FieldMaybeText: {
    const char *text = *(const char *const *)at;
    return json_string(text ? text : "");
  }
  case FieldInt:
    return json_integer(*(const int *)at);
  case FieldInt64:
    return json_integer(*(const int64_t *)at);
  case FieldReal:
    return json_real(*(const double *)at);
  case FieldBool:
    return json_boolean(*(const bool *)at);
  case FieldEnum:
    return json_string(field->names[*(const int *)at]);
  case FieldMaybeStruct:
    return write_struct(field->fields, *(const void *const *)at);
  default:
    return write_list(field, record);
  }
}

static json_t *write_struct(const Field *fields, const void *record) {
  json_t *object = json_object();
  for (const Field *field = fields; field->name; field++) {
    bool maybe = field->kind == FieldMaybeText || field->kind == FieldMaybeStruct;
    if (maybe && !*(char *const *)((const char *)record + field->offset)) continue;
    json_t *value = write_field(field, record);
    if (!value || json_object_set_new(object, field->name, value)) return json_decref(object), NULL;
  }
  return object;
}

int plan_write(const Plan *plan, FILE *file, Error *err) {
  json_t *object = write_struct(plan_fields, plan);
  if (!object || json_object_set_new(object, "nngen_plan", json_integer(FormatVersion))) {
    json_decref(object);
    return err_set(err, ExitBadInput,
                   "plan '%s' has no JSON form: a text is not UTF-8, or a "
                   "number is not finite",
                   plan->model);
  }
  bool failed = json_dumpf(object, file, JSON_INDENT(1)) || fputc('\n', file) == EOF ||
                fflush(file) || ferror(file);
  json_decref(object);
  return failed ? err_set(err, ExitBadInput, "cannot write plan '%s': %m", plan->model) : ExitOk;
}

// ---- reading -----------------------------------------------------------------------------------

// Where in the JSON the reader is, for messages: "kernels[3].args[0].tensor".
typedef struct Reader {
  char path[256];
  Error *err;
} Reader;

static int read_struct(Reader *reader, const Field *fields, json_t *object, void *record);

static int wrong(Reader *reader, const char *expected) {
  return err_set(reader->err, ExitBadInput, "plan: %s: expected %s", reader->path, expected);
}

static int read_int(Reader *reader, json_t *value, int64_t low, int64_t high, int64_t *out) {
  if (!json_is_integer(value)) return wrong(reader, "an integer");
  *out = json_integer_value(value);
  return *out < low || *out > high ? wrong(reader, "an integer that is not so large") : ExitOk;
}

static int read_enum(Reader *reader, const Field *field, json_t *value, int *out) {
  const char *text = json_string_value(value);
  for (int i = 0; text && field->names[i]; i++)
    if (!strcmp(text, field->names[i])) return *out = i, ExitOk;
  return wrong(reader, "a known name");
}

static int read_structs(Reader *reader, const Field *field, json_t *list, void *record) {
  size_t count = json_array_size(list), length = strlen(reader->path);
  if (!json_is_array(list) || count > INT_MAX / 2) return wrong(reader, "a list");
  char *items = heap_alloc(count, field->size);
  if (!items) return heap_error(reader->err, "reading a plan");
  *(char **)((char *)record + field->offset) = items;
  *int_at(record, field->count_offset) = (int)count;
  for (size_t i = 0; i < count; i++) {
    snprintf(reader->path + length, sizeof reader->path - length, "[%zu]", i);
    int rc = read_struct(reader, field->fields, json_array_get(list, i), items + i * field->size);
    if (rc) return rc;
  }
  reader->path[length] = 0;
  return ExitOk;
}

static int read_ints(Reader *reader, const Field *field, json_t *list, void *record) {
  int count = array_length(field, record);
  char *at = (char *)record + field->offset;
  if (count < 0 || count > PlanMaxRank) return wrong(reader, "a rank from 0 to 8");
  if (!json_is_array(list) || json_array_size(list) != (size_t)count)
    return wrong(reader, "one number per dimension");
  bool wide = field->kind == FieldInt64s;
  for (int i = 0; i < count; i++) {
    int64_t number = 0;
    int rc = read_int(reader, json_array_get(list, (size_t)i), wide ? INT64_MIN : INT_MIN,
                      wide ? INT64_MAX : INT_MAX, &number);
    if (rc) return rc;
    if (wide)
      ((int64_t *)at)[i] = number;
    else
      ((int *)at)[i] = (int)number;
  }
  return ExitOk;
}

static int read_field(Reader *reader, const Field *field, json_t *value, void *record) {
  char *at = (char *)record + field->offset;
  int64_t number = 0;
  int rc;
  switch (field->kind) {
  case FieldMaybeText:
    if (!value) return ExitOk;
    // fall through
  case FieldText:
    if (!json_is_string(value)) return wrong(reader, "a text");
    *(char **)at = heap_copy(json_string_value(value));
    return *(char **)at ? ExitOk : heap_error(reader->err, "reading a plan");
  case FieldInt:
    rc = read_int(reader, value, INT_MIN, INT_MAX, &number);
    *(int *)at = (int)number;
    return rc;
  case FieldInt64:
    return read_int(reader, value, INT64_MIN, INT64_MAX, (int64_t *)at);
  case FieldReal:
    *(double *)at = json_number_value(value);
    return json_is_number(value) ? ExitOk : wrong(reader, "a number");
  case FieldBool:
    *(bool *)at = json_is_true(value);
    return json_is_boolean(value) ? ExitOk : wrong(reader, "true or false");
  case FieldEnum:
    return read_enum(reader, field, value, (int *)at);
  case FieldStructs:
    return read_structs(reader, field, value, record);
  case FieldMaybeStruct:
    if (!value) return ExitOk;
    *(void **)at = heap_alloc(1, field->size);
    if (!*(void **)at) return heap_error(reader->err, "reading a plan");
    return read_struct(reader, field->fields, value, *(void **)at);
  default:
    return read_ints(reader, field, value, record);
  }
}

static int read_struct(Reader *reader, const Field *fields, json_t *object, void *record) {
  if (!json_is_object(object)) return wrong(reader, "an object");
  size_t length = strlen(reader->path);
  for (const Field *field = fields; field->name; field++) {
    snprintf(reader->path + length, sizeof reader->path - length, "%s%s", length ? "." : "",
             field->name);
    int rc = read_field(reader, field, json_object_get(object, field->name), record);
    if (rc) return rc;
  }
  reader->path[length] = 0;
  return ExitOk;
}

static int read_plan(json_t *root, Plan *plan, Error *err) {
  Reader reader = {.err = err};
  if (json_integer_value(json_object_get(root, "nngen_plan")) != FormatVersion)
    return err_set(err, ExitBadInput,
                   "plan: not a plan of this nngen (nngen_plan is not %d); "
                   "make it again from the model",
                   FormatVersion);
  int rc = read_struct(&reader, plan_fields, root, plan);
  return rc ? rc : plan_check(plan, err);
}

int plan_read(Plan **plan, const char *text, size_t length, Error *err) {
  json_error_t where;
  *plan = NULL;
  json_t *root = json_loadb(text, length, JSON_REJECT_DUPLICATES, &where);
  if (!root)
    return err_set(err, ExitBadInput, "plan: line %d: not JSON: %s", where.line, where.text);
  Plan *read = heap_alloc(1, sizeof *read);
  int rc = read ? read_plan(root, read, err) : heap_error(err, "reading a plan");
  json_decref(root);
  if (rc) return plan_free(read), rc;
  *plan = read;
  return ExitOk;
}

static void free_struct(const Field *fields, void *record) {
  for (const Field *field = fields; field->name; field++) {
    char **at = (char **)((char *)record + field->offset);
    bool text = field->kind == FieldText || field->kind == FieldMaybeText;
    if (!text && !field->size) continue;
    int count = field->kind == FieldStructs ? array_length(field, record) : !text;
    for (int i = 0; *at && i < count; i++)
      free_struct(field->fields, *at + (size_t)i * field->size);
    free(*at);
  }
}

void plan_free(Plan *plan) {
  if (plan) free_struct(plan_fields, plan);
  free(plan);
}

// ---- questions ----------------------------------------------------------------------------------

static bool kernel_writes(const PlanKernel *kernel, int tensor) {
  for (int i = 0; i < kernel->nargs; i++)
    if (kernel->args[i].tensor == tensor && kernel->args[i].written) return true;
  return false;
}

bool plan_writes(const Plan *plan, const PlanEntry *entry, int tensor) {
  for (int i = 0; i < entry->nsteps; i++) {
    const PlanStep *step = &entry->steps[i];
    bool target = step->kind == StepCopy || step->kind == StepMemset;
    if (target && step->target == tensor) return true;
    bool launch = step->kind == StepLaunch;
    if (launch && kernel_writes(&plan->kernels[step->kernel], tensor)) return true;
  }
  return false;
}
