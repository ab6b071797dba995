// cache_list.c: the kernel cache as a whole: listed, verified, cleared, kept small.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "jit/jit.h"

enum { TempLifetime = 3600 }; // seconds after which a temporary file was left by a crash

static bool ends_with(const char *name, const char *end) {
  size_t length = strlen(name), tail = strlen(end);
  return length >= tail && !strcmp(name + length - tail, end);
}

// True for ".nnk" and ".nnk.tmp.XXXXXX": no other file of the folder is deleted.
static bool is_entry(const char *name) {
  return ends_with(name, ".nnk");
}
static bool is_temp(const char *name) {
  return strstr(name, ".nnk.tmp.") != NULL;
}

static bool list_add(CacheList *list, const char *name, const struct stat *info) {
  CacheEntry *entries = heap_grow(list->entries, (size_t)list->nentries + 1, sizeof *entries);
  if (!entries) return false;
  list->entries = entries;
  CacheEntry *entry = &entries[list->nentries++];
  *entry = (CacheEntry){.bytes = info->st_size, .used = info->st_mtim.tv_sec};
  snprintf(entry->name, sizeof entry->name, "%.63s", name);
  list->bytes += info->st_size;
  return true;
}

static void drop_stale_temp(int dir, const char *name, const struct stat *info) {
  if (is_temp(name) && time(NULL) - info->st_mtim.tv_sec > TempLifetime) unlinkat(dir, name, 0);
}

static int by_use(const void *a, const void *b) {
  const CacheEntry *left = a, *right = b;
  if (left->used != right->used) return left->used < right->used ? -1 : 1;
  return strcmp(left->name, right->name);
}

static int scan(CacheList *list, Error *err) {
  DIR *dir = opendir(list->dir);
  if (!dir && errno == ENOENT) return ExitOk; // no cache yet
  if (!dir) return err_set(err, ExitBadInput, "cache '%s': %s", list->dir, strerror(errno));
  bool fits = true;
  for (struct dirent *item; fits && (item = readdir(dir));) {
    struct stat info;
    if (fstatat(dirfd(dir), item->d_name, &info, AT_SYMLINK_NOFOLLOW)) continue;
    drop_stale_temp(dirfd(dir), item->d_name, &info);
    if (is_entry(item->d_name) && strlen(item->d_name) < sizeof list->entries->name)
      fits = list_add(list, item->d_name, &info);
  }
  closedir(dir);
  if (!fits) return heap_error(err, "listing the cache");
  if (list->nentries) qsort(list->entries, (size_t)list->nentries, sizeof *list->entries, by_use);
  return ExitOk;
}

static int open_list(const char *dir, CacheList *list, Error *err) {
  *list = (CacheList){.dir = dir ? heap_copy(dir) : cache_default_dir()};
  if (!list->dir)
    return err_set(err, ExitBadInput, "cache: neither XDG_CACHE_HOME nor HOME is set");
  int rc = scan(list, err);
  if (rc) cache_list_free(list);
  return rc;
}

// Reads one entry; with_image checks every byte. False if it has been removed since it was listed.
static bool inspect(const CacheList *list, CacheEntry *entry, bool with_image) {
  char path[600];
  bool missing = false;
  CacheItem item = {0};
  snprintf(path, sizeof path, "%s/%s", list->dir, entry->name);
  entry->valid = !cache_read(path, NULL, with_image, &item, &missing);
  snprintf(entry->kernel, sizeof entry->kernel, "%s", item.kernel);
  snprintf(entry->arch, sizeof entry->arch, "%s", item.arch);
  free(item.image);
  return !missing;
}

static int list_inspected(const char *dir, CacheList *list, bool with_image, Error *err) {
  int rc = open_list(dir, list, err), left = 0;
  if (rc) return rc;
  for (int i = 0; i < list->nentries; i++) {
    CacheEntry entry = list->entries[i];
    if (inspect(list, &entry, with_image))
      list->entries[left++] = entry;
    else
      list->bytes -= entry.bytes; // another process has evicted it
  }
  list->nentries = left;
  return ExitOk;
}

int cache_list(const char *dir, CacheList *list, Error *err) {
  return list_inspected(dir, list, false, err);
}

int cache_verify(const char *dir, CacheList *list, Error *err) {
  return list_inspected(dir, list, true, err);
}

static bool drop(const CacheList *list, const CacheEntry *entry) {
  char path[600];
  snprintf(path, sizeof path, "%s/%s", list->dir, entry->name);
  return !unlink(path);
}

int cache_clear(const char *dir, int *removed, Error *err) {
  CacheList list;
  *removed = 0;
  int rc = open_list(dir, &list, err);
  if (rc) return rc;
  for (int i = 0; i < list.nentries; i++) *removed += drop(&list, &list.entries[i]);
  if (*removed < list.nentries)
    rc = err_set(err, ExitBadInput, "cache '%s': %d of %d entries could not be removed", list.dir,
                 list.nentries - *removed, list.nentries);
  cache_list_free(&list);
  return rc;
}

void cache_evict(const char *dir, int64_t limit) {
  CacheList list;
  Error err = {0};
  if (open_list(dir, &list, &err)) return;
  for (int i = 0; i < list.nentries && list.bytes > limit; i++)
    if (drop(&list, &list.entries[i])) list.bytes -= list.entries[i].bytes;
  cache_list_free(&list);
}

void cache_list_free(CacheList *list) {
  free(list->dir);
  free(list->entries);
  *list = (CacheList){0};
}
