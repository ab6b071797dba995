// npy.c: NumPy arrays, read (format 1 to 3) and written (format 1).
//
// Format: "\x93NUMPY", version, header length, a Python dict in one line, the data. The dict is
// read by a strict grammar: exactly the keys descr, fortran_order and shape. Pickled objects
// and structured types are refused; sizes are checked before anything is allocated.
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "data/data.h"

// The header while it is read: `at` moves over the dict's text.
typedef struct Header {
  const char *path, *at, *end;
  char descr[16];
  bool fortran;
  int seen;  // bits: descr, fortran_order, shape
  bool deep; // more dimensions than a plan's tensor has
  int rank;
  int64_t shape[PlanMaxRank];
} Header;

static int wrong(const char *path, Error *err, const char *why) {
  return err_set(err, ExitBadInput, "npy '%s': %s", path, why);
}

// ---- the dict ----------------------------------------------------------------------------------

static void skip_space(Header *header) {
  while (header->at < header->end && *header->at == ' ') header->at++;
}

static bool take(Header *header, char expected) {
  skip_space(header);
  if (header->at == header->end || *header->at != expected) return false;
  header->at++;
  return true;
}

static bool take_text(Header *header, char *text, size_t size) {
  size_t length = 0;
  skip_space(header);
  if (header->at == header->end || (*header->at != '\'' && *header->at != '"')) return false;
  char quote = *header->at++;
  while (header->at < header->end && *header->at != quote && length + 1 < size)
    text[length++] = *header->at++;
  text[length] = 0;
  return take(header, quote);
}

static bool take_bool(Header *header, bool *value) {
  skip_space(header);
  size_t left = (size_t)(header->end - header->at);
  *value = left >= 4 && !memcmp(header->at, "True", 4);
  if (!*value && (left < 5 || memcmp(header->at, "False", 5))) return false;
  header->at += *value ? 4 : 5;
  return true;
}

static bool take_size(Header *header, int64_t *value) {
  skip_space(header);
  const char *begin = header->at;
  for (*value = 0; header->at < header->end && isdigit((unsigned char)*header->at); header->at++)
    if (__builtin_mul_overflow(*value, 10, value) ||
        __builtin_add_overflow(*value, *header->at - '0', value))
      return false;
  return header->at > begin;
}

static bool take_shape(Header *header) { // "()", "(3,)", "(3, 4)"
  if (!take(header, '(')) return false;
  while (!take(header, ')')) {
    header->deep = header->rank == PlanMaxRank;
    if (header->deep || !take_size(header, &header->shape[header->rank++])) return false;
    if (!take(header, ',')) return header->rank > 1 && take(header, ')');
  }
  return true;
}

static bool take_item(Header *header) {
  char key[32];
  if (!take_text(header, key, sizeof key) || !take(header, ':')) return false;
  int bit = !strcmp(key, "descr")           ? 1
            : !strcmp(key, "fortran_order") ? 2
            : !strcmp(key, "shape")         ? 4
                                            : 0;
  if (!bit || header->seen & bit) return false;
  header->seen |= bit;
  return bit == 1   ? take_text(header, header->descr, sizeof header->descr)
         : bit == 2 ? take_bool(header, &header->fortran)
                    : take_shape(header);
}

static bool take_dict(Header *header) {
  if (!take(header, '{')) return false;
  while (!take(header, '}')) {
    if (!take_item(header)) return false;
    if (!take(header, ',')) {
      if (!take(header, '}')) return false;
      break;
    }
  }
  skip_space(header);
  while (header->at < header->end && *header->at == '\n') header->at++;
  return header->seen == 7 && header->at == header->end;
}

// ---- the data ----------------------------------------------------------------------------------

// NumPy's type codes and the safetensors names under which weights.c reads such numbers.
static const struct {
  const char *descr, *dtype;
  size_t size;
} types[] = {{"<f4", "F32", 4}, {"<f2", "F16", 2}, {"<f8", "F64", 8}, {"<i8", "I64", 8},
             {"<i4", "I32", 4}, {"<i2", "I16", 2}, {"|i1", "I8", 1},  {"<u8", "U64", 8},
             {"<u4", "U32", 4}, {"<u2", "U16", 2}, {"|u1", "U8", 1},  {"|b1", "BOOL", 1}};

// Column-major to row-major: walks the target, an index per dimension.
static void from_fortran(const Npy *npy, const double *source, double *target) {
  int64_t index[PlanMaxRank] = {0}, stride[PlanMaxRank], next = 1;
  for (int i = 0; i < npy->rank; i++) stride[i] = next, next *= npy->shape[i];
  for (int64_t k = 0; k < npy->count; k++) {
    int64_t at = 0;
    for (int i = 0; i < npy->rank; i++) at += index[i] * stride[i];
    target[k] = source[at];
    for (int i = npy->rank - 1; i >= 0 && ++index[i] == npy->shape[i]; i--) index[i] = 0;
  }
}

static int load(const NpyView *view, Npy *npy, Error *err) {
  WeightTensor tensor = {
      .name = "npy", .dtype = view->dtype, .data = view->data, .bytes = view->bytes};
  size_t count = (size_t)npy->count;
  double *read = heap_alloc(count, sizeof *read), *turned = read;
  bool turn = view->fortran && npy->rank > 1;
  npy->values = heap_alloc(count, sizeof *npy->values);
  if (turn) turned = heap_alloc(count, sizeof *turned);
  bool enough = read && turned && npy->values;
  if (enough) weights_doubles(&tensor, read, err);
  if (enough && turn) from_fortran(npy, read, turned);
  for (size_t i = 0; enough && i < count; i++) npy->values[i] = (float)turned[i];
  if (turn) free(read);
  npy->integers = strchr("IUB", *view->dtype) && strcmp(view->dtype, "BF16");
  bool keep = enough && (npy->integers || !strcmp(view->dtype, "F64"));
  if (keep)
    npy->exact = turned;
  else
    free(turned);
  return enough ? ExitOk : heap_error(err, "reading an npy file");
}

static int read_type(const Header *header, NpyView *npy, Error *err) {
  int type = 0;
  while (type < COUNT(types) && strcmp(types[type].descr, header->descr)) type++;
  if (type == COUNT(types))
    return err_set(err, ExitBadInput,
                   "npy '%s': dtype '%s' is not supported; save it as float32, integers as int32",
                   header->path, header->descr);
  npy->dtype = types[type].dtype;
  npy->fortran = header->fortran;
  npy->rank = header->rank;
  int64_t bytes = (int64_t)types[type].size;
  bool fits = true;
  for (int i = 0; i < header->rank; i++) {
    npy->shape[i] = header->shape[i];
    fits = fits && !__builtin_mul_overflow(bytes, header->shape[i], &bytes);
  }
  if (!fits || (uint64_t)bytes != npy->bytes)
    return err_set(err, ExitBadInput, "npy '%s': %zu bytes of data, its shape needs %lld",
                   header->path, npy->bytes, fits ? (long long)bytes : -1LL);
  npy->count = bytes / (int64_t)types[type].size;
  return ExitOk;
}

static int read_view(const char *path, NpyView *npy, Error *err) {
  const uint8_t *bytes = npy->view.bytes;
  if (npy->view.size < 12 || memcmp(bytes, "\x93NUMPY", 6))
    return wrong(path, err, "is not an npy file");
  if (bytes[6] < 1 || bytes[6] > 3) return wrong(path, err, "format version is not 1, 2 or 3");
  size_t begin = bytes[6] == 1 ? 10 : 12, length = bytes[8] | (size_t)bytes[9] << 8;
  if (bytes[6] > 1) length |= (size_t)bytes[10] << 16 | (size_t)bytes[11] << 24;
  if (length > npy->view.size - begin) return wrong(path, err, "the header is truncated");
  Header header = {.path = path, .at = (const char *)bytes + begin};
  header.end = header.at + length;
  if (!take_dict(&header))
    return wrong(path, err,
                 header.deep
                     ? "has more than 8 dimensions"
                     : "the header is not {'descr': ..., 'fortran_order': ..., 'shape': ...}");
  npy->data = bytes + begin + length;
  npy->bytes = npy->view.size - begin - length;
  return read_type(&header, npy, err);
}

int npy_view(const char *path, NpyView *npy, Error *err) {
  *npy = (NpyView){0};
  int rc = file_view("npy", path, &npy->view, err);
  if (!rc) rc = read_view(path, npy, err);
  if (rc) npy_unview(npy);
  return rc;
}

void npy_unview(NpyView *npy) {
  file_unview(&npy->view);
}

int npy_read(const char *path, Npy *npy, Error *err) {
  NpyView view;
  *npy = (Npy){0};
  int rc = npy_view(path, &view, err);
  if (rc) return rc;
  npy->rank = view.rank;
  npy->count = view.count;
  memcpy(npy->shape, view.shape, sizeof npy->shape);
  rc = load(&view, npy, err);
  npy_unview(&view);
  if (rc) npy_free(npy);
  return rc;
}

void npy_free(Npy *npy) {
  free(npy->values);
  free(npy->exact);
  *npy = (Npy){0};
}

// ---- writing -----------------------------------------------------------------------------------

int npy_write_stored(const char *path, Dtype dtype, const void *stored, int rank,
                     const int64_t *shape, Error *err) {
  static const char *const descrs[DtCount] = {
      [DtF32] = "<f4", [DtF16] = "<f2", [DtF64] = "<f8", [DtI32] = "<i4",
      [DtU8] = "|u1",  [DtI64] = "<i8", [DtBool] = "|b1"};
  enum { HeaderSize = 256 }; // a multiple of 64; eight dimensions fit
  char header[HeaderSize + 1], list[200] = "";
  size_t count = 1, at = 0;
  if (!descrs[dtype])
    return err_set(err, ExitBadInput, "npy '%s': NumPy has no %s", path, dtype_name(dtype));
  for (int i = 0; i < rank; i++) {
    at += (size_t)snprintf(list + at, sizeof list - at, "%lld%s", (long long)shape[i],
                           i + 1 < rank ? ", "
                           : rank == 1  ? ","
                                        : "");
    count *= (size_t)shape[i];
  }
  memset(header, ' ', HeaderSize);
  int length =
      snprintf(header + 10, HeaderSize - 10,
               "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", descrs[dtype], list);
  header[10 + length] = ' ';
  header[HeaderSize - 1] = '\n';
  memcpy(header, "\x93NUMPY\1\0\xf6\0", 10); // 246 bytes follow the length
  FileWriter writer;
  int rc = file_begin("npy", path, &writer, err);
  if (!rc) rc = file_write(&writer, header, HeaderSize, err);
  if (!rc) rc = file_write(&writer, stored, count * dtype_size(dtype), err);
  return rc ? rc : file_commit(&writer, err);
}

int npy_write(const char *path, const float *values, int rank, const int64_t *shape, Error *err) {
  return npy_write_stored(path, DtF32, values, rank, shape, err);
}
