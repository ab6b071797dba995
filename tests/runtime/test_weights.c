// test_weights.c: safetensors written and read, every check of the reader, and damaged files.
#include "runtime/support.h"

// A file with this header and so many bytes of data.
static const char *make_file(const char *header, size_t data) {
  const char *path = temp_path("w.safetensors");
  size_t length = strlen(header);
  char *bytes = calloc(8 + length + data, 1);
  for (int i = 0; i < 8; i++) bytes[i] = (char)(length >> (8 * i));
  memcpy(bytes + 8, header, length);
  write_bytes(path, bytes, 8 + length + data);
  free(bytes);
  return path;
}

static void refuse(const char *path, const char *expected) {
  Error err = {0};
  Weights *weights;
  char message[600];
  assert_int_equal(weights_open(path, &weights, &err), ExitBadInput);
  assert_null(weights);
  snprintf(message, sizeof message, "weights '%s': %s", path, expected);
  assert_string_equal(err.message, message);
}

#define T(name, shape, begin, end)                                                                 \
  "\"" name "\":{\"dtype\":\"F32\",\"shape\":" shape ",\"data_offsets\":[" #begin "," #end "]}"

static void refuses(void **state) {
  (void)state;
  static const struct {
    const char *header;
    size_t data;
    const char *expected;
  } bad[] = {
      {"{" T("a", "[2]", 0, 8) "}", 7,
       "'a': ends at byte 8 of 7 data bytes; is the file truncated?"},
      {"{" T("a", "[2]", 0, 8) "}", 9, "1 bytes follow the last tensor"},
      {"{" T("a", "[3]", 0, 8) "}", 8, "'a': data_offsets span 8 bytes, shape and dtype make 12"},
      {"{" T("a", "[2]", 0, 8) "," T("b", "[2]", 4, 12) "}", 12,
       "'b': begins at data byte 4, the tensor before ends at 8: they overlap"},
      {"{" T("a", "[2]", 0, 8) "," T("b", "[2]", 12, 20) "}", 20,
       "'b': begins at data byte 12, the tensor before ends at 8: a hole"},
      {"{" T("a", "[4294967296,4294967296,4]", 0, 8) "}", 8,
       "'a': shape is too large for any file"},
      {"{" T("a", "[-1]", 0, 8) "}", 8, "'a': shape has an element that is not a size"},
      {"{" T("a", "[1,1,1,1,1,1,1,1,1]", 0, 4) "}", 4,
       "'a': shape is not a list of at most 8 numbers"},
      {"{" T("a", "[2]", 8, 0) "}", 8, "'a': data_offsets is not [begin, end]"},
      {"{" T("a", "[2]", 0, 8) "," T("a", "[2]", 0, 8) "}", 8,
       "header, byte 57: duplicate object key near '\"a\"'"},
      {"{" T("", "[2]", 0, 8) "}", 8, "a tensor has an empty name"},
      {"{" T("a\\u0000b", "[2]", 0, 8) "}", 8,
       "header, byte 11: NUL byte in object key not supported near '\"a\\u0000b\"'"},
      {"{\"a\":{\"dtype\":\"F31\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8,
       "'a': dtype 'F31' is not known"},
      {"{\"__metadata__\":{\"a\":1}}", 0, "__metadata__ 'a' is not a string"},
      {"[]", 0, "the header does not begin with '{': this is not a safetensors file; in Python, "
           "safetensors.torch.save_file(model.state_dict(), FILE) writes one"},
      {"", 0, "the header does not begin with '{': this is not a safetensors file; in Python, "
           "safetensors.torch.save_file(model.state_dict(), FILE) writes one"},
  };
  for (int i = 0; i < COUNT(bad); i++)
    refuse(make_file(bad[i].header, bad[i].data), bad[i].expected);
}

static void refuses_sizes(void **state) {
  (void)state;
  const char *path = temp_path("s.safetensors");
  write_bytes(path, "1234567", 7);
  refuse(path, "has 7 bytes, a safetensors file has at least 8");
  write_bytes(path, "\xff\0\0\0\0\0\0\0{}", 10);
  refuse(path, "header of 255 bytes in a file of 10; is the file truncated?");
  write_bytes(path, "\0\0\0\0\0\0\0\x80{}", 10);
  refuse(path,
         "header of 9223372036854775808 bytes, most is 100000000; is this a safetensors file?");
  refuse("/nonexistent/w", "No such file or directory");
  refuse("/tmp", "is not a regular file");
}

static const float kValues[6] = {1.5f, -2, 3, 4, 5, 1e-3f};
static const uint8_t kSmall[3] = {1, 2, 255};
static const uint16_t kHalf[2] = {0x3c00, 0xc000};

// Given out of the order the file has them in.
static int write_sample(const char *path, Error *err) {
  const WeightTensor tensors[] = {
      {"small", "U8", 1, {3}, kSmall, sizeof kSmall},
      {"half", "F16", 2, {1, 2}, kHalf, sizeof kHalf},
      {"fc.weight", "F32", 2, {2, 3}, kValues, sizeof kValues},
      {"empty", "F32", 1, {0}, kValues, 0},
  };
  const char *const metadata[] = {"format", "pt", NULL};
  return weights_write(path, tensors, COUNT(tensors), metadata, err);
}

static void round_trip(void **state) {
  (void)state;
  const char *path = temp_path("r.safetensors");
  Error err = {0};
  Weights *weights;
  float values[6];
  assert_int_equal(write_sample(path, &err), ExitOk);
  assert_int_equal(weights_open(path, &weights, &err), ExitOk);
  assert_int_equal(weights_count(weights), 4);
  const WeightTensor *fc = weights_find(weights, "fc.weight");
  assert_true(fc && fc->rank == 2 && fc->shape[0] == 2 && fc->shape[1] == 3);
  assert_int_equal((uintptr_t)fc->data % 4, 0);
  assert_int_equal(weights_floats(fc, values, &err), ExitOk);
  assert_memory_equal(values, kValues, sizeof kValues);
  assert_int_equal(weights_floats(weights_find(weights, "half"), values, &err), ExitOk);
  assert_true(values[0] == 1 && values[1] == -2);
  assert_int_equal(weights_floats(weights_find(weights, "small"), values, &err), ExitOk);
  assert_true(values[2] == 255);
  assert_null(weights_find(weights, "none"));
  assert_string_equal(weights_metadata(weights, "format"), "pt");
  assert_null(weights_metadata(weights, "other"));
  weights_close(weights);
}

static const char *write_index(const char *text) {
  const char *path = temp_path("w.index.json");
  write_bytes(path, text, strlen(text));
  return path;
}

static void write_shard(const char *file, const char *name, float value) {
  Error err = {0};
  WeightTensor tensor = {
      .name = name, .dtype = "F32", .rank = 1, .shape = {1}, .data = &value, .bytes = 4};
  assert_int_equal(weights_write(temp_path(file), &tensor, 1, NULL, &err), ExitOk);
}

static void shards(void **state) {
  (void)state;
  Error err = {0};
  Weights *weights;
  float value;
  write_shard("one.safetensors", "a", 1);
  write_shard("two.safetensors", "b", 2);
  const char *path = write_index("{\"metadata\": {\"total_size\": 8}, \"weight_map\": "
                                 "{\"a\": \"one.safetensors\", \"b\": \"two.safetensors\"}}");
  assert_int_equal(weights_open(path, &weights, &err), ExitOk);
  assert_int_equal(weights_count(weights), 2);
  for (int i = 0; i < 2; i++) {
    assert_int_equal(weights_floats(weights_find(weights, i ? "b" : "a"), &value, &err), ExitOk);
    assert_true(value == i + 1);
  }
  assert_null(weights_find(weights, "c"));
  weights_close(weights);
}

static void wrong_indices(void **state) {
  (void)state;
  static const struct {
    const char *text, *expected;
  } bad[] = {
      {"{\"weight_map\": {\"c\": \"one.safetensors\"}}", "'c' is not in one.safetensors"},
      {"{\"weight_map\": {\"a\": \"../one.safetensors\"}}",
       "'../one.safetensors' is not a .safetensors file in its folder"},
      {"{\"weight_map\": {\"a\": \"w.index.json\"}}",
       "'w.index.json' is not a .safetensors file in its folder"},
      {"{\"weight_map\": {\"a\": 1}}", "the file of 'a' is not a string"},
      {"{\"weight_map\": {}}", "there is no \"weight_map\" of tensors and their files"},
      {"{\"a\": ", "line 1: unexpected token near end of file"},
  };
  write_shard("one.safetensors", "a", 1);
  for (int i = 0; i < (int)(sizeof bad / sizeof bad[0]); i++)
    refuse(write_index(bad[i].text), bad[i].expected);
  Error err = {0};
  Weights *weights;
  const char *path = write_index("{\"weight_map\": {\"a\": \"none.safetensors\"}}");
  assert_int_not_equal(weights_open(path, &weights, &err), ExitOk);
  assert_non_null(strstr(err.message, "none.safetensors': No such file"));
}

static void unsupported_numbers(void **state) {
  (void)state;
  Error err = {0};
  float value;
  const WeightTensor tensor = {"q", "F8_E4M3", 1, {1}, kSmall, 1};
  assert_int_equal(weights_floats(&tensor, &value, &err), ExitBadInput);
  assert_string_equal(err.message, "weight 'q': dtype F8_E4M3 is not supported; convert it to F32");
}

// Every way to cut the file must be refused; every damaged byte must be refused or read in bounds.
static void damaged(void **state) {
  (void)state;
  const char *path = temp_path("d.safetensors"), *cut = temp_path("cut.safetensors");
  Error err = {0};
  size_t size;
  random_seed("weights damaged");
  assert_int_equal(write_sample(path, &err), ExitOk);
  char *bytes = read_bytes(path, &size);
  for (size_t length = 0; length < size; length++) {
    Weights *weights;
    write_bytes(cut, bytes, length);
    assert_int_equal(weights_open(cut, &weights, &err), ExitBadInput);
  }
  for (size_t i = 0; i < 4 * size; i++) {
    Weights *weights;
    char before = bytes[i % size];
    bytes[i % size] = (char)random_next();
    write_bytes(cut, bytes, size);
    if (!weights_open(cut, &weights, &err)) {
      for (int t = 0; t < weights_count(weights); t++) {
        float values[64];
        assert_true(weights_at(weights, t)->bytes <= 24);
        weights_floats(weights_at(weights, t), values, &err);
      }
      weights_close(weights);
    }
    bytes[i % size] = before;
  }
  free(bytes);
}

static void failing_writes(void **state) {
  (void)state;
  const char *path = temp_path("f.safetensors");
  Error err = {0};
  write_bytes(path, "old", 3);
  int n = 0, rc = ExitBadInput;
  for (; rc; n++) {
    file_fail_after(n);
    rc = write_sample(path, &err);
    file_fail_after(-1);
    if (!rc) break;
    size_t size;
    char *bytes = read_bytes(path, &size), expected[400];
    assert_string_equal(bytes, "old"); // nothing of the new file shows
    snprintf(expected, sizeof expected, "weights '%s': No space left on device", path);
    assert_string_equal(err.message, expected);
    free(bytes);
  }
  assert_int_equal(n, 7); // length, header, four tensors, the flush
}

static void no_memory(void **state) {
  (void)state;
  const char *path = temp_path("m.safetensors");
  Error err = {0};
  assert_int_equal(write_sample(path, &err), ExitOk);
  Weights *weights = NULL;
  for (int n = 0, rc = 1; rc; n++) {
    heap_fail_after(n);
    rc = weights_open(path, &weights, &err);
    heap_fail_after(-1);
    assert_true(!rc || strstr(err.message, "out of host memory"));
  }
  weights_close(weights);
  heap_fail_after(0);
  assert_int_equal(write_sample(path, &err), ExitNoDevice);
  heap_fail_after(-1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(refuses),    cmocka_unit_test(refuses_sizes),
      cmocka_unit_test(round_trip), cmocka_unit_test(unsupported_numbers),
      cmocka_unit_test(shards),     cmocka_unit_test(wrong_indices),
      cmocka_unit_test(damaged),    cmocka_unit_test(failing_writes),
      cmocka_unit_test(no_memory),
  };
  return cmocka_run_group_tests(tests, NULL, temp_clean);
}
