// cache.c: compiled kernels kept on disk.
//
// An entry is a file named after its key: a header, then the image. The header holds its own hash
// and the image's, so a damaged byte anywhere is found before a driver sees it; such an entry is
// deleted and built again. Entries appear by rename, so readers and writers need no lock: equal
// keys mean equal contents, and the last writer wins. Only the user may access the folder.
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

#include "jit/jit.h"

enum { FormatVersion = 1, MaxImage = 256 << 20 };
static const char kMagic[8] = "NNGENKC";
static const char kNoMemory[] = "does not fit in memory";
static const int64_t kLimit = (int64_t)1 << 30; // of the whole folder

typedef struct EntryHeader {
  char magic[8];
  uint32_t format;
  int32_t registers, spill_bytes, stack_bytes, smem_static;
  uint32_t serialized;
  CacheKey key;
  uint64_t image_size;
  CacheKey image_hash;
  char kernel[128], arch[16];
  uint64_t header_hash; // of everything above
} EntryHeader;

_Static_assert(sizeof(EntryHeader) == 224, "no padding: every byte is hashed");

static CacheKey hash_image(const void *bytes, size_t size) {
  XXH128_hash_t hash = XXH3_128bits(bytes, size);
  return (CacheKey){hash.low64, hash.high64};
}

static uint64_t hash_header(const EntryHeader *header) {
  return XXH3_64bits(header, offsetof(EntryHeader, header_hash));
}

static bool same_key(CacheKey a, CacheKey b) {
  return a.low == b.low && a.high == b.high;
}

// ---- the folder --------------------------------------------------------------------------------

char *cache_default_dir(void) {
  const char *named = getenv("NNGEN_CACHE_DIR"), *xdg = getenv("XDG_CACHE_HOME");
  const char *home = getenv("HOME");
  if (named && *named) return heap_copy(named);
  if (xdg && *xdg == '/') return heap_format("%s/nngen", xdg); // XDG: relative paths are ignored
  if (home && *home == '/') return heap_format("%s/.cache/nngen", home);
  return NULL;
}

// Why the folder cannot be used; NULL when it can.
static const char *check_dir(const char *dir) {
  struct stat info;
  if (stat(dir, &info)) return strerror(errno);
  if (!S_ISDIR(info.st_mode)) return "is not a folder";
  if (info.st_uid != geteuid()) return "belongs to another user";
  if (info.st_mode & (S_IWGRP | S_IWOTH)) return "others may write to it; chmod go-w";
  return NULL;
}

void cache_open(const char *dir, const Log *log, Cache *cache) {
  *cache = (Cache){.log = *log, .writable = true};
  if (dir && !*dir) return;
  cache->dir = dir ? heap_copy(dir) : cache_default_dir();
  if (!cache->dir) {
    log_warn(log, "no kernel cache: neither XDG_CACHE_HOME nor HOME is set");
    return;
  }
  file_make_parents(cache->dir, 0700);
  mkdir(cache->dir, 0700); // check_dir reports errors
  const char *wrong = check_dir(cache->dir);
  if (!wrong) return;
  log_warn(log, "no kernel cache: '%s': %s", cache->dir, wrong);
  free(cache->dir);
  cache->dir = NULL;
}

void cache_close(Cache *cache) {
  const char *given = getenv("NNGEN_CACHE_MAX"); // bytes
  int64_t limit = given ? strtoll(given, NULL, 10) : kLimit;
  if (cache->dir && cache->stored) cache_evict(cache->dir, limit);
  free(cache->dir);
  cache->dir = NULL;
}

// ---- reading -----------------------------------------------------------------------------------

static const char *check_file(int fd, size_t *size) {
  struct stat info;
  if (fstat(fd, &info)) return strerror(errno);
  if (!S_ISREG(info.st_mode)) return "is not a regular file";
  if (info.st_uid != geteuid()) return "belongs to another user";
  if (info.st_mode & (S_IWGRP | S_IWOTH)) return "others may write to it";
  if ((size_t)info.st_size < sizeof(EntryHeader)) return "is truncated";
  if ((size_t)info.st_size > sizeof(EntryHeader) + MaxImage) return "is too large";
  *size = (size_t)info.st_size - sizeof(EntryHeader);
  return NULL;
}

static bool read_all(int fd, void *bytes, size_t size) {
  for (char *at = bytes; size;) {
    ssize_t got = read(fd, at, size);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    at += got;
    size -= (size_t)got;
  }
  return true;
}

static const char *check_header(const EntryHeader *header, const CacheKey *key, size_t size) {
  if (memcmp(header->magic, kMagic, sizeof kMagic)) return "is not a cache entry";
  if (header->format != FormatVersion) return "has another format";
  if (header->header_hash != hash_header(header)) return "has a damaged header";
  if (header->image_size != size) return "is truncated";
  if (key && !same_key(header->key, *key)) return "holds another key";
  return NULL;
}

static const char *read_image(int fd, const EntryHeader *header, CacheItem *item) {
  item->image = heap_alloc(item->size, 1);
  if (!item->image) return kNoMemory;
  if (read_all(fd, item->image, item->size) &&
      same_key(hash_image(item->image, item->size), header->image_hash))
    return NULL;
  free(item->image);
  item->image = NULL;
  return "has a damaged image";
}

static const char *read_entry(int fd, const CacheKey *key, bool with_image, CacheItem *item) {
  EntryHeader header;
  size_t size = 0;
  const char *wrong = check_file(fd, &size);
  if (!wrong && !read_all(fd, &header, sizeof header)) wrong = "cannot be read";
  if (!wrong) wrong = check_header(&header, key, size);
  if (wrong) return wrong;
  *item = (CacheItem){.registers = header.registers,
                      .spill_bytes = header.spill_bytes,
                      .stack_bytes = header.stack_bytes,
                      .smem_static = header.smem_static,
                      .serialized = header.serialized != 0,
                      .size = size};
  snprintf(item->kernel, sizeof item->kernel, "%.127s", header.kernel);
  snprintf(item->arch, sizeof item->arch, "%.15s", header.arch);
  return with_image ? read_image(fd, &header, item) : NULL;
}

const char *cache_read(const char *path, const CacheKey *key, bool with_image, CacheItem *item,
                       bool *missing) {
  int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
  *missing = fd < 0 && errno == ENOENT;
  if (fd < 0) return errno == ELOOP ? "is a symbolic link" : strerror(errno);
  const char *wrong = read_entry(fd, key, with_image, item);
  if (!wrong && key) futimens(fd, NULL); // marks the use, for eviction; may fail
  close(fd);
  return wrong;
}

static void entry_path(const Cache *cache, CacheKey key, char *path, size_t size) {
  snprintf(path, size, "%s/%016" PRIx64 "%016" PRIx64 ".nnk", cache->dir, key.high, key.low);
}

// Running out of memory does not mean that the file is damaged.
static bool is_damaged(const char *wrong) {
  return wrong != kNoMemory;
}

bool cache_has(const Cache *cache, CacheKey key) {
  char path[600];
  if (!cache->dir) return false;
  entry_path(cache, key, path, sizeof path);
  return !access(path, R_OK);
}

bool cache_get(Cache *cache, CacheKey key, CacheItem *item) {
  char path[600];
  bool missing = false;
  if (!cache->dir) return false;
  entry_path(cache, key, path, sizeof path);
  const char *wrong = cache_read(path, &key, true, item, &missing);
  if (!wrong || missing) return !wrong;
  if (is_damaged(wrong)) unlink(path);
  log_warn(&cache->log, "cache entry '%s' %s: it is compiled again", path, wrong);
  return false;
}

// ---- writing -----------------------------------------------------------------------------------

static int write_entry(const char *path, const EntryHeader *header, const void *image, Error *err) {
  FileWriter writer;
  int rc = file_begin("cache entry", path, &writer, err);
  if (rc) return rc;
  fchmod(fileno(writer.file), 0600);
  rc = file_write(&writer, header, sizeof *header, err);
  if (!rc) rc = file_write(&writer, image, header->image_size, err);
  return rc ? rc : file_commit(&writer, err);
}

void cache_put(Cache *cache, CacheKey key, const CacheItem *item) {
  char path[600];
  Error err = {0};
  EntryHeader header;
  if (!cache->dir || !cache->writable || item->size > MaxImage) return;
  memset(&header, 0, sizeof header);
  memcpy(header.magic, kMagic, sizeof kMagic);
  header.format = FormatVersion;
  header.registers = item->registers, header.spill_bytes = item->spill_bytes;
  header.stack_bytes = item->stack_bytes, header.smem_static = item->smem_static;
  header.serialized = item->serialized;
  header.key = key;
  header.image_size = item->size;
  header.image_hash = hash_image(item->image, item->size);
  snprintf(header.kernel, sizeof header.kernel, "%s", item->kernel);
  snprintf(header.arch, sizeof header.arch, "%s", item->arch);
  header.header_hash = hash_header(&header);
  entry_path(cache, key, path, sizeof path);
  if (!write_entry(path, &header, item->image, &err)) {
    cache->stored = true;
    return;
  }
  if (cache->writable) log_warn(&cache->log, "the kernel cache is not written: %s", err.message);
  cache->writable = false;
}
