// test_checkpoint.c: checkpoints that are cut, flipped, missing, or whose writer is killed, runs
// out of disk or of memory: what was written before is found again.
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

#include "runtime/support.h"

enum { Values = 20 };

// A checkpoint of step n: all values are n.
static int write_step(const char *path, int step, Error *err) {
  float values[Values], wide[Values * 1000];
  int64_t count = step;
  char text[16];
  for (int i = 0; i < Values; i++) values[i] = (float)step;
  for (int i = 0; i < Values * 1000; i++) wide[i] = (float)step;
  snprintf(text, sizeof text, "%d", step);
  const WeightTensor tensors[] = {
      {"fc.weight", "F32", 2, {4, 5}, values, sizeof values},
      {"fc.bias", "F32", 1, {0}, values, 0},
      {"count", "I64", 0, {0}, &count, sizeof count},
      {"wide", "F32", 1, {Values * 1000}, wide, sizeof wide},
  };
  const char *const metadata[] = {"step", text, "note", "x", NULL};
  return checkpoint_write(path, tensors, step < 1000 ? 3 : 4, metadata, err);
}

static void must_write(const char *path, int step) {
  Error err = {0};
  if (write_step(path, step, &err)) fail_msg("%s", err.message);
}

// The step of an opened checkpoint, all of which must be of that step.
static int check_step(Weights *weights) {
  float values[Values];
  Error err = {0};
  int step = atoi(weights_metadata(weights, "step"));
  assert_int_equal(weights_count(weights), step < 1000 ? 3 : 4);
  assert_string_equal(weights_metadata(weights, "note"), "x");
  const WeightTensor *weight = weights_find(weights, "fc.weight");
  assert_true(weight->rank == 2 && weight->shape[0] == 4 && weight->shape[1] == 5);
  assert_int_equal(weights_floats(weight, values, &err), ExitOk);
  for (int i = 0; i < Values; i++) assert_true(values[i] == (float)step);
  weights_close(weights);
  return step;
}

static int read_step(const char *path, char **fell_back) {
  Error err = {0};
  Weights *weights;
  if (checkpoint_open(path, &weights, fell_back, &err)) fail_msg("%s", err.message);
  return check_step(weights);
}

static void forget(const char *path) {
  static const char *const endings[] = {"", ".previous", ".tmp"};
  for (int i = 0; i < COUNT(endings); i++) {
    char place[300];
    snprintf(place, sizeof place, "%s%s", path, endings[i]);
    unlink(place);
  }
}

static const char *beside(const char *path, const char *ending) {
  return temp_path(strcat(strcpy((char[300]){0}, strrchr(path, '/') + 1), ending));
}

static void round_trip(void **state) {
  (void)state;
  const char *path = temp_path("r"), *again = temp_path("s");
  char *fell_back;
  size_t size, other;
  must_write(path, 1);
  assert_int_not_equal(access(beside(path, ".previous"), F_OK), 0);
  must_write(path, 2), must_write(path, 3), must_write(again, 3);
  assert_int_equal(read_step(path, &fell_back), 3);
  assert_null(fell_back);
  assert_int_equal(read_step(beside(path, ".previous"), &fell_back), 2);
  assert_int_not_equal(access(beside(path, ".tmp"), F_OK), 0);
  char *left = read_bytes(path, &size), *right = read_bytes(again, &other);
  assert_int_equal(size, other); // the same tensors: the same bytes
  assert_memory_equal(left, right, size);
  free(left), free(right);
}

// ---- damage ------------------------------------------------------------------------------------

// Opens a damaged checkpoint of step 2: what is before is found, or nothing was lost.
static void expect_fall_back(const char *path, bool harmless) {
  char *fell_back, start[300], end[300];
  int step = read_step(path, &fell_back);
  if (harmless && step == 2) return assert_null(fell_back);
  assert_int_equal(step, 1);
  assert_non_null(fell_back);
  snprintf(start, sizeof start, "weights '%s': ", path);
  snprintf(end, sizeof end, "; continuing from '%s.previous'", path);
  assert_int_equal(strncmp(fell_back, start, strlen(start)), 0);
  assert_string_equal(fell_back + strlen(fell_back) - strlen(end), end);
  free(fell_back);
}

static void cut_anywhere(void **state) {
  (void)state;
  const char *path = temp_path("c");
  size_t size;
  must_write(path, 1), must_write(path, 2);
  char *bytes = read_bytes(path, &size);
  for (size_t length = 0; length < size; length++) {
    write_bytes(path, bytes, length);
    expect_fall_back(path, false);
  }
  free(bytes);
}

static void flipped_anywhere(void **state) {
  (void)state;
  const char *path = temp_path("f");
  size_t size;
  random_seed("checkpoint flipped");
  must_write(path, 1), must_write(path, 2);
  char *bytes = read_bytes(path, &size);
  for (size_t i = 0; i < 9 * size; i++) {
    char before = bytes[i % size];
    bytes[i % size] = (char)(i < 8 * size ? before ^ 1 << i / size : (char)random_next());
    write_bytes(path, bytes, size);
    expect_fall_back(path, bytes[i % size] == before || before == ' '); // a tab is a space
    bytes[i % size] = before;
  }
  free(bytes);
}

// Another shape or dtype of as many bytes, another name, another key.
static void another_header(void **state) {
  (void)state;
  static const char *const changes[][2] = {
      {"[4,5]", "[5,4]"}, {"\"I64\"", "\"U64\""}, {"\"step\"", "\"stop\""}, {"fc.bias", "fc.bian"}};
  const char *path = temp_path("h");
  size_t size;
  must_write(path, 1), must_write(path, 2);
  char *bytes = read_bytes(path, &size);
  for (int i = 0; i < COUNT(changes); i++) {
    size_t length = strlen(changes[i][0]);
    char *at = memmem(bytes, size, changes[i][0], length);
    memcpy(at, changes[i][1], length);
    write_bytes(path, bytes, size);
    expect_fall_back(path, false);
    memcpy(at, changes[i][0], length);
  }
  free(bytes);
}

static void left_overs_are_replaced(void **state) {
  (void)state;
  const char *path = temp_path("l");
  char *fell_back;
  must_write(path, 1000); // large
  assert_int_equal(rename(path, beside(path, ".tmp")), 0);
  must_write(path, 2);
  assert_int_equal(read_step(path, &fell_back), 2);
  assert_null(fell_back);
}

static void messages(void **state) {
  (void)state;
  const char *path = temp_path("m");
  char *fell_back, expected[900];
  Error err = {0};
  Weights *weights;
  size_t size;
  assert_int_equal(checkpoint_open(path, &weights, &fell_back, &err), ExitBadInput);
  assert_true(!weights && !fell_back);
  snprintf(expected, sizeof expected, "weights '%s': No such file or directory", path);
  assert_string_equal(err.message, expected);
  must_write(path, 1), must_write(path, 2);
  char *bytes = read_bytes(path, &size);
  bytes[size - 1] ^= 1;
  write_bytes(path, bytes, size);
  assert_int_equal(read_step(path, &fell_back), 1);
  snprintf(expected, sizeof expected,
           "weights '%s': 'fc.weight' does not match its checksum; continuing from '%s.previous'",
           path, path);
  assert_string_equal(fell_back, expected);
  free(fell_back);
  char *note = strstr(bytes + 8, "\"note\":\"x\"");
  note[8] = 'y';
  write_bytes(path, bytes, size);
  assert_int_equal(read_step(path, &fell_back), 1);
  snprintf(expected, sizeof expected,
           "weights '%s': the header does not match its checksum; continuing from '%s.previous'",
           path, path);
  assert_string_equal(fell_back, expected);
  free(fell_back), free(bytes);
  unlink(path);
  assert_int_equal(read_step(path, &fell_back), 1);
  snprintf(expected, sizeof expected,
           "weights '%s': No such file or directory; continuing from '%s.previous'", path, path);
  assert_string_equal(fell_back, expected);
  free(fell_back);
  write_bytes(path, "junk", 4), write_bytes(beside(path, ".previous"), "", 0);
  assert_int_equal(checkpoint_open(path, &weights, &fell_back, &err), ExitBadInput);
  snprintf(expected, sizeof expected,
           "weights '%s': has 4 bytes, a safetensors file has at least 8; "
           "weights '%s.previous': has 0 bytes, a safetensors file has at least 8",
           path, path);
  assert_string_equal(err.message, expected);
}

static void other_weights_are_refused(void **state) {
  (void)state;
  const char *path = temp_path("o");
  char *fell_back, expected[300];
  float value = 1;
  Error err = {0};
  Weights *weights;
  const WeightTensor tensor = {"a", "F32", 1, {1}, &value, 4}, twice[2] = {tensor, tensor};
  assert_int_equal(weights_write(path, &tensor, 1, NULL, &err), ExitOk);
  assert_int_equal(checkpoint_open(path, &weights, &fell_back, &err), ExitBadInput);
  snprintf(expected, sizeof expected,
           "weights '%s': has no checksums; it is not a checkpoint of a training run", path);
  assert_string_equal(err.message, expected);
  assert_int_equal(checkpoint_write(path, twice, 2, NULL, &err), ExitBadInput);
  snprintf(expected, sizeof expected,
           "checkpoint '%s': a tensor's name is empty, used twice or not UTF-8", path);
  assert_string_equal(err.message, expected);
  assert_int_not_equal(access(beside(path, ".tmp"), F_OK), 0);
  assert_int_equal(checkpoint_write(path, &tensor, 1, NULL, &err), ExitOk);
  assert_int_equal(checkpoint_open(path, &weights, &fell_back, &err), ExitOk);
  weights_close(weights);
}

// ---- writers that fail -------------------------------------------------------------------------

// Every write, rename and sync of a checkpoint fails once: the one before is found, in its place.
static void failing_writes(void **state) {
  (void)state;
  const char *path = temp_path("w");
  char expected[300];
  int n = 0;
  snprintf(expected, sizeof expected, "checkpoint '%s': No space left on device", path);
  for (int rc = 1; rc; n++) {
    Error err = {0};
    char *fell_back;
    forget(path);
    must_write(path, 1);
    file_fail_after(n);
    rc = write_step(path, 2, &err);
    file_fail_after(-1);
    if (rc) assert_string_equal(err.message, expected);
    int step = read_step(path, &fell_back);
    assert_true(step == (rc ? 1 : 2) || (n == 8 && step == 2)); // 8: the folder's sync
    assert_null(fell_back);                                     // 7: between the two renames
    assert_int_not_equal(access(beside(path, ".tmp"), F_OK), 0);
    free(fell_back);
  }
  assert_int_equal(n, 10); // length, header, three tensors, flush, two renames, the folder's sync
}

static int in_child(void (*work)(const char *path), const char *path) {
  int status;
  fflush(NULL);
  pid_t child = fork();
  assert_true(child >= 0);
  if (!child) work(path);
  assert_int_equal(waitpid(child, &status, 0), child);
  return status;
}

static void fill_disk(const char *path) { // files end at 4096 bytes
  Error err = {0};
  char expected[300];
  signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &(struct rlimit){4096, 4096});
  snprintf(expected, sizeof expected, "checkpoint '%s': File too large", path);
  _exit(write_step(path, 1000, &err) != ExitBadInput || strcmp(err.message, expected));
}

static void full_disk(void **state) {
  (void)state;
  const char *path = temp_path("d");
  char *fell_back;
  must_write(path, 1);
  assert_int_equal(in_child(fill_disk, path), 0);
  assert_int_equal(read_step(path, &fell_back), 1);
  assert_null(fell_back);
  assert_int_not_equal(access(beside(path, ".tmp"), F_OK), 0);
}

// Writes checkpoints of ever later steps; tells through `done` which is the last complete one.
static void write_on(const char *path, int step, volatile int *done) {
  Error err = {0};
  for (;; step++) {
    if (write_step(path, step, &err)) _exit(1);
    *done = step;
  }
}

static unsigned write_us(const char *path) { // how long a write takes here
  struct timespec begin, end;
  clock_gettime(CLOCK_MONOTONIC, &begin);
  for (int i = 0; i < 4; i++) must_write(path, 1);
  clock_gettime(CLOCK_MONOTONIC, &end);
  return (unsigned)((end.tv_sec - begin.tv_sec) * 250000 + (end.tv_nsec - begin.tv_nsec) / 4000);
}

static void killed_writers(void **state) {
  (void)state;
  const char *path = temp_path("k");
  volatile int *done = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  int fell = 0, status;
  random_seed("checkpoint killed");
  unsigned longest = 4 * write_us(path) + 1000;
  *done = 1;
  for (int i = 0; i < 50; i++) {
    char *fell_back;
    pid_t child = fork();
    assert_true(child >= 0);
    if (!child) write_on(path, *done + (i == 25 ? 1000 : 1), done);
    usleep((useconds_t)(random_next() % longest));
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    int step = read_step(path, &fell_back);
    assert_true(step >= *done); // nothing that was reported as written is lost
    *done = step;
    fell += fell_back != NULL;
    free(fell_back);
  }
  fprintf(stderr, "checkpoint killed: %u us, at step %d, fell back %d times\n", longest, *done,
          fell);
  munmap((void *)(uintptr_t)done, 4096);
}

// A damaged file that a new one replaces: killed between the renames, the new one is still found.
static void between_the_renames(void **state) {
  (void)state;
  const char *path = temp_path("b");
  char *fell_back, expected[600];
  must_write(path, 2);
  assert_int_equal(rename(path, beside(path, ".tmp")), 0);
  write_bytes(beside(path, ".previous"), "junk", 4);
  assert_int_equal(read_step(path, &fell_back), 2);
  snprintf(expected, sizeof expected,
           "weights '%s': No such file or directory; weights '%s.previous': has 4 bytes, a "
           "safetensors file has at least 8; continuing from '%s.tmp'",
           path, path, path);
  assert_string_equal(fell_back, expected);
  free(fell_back);
}

static void no_memory(void **state) {
  (void)state;
  const char *path = temp_path("n");
  char *fell_back;
  must_write(path, 1);
  for (int n = 0, rc = 1; rc; n++) {
    Error err = {0};
    heap_fail_after(n);
    rc = write_step(path, 2, &err);
    heap_fail_after(-1);
    if (!rc) break;
    if (!strstr(err.message, "used twice")) assert_int_equal(rc, ExitNoDevice); // weights_write.c
    assert_int_equal(read_step(path, &fell_back), 1);
  }
  unlink(path);
  for (int n = 0, rc = 1; rc; n++) {
    Error err = {0};
    Weights *weights;
    heap_fail_after(n);
    rc = checkpoint_open(path, &weights, &fell_back, &err);
    heap_fail_after(-1);
    if (rc) assert_int_equal(rc, ExitNoDevice);
    if (!rc) assert_int_equal(check_step(weights), 1);
  }
  free(fell_back);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(round_trip),       cmocka_unit_test(cut_anywhere),
      cmocka_unit_test(flipped_anywhere), cmocka_unit_test(messages),
      cmocka_unit_test(another_header),   cmocka_unit_test(left_overs_are_replaced),
      cmocka_unit_test(failing_writes),   cmocka_unit_test(full_disk),
      cmocka_unit_test(killed_writers),   cmocka_unit_test(between_the_renames),
      cmocka_unit_test(no_memory),        cmocka_unit_test(other_weights_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, temp_clean);
}
