//@ if #k.parameters + #k.states > 0 then
// ---- weights ----------------------------------------------------------------------------------

// A safetensors file: the header's size, the header in JSON, the bytes of all tensors.
typedef struct Weights {
  FILE *file;                 // null: the bytes are in memory
  const unsigned char *bytes; // null: the bytes are in a file
  uint64_t size;              // of the whole file
  char *header;
  uint64_t header_bytes;
  const char *name; // for messages
} Weights;

// A tensor as the header describes it.
typedef struct Stored {
  char dtype[8];
  int rank;
  int64_t shape[8];
  uint64_t begin, end; // in the file
} Stored;

// A parameter or a state of the network.
typedef struct Value {
  const char *name; // in the weights file
  const char *dtype;
  int rank;
  int64_t shape[8];
  size_t count, bytes;
  size_t offset;   // in net->memory, or in the scratch memory of create
  int scratch;     // which of the two
  int constant;    // a state initialized with a constant: the file may lack it
  uint32_t fill;   // the constant's bits
  size_t given;    // where $(k.name)_parameters has its pointer
} Value;

//@ local function rows(list, name)
//@   if #list == 0 then return end
static const Value $(name)[] = {
//@   for _, t in ipairs(list) do
//@     local constant, fill = 0, 0
//@     if t.role ~= "param" and t.constant then constant, fill = 1, t.fill end
  {"$(t.name)", "$(t.dtype)", $(t.rank), {$(t.rank > 0 and t.dims or "0")}, $(t.count), $(t.bytes),
   $(t.offset), $(t.space == "init" and 1 or 0), $(constant), $(fill),
   offsetof($(k.name)_parameters, $(t.ident))},
//@   end
};

//@ end
//@ rows(k.parameters, "parameters")
//@ rows(k.states, "states")
//@ local counts = {}
//@ if #k.parameters > 0 then counts[1] = "kParameters = " .. #k.parameters end
//@ if #k.states > 0 then counts[#counts + 1] = "kStates = " .. #k.states end
enum { $(table.concat(counts, ", ")) };

// ---- the header's JSON: each function moves `at` past what it has read, or returns 0 ----

typedef struct Json {
  const char *at, *end;
} Json;

static int take(Json *json, char wanted) {
  while (json->at < json->end && strchr(" \t\r\n", *json->at)) json->at++;
  if (json->at == json->end || *json->at != wanted) return 0;
  json->at++;
  return 1;
}

// A string, truncated if there is no room; only escapes of one character are decoded.
static int take_text(Json *json, char *text, size_t room) {
  size_t length = 0;
  if (!take(json, '"')) return 0;
  for (; json->at < json->end && *json->at != '"'; json->at++) {
    if (*json->at == '\\' && json->end - json->at > 1 && json->at[1] != 'u') json->at++;
    if (length + 1 < room) text[length++] = *json->at;
  }
  if (room) text[length] = 0;
  return take(json, '"');
}

static int take_number(Json *json, uint64_t *number) {
  const char *begin;
  (void)take(json, 0); // blanks
  begin = json->at;
  for (*number = 0; json->at < json->end && *json->at >= '0' && *json->at <= '9'; json->at++) {
    if (*number > UINT64_MAX / 16) return 0;
    *number = *number * 10 + (uint64_t)(*json->at - '0');
  }
  return json->at > begin;
}

// Skips any value, by its brackets and strings.
static int skip_value(Json *json) {
  int depth = 0;
  do {
    (void)take(json, 0);
    if (json->at == json->end) return 0;
    if (*json->at == '"') {
      if (!take_text(json, NULL, 0)) return 0;
      continue;
    }
    if (*json->at == '{' || *json->at == '[') depth++;
    if (*json->at == '}' || *json->at == ']') depth--;
    if (depth < 0) return 1; // the end of the enclosing value
    json->at++;
  } while (depth > 0 || (json->at < json->end && !strchr(",}] \t\r\n", *json->at)));
  return 1;
}

static int take_shape(Json *json, Stored *stored) {
  stored->rank = 0;
  if (!take(json, '[')) return 0;
  if (take(json, ']')) return 1;
  do {
    uint64_t size;
    if (stored->rank == 8 || !take_number(json, &size) || size > INT64_MAX) return 0;
    stored->shape[stored->rank++] = (int64_t)size;
  } while (take(json, ','));
  return take(json, ']');
}

static int take_tensor(Json *json, Stored *stored) {
  int seen = 0;
  if (!take(json, '{')) return 0;
  do {
    char key[16];
    int ok;
    if (!take_text(json, key, sizeof key) || !take(json, ':')) return 0;
    if (!strcmp(key, "dtype"))
      ok = take_text(json, stored->dtype, sizeof stored->dtype), seen |= 1;
    else if (!strcmp(key, "shape"))
      ok = take_shape(json, stored), seen |= 2;
    else if (!strcmp(key, "data_offsets"))
      ok = take(json, '[') && take_number(json, &stored->begin) && take(json, ',') &&
           take_number(json, &stored->end) && take(json, ']'), seen |= 4;
    else
      ok = skip_value(json);
    if (!ok) return 0;
  } while (take(json, ','));
  return take(json, '}') && seen == 7;
}

// *found: whether the file has a tensor of that name.
static Status find_stored($(k.name) *net, const Weights *weights, const char *name, Stored *stored,
                          int *found) {
  Json json = {weights->header, weights->header + weights->header_bytes};
  int ok = take(&json, '{');
  *found = 0;
  if (ok && take(&json, '}')) return $(k.NAME)_OK;
  while (ok && !*found) {
    char key[256];
    ok = take_text(&json, key, sizeof key) && take(&json, ':');
    *found = ok && !strcmp(key, name);
    ok = ok && (*found ? take_tensor(&json, stored) : skip_value(&json));
    if (ok && !*found && !take(&json, ',')) return take(&json, '}') ? $(k.NAME)_OK
        : fail(net, $(k.NAME)_ERROR_WEIGHTS_FORMAT, "%s: its header is damaged", weights->name);
  }
  if (!ok)
    return fail(net, $(k.NAME)_ERROR_WEIGHTS_FORMAT, "%s: its header is damaged", weights->name);
  uint64_t data = weights->size - 8 - weights->header_bytes;
  if (stored->begin > stored->end || stored->end > data)
    return fail(net, $(k.NAME)_ERROR_WEIGHTS_FORMAT, "%s: it ends before tensor '%s' does",
                weights->name, name);
  stored->begin += 8 + weights->header_bytes;
  stored->end += 8 + weights->header_bytes;
  return $(k.NAME)_OK;
}

// ---- its bytes ----

static int read_bytes(const Weights *weights, uint64_t at, void *to, size_t bytes) {
  if (!weights->file) {
    memcpy(to, weights->bytes + at, bytes);
    return 1;
  }
  return !fseek(weights->file, (long)at, SEEK_SET) && fread(to, 1, bytes, weights->file) == bytes;
}

static Status measure_weights($(k.name) *net, Weights *weights) {
  long size;
  if (fseek(weights->file, 0, SEEK_END) || (size = ftell(weights->file)) < 0)
    return fail(net, $(k.NAME)_ERROR_WEIGHTS_FILE, "%s: cannot be read", weights->name);
  weights->size = (uint64_t)size;
  return $(k.NAME)_OK;
}

static Status open_weights($(k.name) *net, const $(k.name)_options *options, Weights *weights) {
  unsigned char length[8];
  int i;
  memset(weights, 0, sizeof *weights);
  weights->name = "the weights in memory";
  weights->bytes = (const unsigned char *)options->weights;
  weights->size = options->weights_bytes;
//@ if k.weights_in_code then
  if (!weights->bytes && !options->weights_path) {
    weights->bytes = (const unsigned char *)$(k.name)_weights;
    weights->size = sizeof $(k.name)_weights;
  }
//@ end
  if (!weights->bytes) {
    weights->name = options->weights_path ? options->weights_path : "$(k.name).safetensors";
    weights->file = fopen(weights->name, "rb");
    if (!weights->file)
      return fail(net, $(k.NAME)_ERROR_WEIGHTS_FILE, "%s: cannot be opened", weights->name);
    TRY(measure_weights(net, weights));
  }
  if (weights->size < 8 || !read_bytes(weights, 0, length, 8))
    return fail(net, $(k.NAME)_ERROR_WEIGHTS_FORMAT, "%s: is not a safetensors file", weights->name);
  for (i = 8; i-- > 0;) weights->header_bytes = weights->header_bytes << 8 | length[i];
  if (weights->header_bytes > weights->size - 8)
    return fail(net, $(k.NAME)_ERROR_WEIGHTS_FORMAT, "%s: is not a safetensors file, or cut short",
                weights->name);
  weights->header = (char *)malloc((size_t)weights->header_bytes + 1);
  if (!weights->header) return fail(net, $(k.NAME)_ERROR_HOST_MEMORY, "no memory for a header");
  if (!read_bytes(weights, 8, weights->header, (size_t)weights->header_bytes))
    return fail(net, $(k.NAME)_ERROR_WEIGHTS_FILE, "%s: cannot be read", weights->name);
  return $(k.NAME)_OK;
}

static void close_weights(Weights *weights) {
  if (weights->file) fclose(weights->file);
  free(weights->header);
}

// ---- values ----

static float float_of_half(uint16_t bits) {
  uint32_t sign = (uint32_t)(bits & 0x8000) << 16;
  uint32_t exponent = bits >> 10 & 31, fraction = bits & 1023;
  uint32_t word = sign | (exponent == 31 ? 0x7f800000 : (exponent + 112) << 23) | fraction << 13;
  float value;
  if (!exponent) { // zero, or less than 2^-14
    value = (float)fraction * (1.0f / 16777216);
    return sign ? -value : value;
  }
  memcpy(&value, &word, sizeof value);
  return value;
}

// Element i of the stored bytes, as float; dtypes are little endian.
static float stored_float(const char *dtype, const unsigned char *bytes, size_t i) {
  uint16_t half;
  uint32_t word;
  double wide;
  float value;
  if (!strcmp(dtype, "F64")) {
    memcpy(&wide, bytes + 8 * i, sizeof wide);
    return (float)wide;
  }
  memcpy(&half, bytes + 2 * i, sizeof half);
  if (!strcmp(dtype, "F16")) return float_of_half(half);
  word = (uint32_t)half << 16;
  memcpy(&value, &word, sizeof value);
  return value;
}

static size_t stored_size(const char *dtype) { // bytes per element; 0: no conversion to f32
  return !strcmp(dtype, "F32") ? 4 : !strcmp(dtype, "F16") || !strcmp(dtype, "BF16") ? 2
       : !strcmp(dtype, "F64") ? 8 : 0;
}

static int same_dtype(const char *stored, const char *dtype) { // "BOOL", "bool"
  while (*stored && (*stored | 32) == *dtype) stored++, dtype++;
  return !*stored && !*dtype;
}

// Converts a tensor to the network's dtype, into value->bytes bytes of `to`.
static int convert(const Value *value, const Stored *stored, const unsigned char *bytes, void *to) {
  size_t size = stored_size(stored->dtype);
  if (same_dtype(stored->dtype, value->dtype)) {
    if (stored->end - stored->begin != value->bytes) return 0;
    memcpy(to, bytes, value->bytes);
    return 1;
  }
  if (!size || strcmp(value->dtype, "f32") || stored->end - stored->begin != value->count * size)
    return 0;
  for (size_t i = 0; i < value->count; i++)
    ((float *)to)[i] = stored_float(stored->dtype, bytes, i);
  return 1;
}

static Status convert_value($(k.name) *net, const Weights *weights, const Value *value,
                            const Stored *stored, unsigned char *from, void *made, CUdeviceptr to,
                            CUstream stream) {
  if (!read_bytes(weights, stored->begin, from, (size_t)(stored->end - stored->begin)))
    return fail(net, $(k.NAME)_ERROR_WEIGHTS_FILE, "%s: cannot be read", weights->name);
  if (!convert(value, stored, from, made))
    return fail(net, $(k.NAME)_ERROR_WEIGHTS_TENSOR, "%s: '%s' is %s, not %s", weights->name,
                value->name, stored->dtype, value->dtype);
  TRY(check(net, cuMemcpyHtoDAsync(to, made, value->bytes, stream), value->name));
  return check(net, cuStreamSynchronize(stream), value->name); // `made` is freed
}

static Status read_value($(k.name) *net, const Weights *weights, const Value *value,
                         const Stored *stored, CUdeviceptr to, CUstream stream) {
  unsigned char *from = (unsigned char *)malloc((size_t)(stored->end - stored->begin) + 1);
  void *made = malloc(value->bytes + 1);
  Status status = from && made
                      ? convert_value(net, weights, value, stored, from, made, to, stream)
                      : fail(net, $(k.NAME)_ERROR_HOST_MEMORY, "no memory for '%s'", value->name);
  free(from);
  free(made);
  return status;
}

//@ if #k.states > 0 then
//@   if k.runtime then
static Status fill($(k.name) *net, const Value *value, CUdeviceptr to, CUstream stream) {
  if (!value->count) return $(k.NAME)_OK;
  size_t size = value->bytes / value->count;
  if (!value->fill) return check(net, cudaMemsetAsync(to, 0, value->bytes, stream), value->name);
  unsigned char *made = (unsigned char *)malloc(value->bytes);
  if (!made) return fail(net, $(k.NAME)_ERROR_HOST_MEMORY, "no memory for '%s'", value->name);
  for (size_t i = 0; i < value->count; i++) memcpy(made + i * size, &value->fill, size);
  Status status = check(net, cuMemcpyHtoDAsync(to, made, value->bytes, stream), value->name);
  if (status == $(k.NAME)_OK) status = check(net, cudaStreamSynchronize(stream), value->name);
  free(made);
  return status;
}
//@   else
static Status fill($(k.name) *net, const Value *value, CUdeviceptr to, CUstream stream) {
  if (!value->count) return $(k.NAME)_OK;
  size_t size = value->bytes / value->count;
  return check(net,
               size == 4   ? cuMemsetD32Async(to, value->fill, value->count, stream)
               : size == 2 ? cuMemsetD16Async(to, (unsigned short)value->fill, value->count, stream)
                           : cuMemsetD8Async(to, (unsigned char)value->fill, value->bytes, stream),
               value->name);
}
//@   end

//@ end
static Status load_value($(k.name) *net, const Weights *weights, const Value *value, CUdeviceptr to,
                         CUstream stream) {
  Stored stored;
  int found;
  TRY(find_stored(net, weights, value->name, &stored, &found));
//@ if #k.states > 0 then
  if (!found && value->constant) return fill(net, value, to, stream);
//@ end
  if (!found)
    return fail(net, $(k.NAME)_ERROR_WEIGHTS_TENSOR, "%s: there is no tensor '%s'", weights->name,
                value->name);
  int same = stored.rank == value->rank;
  for (int i = 0; same && i < value->rank; i++) same = stored.shape[i] == value->shape[i];
  if (!same)
    return fail(net, $(k.NAME)_ERROR_WEIGHTS_TENSOR,
                "%s: '%s' has another shape than the network's", weights->name, value->name);
  return read_value(net, weights, value, &stored, to, stream);
}

static $(k.address)place_of(const $(k.name) *net, const Value *value, $(k.address)scratch) {
  return (value->scratch ? scratch : net->memory) + value->offset;
}

static Status load_values($(k.name) *net, const Weights *weights, const Value *values, int count,
                          $(k.address)scratch, CUstream stream) {
  for (int i = 0; i < count; i++)
    TRY(load_value(net, weights, &values[i], place_of(net, &values[i], scratch), stream));
  return $(k.NAME)_OK;
}

static Status take_given($(k.name) *net, const $(k.name)_options *options, const Value *values,
                         int count, $(k.address)scratch) {
  for (int i = 0; i < count; i++) {
    CUdeviceptr from;
    CUdeviceptr to = place_of(net, &values[i], scratch);
    memcpy(&from, (const char *)options->parameters + values[i].given, sizeof from);
//@ if #k.states > 0 then
    if (!from && values[i].constant) {
      TRY(fill(net, &values[i], to, options->stream));
      continue;
    }
//@ end
    if (!from)
      return fail(net, $(k.NAME)_ERROR_ARGUMENT, "the pointer of '%s' is null", values[i].name);
    TRY(check(net, cuMemcpyDtoDAsync(to, from, values[i].bytes, options->stream), values[i].name));
  }
  return $(k.NAME)_OK;
}

static Status load_weights($(k.name) *net, const $(k.name)_options *options, $(k.address)scratch) {
  Weights weights;
  Status status = open_weights(net, options, &weights);
//@ for _, name in ipairs{#k.parameters > 0 and "parameters" or "", #k.states > 0 and "states" or ""} do
//@   if name ~= "" then
  if (status == $(k.NAME)_OK)
    status = load_values(net, &weights, $(name), $(name == "states" and "kStates" or "kParameters"),
                         scratch, options->stream);
//@   end
//@ end
  close_weights(&weights);
  return status;
}

static Status fill_memory($(k.name) *net, const $(k.name)_options *options, $(k.address)scratch) {
  if (!options->parameters) return load_weights(net, options, scratch);
//@ for _, name in ipairs{#k.parameters > 0 and "parameters" or "", #k.states > 0 and "states" or ""} do
//@   if name ~= "" then
  TRY(take_given(net, options, $(name), $(name == "states" and "kStates" or "kParameters"),
                 scratch));
//@   end
//@ end
  return $(k.NAME)_OK;
}

//@ end
