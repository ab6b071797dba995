// test_runlog.c: a run's log as JSON lines, as events that an independent reader (read_events.py)
// checks, and what a full disk or a kill leaves.
#include <dirent.h>
#include <math.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "runtime/support.h"

static RunLog *open_log(const char *folder, bool append, bool tensorboard) {
  Error err = {0};
  RunLog *log = NULL;
  if (runlog_open(temp_path(folder), append, tensorboard, &log, &err)) fail_msg("%s", err.message);
  return log;
}

static void must_write(RunLog *log, int64_t step, int count, const LogValue *values) {
  Error err = {0};
  if (runlog_write(log, step, values, count, &err)) fail_msg("%s", err.message);
}

static const char *lines_of(const char *folder) {
  char name[64];
  snprintf(name, sizeof name, "%s/log.jsonl", folder);
  return temp_path(name);
}

static void expect_lines(const char *folder, const char *expected) {
  size_t size;
  char *text = read_bytes(lines_of(folder), &size);
  assert_string_equal(text, expected);
  free(text);
}

// ---- JSON lines --------------------------------------------------------------------------------

static void lines(void **state) {
  (void)state;
  RunLog *log = open_log("a", false, false);
  must_write(log, 1, 3, (LogValue[]){{"loss", 2.5}, {"lr", 1e-3}, {"acc \"5\"", 1. / 3}});
  must_write(log, INT64_MAX, 3, (LogValue[]){{"n", NAN}, {"i", INFINITY}, {"m", -INFINITY}});
  must_write(log, 2, 2, (LogValue[]){{"wall_s", 123456789.125}, {"loss", 1e-30}});
  must_write(log, 2, 3, (LogValue[]){{"epoch", 3}, {"sum", 0x1p53}, {"more", -0x1p54}});
  must_write(log, -3, 0, NULL);
  runlog_close(log);
#define LINES                                                                                      \
  "{\"step\":1,\"loss\":2.5,\"lr\":0.001,\"acc \\\"5\\\"\":0.333333333333333}\n"                   \
  "{\"step\":9223372036854775807,\"n\":null,\"i\":null,\"m\":null}\n"                              \
  "{\"step\":2,\"wall_s\":123456789.125,\"loss\":1e-30}\n"                                         \
  "{\"step\":2,\"epoch\":3,\"sum\":9007199254740992,\"more\":-1.8014398509482e16}\n"               \
  "{\"step\":-3}\n"
  expect_lines("a", LINES);
  log = open_log("a", true, false);
  must_write(log, 4, 0, NULL);
  runlog_close(log);
  expect_lines("a", LINES "{\"step\":4}\n");
  runlog_close(open_log("a", false, false)); // anew
  expect_lines("a", "");
  runlog_close(NULL);
}

// What a kill left of a last line goes when the log is gone on with.
static void cut_lines(void **state) {
  (void)state;
  char *text = malloc(20100);
  runlog_close(open_log("c", false, false));
  for (int lengths = 0; lengths < 20000; lengths += 3999) {
    memset(text, 'x', 20000);
    if (lengths) text[lengths - 1] = '\n';
    write_bytes(lines_of("c"), text, 20000);
    RunLog *log = open_log("c", true, false);
    must_write(log, 1, 0, NULL);
    runlog_close(log);
    strcpy(text + lengths, "{\"step\":1}\n");
    expect_lines("c", text);
  }
  free(text);
}

// A run that goes on makes the steps after its checkpoint again.
static void cut_steps(void **state) {
  (void)state;
  static const char all[] = "{\"step\":1,\"loss\":2.0}\n{\"step\":2}\n{\"step\":2,\"eval\":1.0}\n"
                            "{\"step\":3}\n{\"step\":10}\n";
  static const int kept[] = {0, 22, 55, 66, 66, 78};
  Error err = {0};
  runlog_close(open_log("s", false, false));
  for (int step = 0; step <= 10; step += step < 4 ? 1 : 6) {
    char want[200];
    write_bytes(lines_of("s"), all, sizeof all - 1);
    RunLog *log = open_log("s", true, false);
    assert_int_equal(runlog_cut(log, step, &err), ExitOk);
    must_write(log, 77, 0, NULL);
    runlog_close(log);
    snprintf(want, sizeof want, "%.*s{\"step\":77}\n", kept[step < 5 ? step : 5], all);
    expect_lines("s", want);
  }
}

static void refused(void **state) {
  (void)state;
  Error err = {0};
  RunLog *log;
  char expected[300];
  const char *none = temp_path("none/run"), *file = temp_path("file");
  assert_int_equal(runlog_open(none, false, false, &log, &err), ExitBadInput);
  assert_null(log);
  snprintf(expected, sizeof expected, "run log '%s': No such file or directory", none);
  assert_string_equal(err.message, expected);
  write_bytes(file, "x", 1);
  assert_int_equal(runlog_open(file, false, false, &log, &err), ExitBadInput);
  snprintf(expected, sizeof expected, "run log '%s/log.jsonl': Not a directory", file);
  assert_string_equal(err.message, expected);
  log = open_log("r", false, false);
  assert_int_equal(runlog_write(log, 1, &(LogValue){"\xff", 1}, 1, &err), ExitBadInput);
  snprintf(expected, sizeof expected, "run log '%s': out of memory, or a name that is not UTF-8",
           lines_of("r"));
  assert_string_equal(err.message, expected);
  runlog_close(log);
  expect_lines("r", "");
}

// ---- events ------------------------------------------------------------------------------------

static const char *events_of(const char *folder, int *count) { // the last by name
  static char path[600];
  char host[256];
  struct dirent *entry;
  DIR *entries = opendir(temp_path(folder));
  path[0] = 0, *count = 0;
  gethostname(host, sizeof host);
  while ((entry = readdir(entries))) {
    if (strncmp(entry->d_name, "events.out.tfevents.", 20)) continue;
    assert_string_equal(strchr(entry->d_name + 20, '.') + 1, host);
    (*count)++;
    char other[600];
    snprintf(other, sizeof other, "%s/%s", temp_path(folder), entry->d_name);
    if (strcmp(other, path) > 0) strcpy(path, other);
  }
  closedir(entries);
  return path;
}

static void expect_events(const char *folder, int files, const char *expected) {
  char command[900], text[4096];
  int count;
  snprintf(command, sizeof command, "python3 tests/runtime/read_events.py '%s' 2>&1",
           events_of(folder, &count));
  assert_int_equal(count, files);
  FILE *reader = popen(command, "r");
  text[fread(text, 1, sizeof text - 1, reader)] = 0;
  assert_string_equal(text, expected);
  assert_int_equal(pclose(reader), 0);
}

static bool has_python(void) {
  return !system("command -v python3 >/dev/null");
}

static void events(void **state) {
  (void)state;
  if (!has_python()) skip();
  char longest[301] = "", expected[600];
  memset(longest, 'y', 300);
  RunLog *log = open_log("e", false, true);
  expect_events("e", 1, "version brain.Event:2\n");
  must_write(log, 1, 2, (LogValue[]){{"loss", 2.5}, {"train/lr", 1e-3}});
  must_write(log, 300, 3, (LogValue[]){{"n", NAN}, {"i", -INFINITY}, {longest, 1e300}});
  must_write(log, 128, 0, NULL);
  must_write(log, -1, 0, NULL);
  must_write(log, INT64_MAX, 1, (LogValue[]){{"\xc3\xa9", 0}});
  runlog_close(log);
  snprintf(expected, sizeof expected,
           "version brain.Event:2\nstep 1 loss=2.5 train/lr=0.001\nstep 300 n=nan i=-inf %s=inf\n"
           "step 128\nstep -1\nstep 9223372036854775807 \xc3\xa9=0\n",
           longest);
  expect_events("e", 1, expected);
  log = open_log("e", true, true); // in the same second, perhaps
  must_write(log, 5, 1, (LogValue[]){{"loss", 1}});
  runlog_close(log);
  expect_events("e", 2, "version brain.Event:2\nstep 5 loss=1\n");
}

// ---- a full disk, a kill, no memory ------------------------------------------------------------

enum { Room = 1000 };

// Writes until the disk is full, and once more.
static void fill(const char *folder, bool tensorboard) {
  Error err = {0};
  RunLog *log = open_log(folder, false, tensorboard);
  const LogValue loss = {"loss", 1. / 3};
  int64_t step = 0;
  signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &(struct rlimit){Room, Room});
  while (!runlog_write(log, step, &loss, 1, &err)) step++;
  bool right = step > 10 && err.code == ExitBadInput && strstr(err.message, ": File too large");
  _exit(!right || runlog_write(log, step + 1, &loss, 1, &err) != ExitBadInput);
}

static void expect_whole_lines(const char *text) {
  char expected[64];
  int steps = 0;
  for (; *text; text = strchr(text, '\n') + 1) {
    snprintf(expected, sizeof expected, "{\"step\":%d,\"loss\":0.333333333333333}\n", steps++);
    assert_int_equal(strncmp(text, expected, strlen(expected)), 0);
  }
  assert_true(steps > 10);
}

static void full_disk(void **state) {
  (void)state;
  char command[800];
  int status, count;
  size_t size;
  for (int tensorboard = 0; tensorboard < 2; tensorboard++) {
    fflush(NULL);
    pid_t child = fork();
    if (!child) fill("f", tensorboard);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    char *text = read_bytes(lines_of("f"), &size);
    expect_whole_lines(text);
    assert_true(size <= Room);
    free(text);
  }
  snprintf(command, sizeof command, "python3 tests/runtime/read_events.py '%s' >/dev/null",
           events_of("f", &count));
  assert_int_equal(count, 1);
  if (has_python()) assert_int_equal(system(command), 0);
}

static void failing_writes(void **state) {
  (void)state;
  RunLog *log = open_log("w", false, true);
  for (int n = 0; n < 3; n++) { // the line, the event, none
    Error err = {0};
    file_fail_after(n);
    assert_int_equal(runlog_write(log, n, NULL, 0, &err), n < 2 ? ExitBadInput : ExitOk);
    file_fail_after(-1);
    if (n < 2) assert_non_null(strstr(err.message, ": No space left on device"));
  }
  runlog_close(log);
  expect_lines("w", "{\"step\":1}\n{\"step\":2}\n");
}

static void no_memory(void **state) {
  (void)state;
  RunLog *log = NULL;
  for (int n = 0, rc = 1; rc; n++) {
    Error err = {0};
    heap_fail_after(n);
    rc = runlog_open(temp_path("n"), false, true, &log, &err);
    heap_fail_after(-1);
    assert_true(rc ? strstr(err.message, "out of host memory") != NULL : n == 6);
  }
  for (int n = 0, rc = 1; rc; n++) {
    Error err = {0};
    heap_fail_after(n);
    rc = runlog_write(log, 1, &(LogValue){"loss", 1}, 1, &err);
    heap_fail_after(-1);
    assert_true(rc ? strstr(err.message, "out of") != NULL : n == 3);
  }
  runlog_close(log);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(lines),          cmocka_unit_test(cut_lines), cmocka_unit_test(cut_steps),
      cmocka_unit_test(refused),        cmocka_unit_test(events),    cmocka_unit_test(full_disk),
      cmocka_unit_test(failing_writes), cmocka_unit_test(no_memory),
  };
  return cmocka_run_group_tests(tests, NULL, temp_clean);
}
