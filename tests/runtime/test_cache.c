// test_cache.c: the kernel cache: every byte damaged, every length, wrong kinds of file, a folder
// that cannot be used, races, and a writer killed in the middle.
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <utime.h>

#include "runtime/support.h"

static char warning[2048];
static int warnings;

static void on_log(void *user, LogLevel level, const char *message) {
  (void)user;
  if (level != LogWarning) return;
  snprintf(warning, sizeof warning, "%s", message);
  warnings++;
}

static const Log kLog = {on_log, NULL};
static const CacheKey kKey = {0x1122334455667788u, 0x99aabbccddeeff00u};
static const char kImage[] = "a little machine code";

static const char *cache_dir(void) {
  return temp_path("cache");
}
static const char *entry_path(void) {
  return temp_path("cache/99aabbccddeeff001122334455667788.nnk");
}

static void put(const char *image, size_t size) {
  Cache cache;
  CacheItem item = {.kernel = "k",
                    .arch = "sm_80",
                    .registers = 10,
                    .spill_bytes = 4,
                    .image = (void *)(uintptr_t)image,
                    .size = size};
  cache_open(cache_dir(), &kLog, &cache);
  cache_put(&cache, kKey, &item);
  cache_close(&cache);
}

static bool get(CacheItem *item) {
  Cache cache;
  *item = (CacheItem){0};
  warnings = 0;
  cache_open(cache_dir(), &kLog, &cache);
  bool found = cache_get(&cache, kKey, item);
  cache_close(&cache);
  return found;
}

static bool get_right(void) {
  CacheItem item;
  if (!get(&item)) return false;
  assert_int_equal(item.size, sizeof kImage);
  assert_memory_equal(item.image, kImage, sizeof kImage);
  assert_true(item.registers == 10 && item.spill_bytes == 4);
  assert_string_equal(item.kernel, "k");
  free(item.image);
  return true;
}

static void round_trip(void **state) {
  (void)state;
  struct stat info;
  assert_false(get_right());
  assert_int_equal(warnings, 0); // nothing there is no warning
  put(kImage, sizeof kImage);
  assert_true(get_right());
  assert_int_equal(stat(cache_dir(), &info), 0);
  assert_int_equal(info.st_mode & 0777, 0700);
  assert_int_equal(stat(entry_path(), &info), 0);
  assert_int_equal(info.st_mode & 0777, 0600);
}

// Damages the entry, checks that it is refused with a warning, removed, and can be put again.
static void expect_rebuilt(const char *why) {
  char expected[400];
  assert_false(get_right());
  assert_int_equal(warnings, 1);
  snprintf(expected, sizeof expected, "cache entry '%s' %s: it is compiled again", entry_path(),
           why ? why : "");
  if (why) assert_string_equal(warning, expected);
  assert_int_not_equal(access(entry_path(), F_OK), 0);
}

static void every_length_and_byte(void **state) {
  (void)state;
  size_t size;
  put(kImage, sizeof kImage);
  char *bytes = read_bytes(entry_path(), &size);
  for (size_t length = 0; length < size; length++) {
    write_bytes(entry_path(), bytes, length);
    expect_rebuilt("is truncated");
  }
  for (size_t i = 0; i < 8 * size; i++) {
    bytes[i / 8] ^= (char)(1 << i % 8);
    write_bytes(entry_path(), bytes, size);
    expect_rebuilt(NULL);
    bytes[i / 8] ^= (char)(1 << i % 8);
  }
  put(kImage, sizeof kImage);
  FILE *file = fopen(entry_path(), "ab");
  fputc(0, file);
  fclose(file);
  expect_rebuilt("is truncated"); // its length is not the one it names
  free(bytes);
}

static void wrong_files(void **state) {
  (void)state;
  put(kImage, sizeof kImage);
  assert_int_equal(rename(entry_path(), temp_path("elsewhere")), 0);
  assert_int_equal(symlink(temp_path("elsewhere"), entry_path()), 0);
  expect_rebuilt("is a symbolic link");
  put(kImage, sizeof kImage);
  chmod(entry_path(), 0622);
  expect_rebuilt("others may write to it");
  assert_int_equal(mkfifo(entry_path(), 0600), 0);
  expect_rebuilt("is not a regular file"); // and does not hang
  put(kImage, sizeof kImage);
  assert_int_equal(rename(entry_path(), temp_path("cache/00000000000000000000000000000000.nnk")),
                   0);
  CacheItem item;
  Cache cache;
  cache_open(cache_dir(), &kLog, &cache);
  assert_false(cache_get(&cache, (CacheKey){0, 0}, &item));
  assert_non_null(strstr(warning, "holds another key"));
  cache_close(&cache);
}

static void unusable_folders(void **state) {
  (void)state;
  char expected[400];
  Cache cache;
  CacheItem item = {.image = (void *)(uintptr_t)kImage, .size = sizeof kImage};
  const char *dir = temp_path("open");
  mkdir(dir, 0700);
  chmod(dir, 0777);
  warnings = 0;
  cache_open(dir, &kLog, &cache);
  snprintf(expected, sizeof expected, "no kernel cache: '%s': others may write to it; chmod go-w",
           dir);
  assert_string_equal(warning, expected);
  cache_put(&cache, kKey, &item);
  assert_false(cache_get(&cache, kKey, &item));
  cache_close(&cache);
  write_bytes(temp_path("file"), "", 0);
  cache_open(temp_path("file"), &kLog, &cache);
  snprintf(expected, sizeof expected, "no kernel cache: '%s': is not a folder", temp_path("file"));
  assert_string_equal(warning, expected);
  cache_close(&cache);
  assert_int_equal(warnings, 2);
  cache_open("", &kLog, &cache); // no cache wanted: nothing to warn about
  cache_put(&cache, kKey, &item);
  cache_close(&cache);
  assert_int_equal(warnings, 2);
}

// A folder that cannot be written (root writes anywhere, so the write itself is made to fail).
static void failing_writes(void **state) {
  (void)state;
  char expected[400];
  unlink(entry_path());
  for (int n = 0; n < 3; n++) { // header, image, flush
    Cache cache;
    CacheItem item = {.image = (void *)(uintptr_t)kImage, .size = sizeof kImage};
    warnings = 0;
    cache_open(cache_dir(), &kLog, &cache);
    file_fail_after(n);
    cache_put(&cache, kKey, &item);
    file_fail_after(-1);
    cache_put(&cache, kKey, &item); // once it failed it is left alone
    cache_close(&cache);
    snprintf(expected, sizeof expected,
             "the kernel cache is not written: cache entry '%s': No space left on device",
             entry_path());
    assert_string_equal(warning, expected);
    assert_int_equal(warnings, 1);
    assert_int_not_equal(access(entry_path(), F_OK), 0);
  }
}

// Many writers and readers at once: a reader sees nothing or the whole entry, never a warning.
static void race(void **state) {
  (void)state;
  static char image[200000];
  memset(image, 'x', sizeof image);
  pid_t children[4];
  unlink(entry_path());
  for (int c = 0; c < 4; c++) {
    children[c] = fork();
    if (children[c]) continue;
    int bad = 0;
    for (int i = 0; i < 30; i++) {
      CacheItem item;
      put(image, sizeof image);
      if (!get(&item) || item.size != sizeof image || memcmp(item.image, image, sizeof image) ||
          warnings)
        bad = 1;
      free(item.image);
    }
    _exit(bad);
  }
  for (int c = 0; c < 4; c++) {
    int status;
    assert_int_equal(waitpid(children[c], &status, 0), children[c]);
    assert_int_equal(status, 0);
  }
}

static void killed_writer(void **state) {
  (void)state;
  static char image[2000000];
  memset(image, 'y', sizeof image);
  random_seed("cache killed_writer");
  for (int round = 0; round < 40; round++) {
    unlink(entry_path());
    pid_t child = fork();
    if (!child)
      for (;;) put(image, sizeof image);
    usleep((useconds_t)(random_next() % 8000));
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    CacheItem item;
    if (get(&item)) assert_memory_equal(item.image, image, sizeof image);
    assert_int_equal(warnings, 0); // whole or not there
    free(item.image);
  }
}

// An entry that another process evicts while the cache is being listed is no broken entry.
static void removed_while_listed(void **state) {
  (void)state;
  CacheList list;
  Error err = {0};
  int removed;
  pid_t child = fork();
  for (int i = 0; !child; i++) { // until it is killed, unless the parent has failed
    put(kImage, sizeof kImage);
    if (cache_clear(cache_dir(), &removed, &err) || i == 20000) _exit(1);
  }
  for (int i = 0; i < 3000; i++) {
    assert_int_equal(cache_verify(cache_dir(), &list, &err), ExitOk);
    for (int j = 0; j < list.nentries; j++) assert_true(list.entries[j].valid);
    assert_true(list.nentries || !list.bytes);
    cache_list_free(&list);
  }
  kill(child, SIGKILL);
  waitpid(child, NULL, 0);
}

static void listed_verified_cleared(void **state) {
  (void)state;
  CacheList list;
  Error err = {0};
  int removed = 0;
  assert_int_equal(cache_clear(cache_dir(), &removed, &err), ExitOk);
  put(kImage, sizeof kImage);
  assert_int_equal(cache_list(cache_dir(), &list, &err), ExitOk);
  assert_int_equal(list.nentries, 1);
  assert_string_equal(list.entries[0].name, "99aabbccddeeff001122334455667788.nnk");
  assert_string_equal(list.entries[0].kernel, "k");
  assert_string_equal(list.entries[0].arch, "sm_80");
  assert_int_equal(list.bytes, 224 + sizeof kImage);
  cache_list_free(&list);
  int fd = open(entry_path(), O_WRONLY);
  assert_int_equal(pwrite(fd, "z", 1, 230), 1); // in the image: only verify sees it
  close(fd);
  assert_int_equal(cache_list(cache_dir(), &list, &err), ExitOk);
  assert_true(list.entries[0].valid);
  cache_list_free(&list);
  assert_int_equal(cache_verify(cache_dir(), &list, &err), ExitOk);
  assert_false(list.entries[0].valid);
  cache_list_free(&list);
  assert_int_equal(cache_clear(cache_dir(), &removed, &err), ExitOk);
  assert_int_equal(removed, 1);
  assert_int_equal(cache_list(temp_path("nowhere"), &list, &err), ExitOk);
  assert_int_equal(list.nentries, 0);
  cache_list_free(&list);
}

static void oldest_go_first(void **state) {
  (void)state;
  Error err = {0};
  CacheList list;
  Cache cache;
  CacheItem item = {.image = (void *)(uintptr_t)kImage, .size = sizeof kImage};
  int64_t each = 224 + sizeof kImage;
  char stale[256];
  snprintf(stale, sizeof stale, "%s", temp_path("cache/0.nnk.tmp.abcdef"));
  write_bytes(stale, "half", 4); // of a writer that was killed long ago
  utime(stale, &(struct utimbuf){1000, 1000});
  cache_open(cache_dir(), &kLog, &cache);
  for (uint64_t i = 0; i < 5; i++) {
    char name[64];
    cache_put(&cache, (CacheKey){i, 0}, &item);
    snprintf(name, sizeof name, "cache/%032x.nnk", (unsigned)i);
    utime(temp_path(name), &(struct utimbuf){2000 + (time_t)i, 2000 + (time_t)i});
  }
  assert_true(cache_get(&cache, (CacheKey){0, 0}, &item)); // the oldest is used again
  free(item.image);
  cache_evict(cache_dir(), 2 * each);
  assert_int_equal(cache_list(cache_dir(), &list, &err), ExitOk);
  assert_int_equal(list.nentries, 2);
  assert_string_equal(list.entries[0].name, "00000000000000000000000000000004.nnk");
  assert_string_equal(list.entries[1].name, "00000000000000000000000000000000.nnk");
  assert_int_not_equal(access(stale, F_OK), 0);
  cache_list_free(&list);
  cache.stored = false;
  cache_close(&cache);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(round_trip),
      cmocka_unit_test(every_length_and_byte),
      cmocka_unit_test(wrong_files),
      cmocka_unit_test(unusable_folders),
      cmocka_unit_test(failing_writes),
      cmocka_unit_test(race),
      cmocka_unit_test(killed_writer),
      cmocka_unit_test(removed_while_listed),
      cmocka_unit_test(listed_verified_cleared),
      cmocka_unit_test(oldest_go_first),
  };
  return cmocka_run_group_tests(tests, NULL, temp_clean);
}
