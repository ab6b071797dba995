// fatbin.c: extracts PTX from a fat binary as nvcc writes it: plain, or compressed by LZ4 or
// Zstandard, whose libraries are opened on demand.
//
// A header of 16 bytes, then entries: what kind, for which GPU, how many bytes, how compressed.
#include "sim/api/api.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { kMagic = (int)0xba55ed50, kWrapper = 0x466243b1, kPtx = 1, kLto = 8, kMost = 1 << 30 };
enum { kLz4 = 0x2000, kZstd = 0x8000 }; // of an entry's flags

typedef struct Header {
  uint32_t magic;
  uint16_t version, header_bytes;
  uint64_t bytes; // of the entries
} Header;

typedef struct Entry {
  uint16_t kind, version;
  uint32_t header_bytes;
  uint64_t bytes;            // bytes after the header
  uint32_t compressed_bytes; // of these
  uint32_t unused[2];
  uint32_t arch;
  uint64_t unused_too;
  uint64_t flags;
  uint64_t unused_as_well;
  uint64_t plain_bytes;
} Entry;

// Bytes at a program's address. False: they cannot be read.
static bool peek(const void *from, void *to, size_t bytes) {
  int fd = image_file();
  bool ok = fd >= 0 && image_write(fd, from, bytes) == (ssize_t)bytes &&
            pread(fd, to, bytes, 0) == (ssize_t)bytes;
  if (fd >= 0) close(fd);
  return ok;
}

bool fatbin_is(const void *image) {
  uint32_t magic = 0;
  return peek(image, &magic, sizeof magic) && (magic == (uint32_t)kMagic || magic == kWrapper);
}

size_t fatbin_bytes(const void *from) {
  Header header;
  _Static_assert(sizeof header == kFatbinHeader, "as the format has it");
  memcpy(&header, from, sizeof header);
  if (header.magic != (uint32_t)kMagic || header.header_bytes < sizeof header) return 0;
  return header.bytes < kMost ? header.header_bytes + header.bytes : 0;
}

// ---- unpacking ----------------------------------------------------------------------------------

static bool unzstd(const char *from, size_t bytes, char *to, size_t room) {
  void *library = dlopen("libzstd.so.1", RTLD_NOW | RTLD_LOCAL);
  size_t (*decompress)(void *, size_t, const void *, size_t) = NULL;
  if (library) *(void **)&decompress = dlsym(library, "ZSTD_decompress");
  return decompress && decompress(to, room, from, bytes) == room;
}

static bool unlz4(const char *from, size_t bytes, char *to, size_t room) {
  void *library = dlopen("liblz4.so.1", RTLD_NOW | RTLD_LOCAL);
  int (*decompress)(const char *, char *, int, int) = NULL;
  if (library) *(void **)&decompress = dlsym(library, "LZ4_decompress_safe");
  return decompress && decompress(from, to, (int)bytes, (int)room) == (int)room;
}

static bool unpack(const Entry *entry, const char *from, Text *ptx, Text *log) {
  bool packed = entry->flags & (kLz4 | kZstd);
  if (!packed) {
    text_append(ptx, from, strnlen(from, entry->bytes));
    return true;
  }
  char *to = entry->plain_bytes < kMost ? malloc(entry->plain_bytes + 1) : NULL;
  bool ok = to && entry->compressed_bytes <= entry->bytes &&
            (entry->flags & kZstd ? unzstd : unlz4)(from, entry->compressed_bytes, to,
                                                    entry->plain_bytes);
  if (ok) text_append(ptx, to, strnlen(to, entry->plain_bytes));
  else
    text_print(log, "the PTX in the fat binary cannot be unpacked (%s)",
               entry->flags & kZstd ? "by libzstd.so.1" : "by liblz4.so.1");
  free(to);
  return ok;
}

// ---- choosing -----------------------------------------------------------------------------------

// Chooses the PTX of the newest GPU that is not newer than the device: its entry, and in *from its
// bytes. A damaged fat binary's entries may begin anywhere.
static bool choose(const char *begin, size_t bytes, uint32_t arch, Entry *best, const char **from,
                   bool *others, bool *lto) {
  *from = NULL;
  for (size_t at = 0; at + sizeof(Entry) <= bytes;) {
    Entry entry;
    memcpy(&entry, begin + at, sizeof entry);
    if (entry.header_bytes < sizeof entry || entry.bytes > bytes - at ||
        entry.header_bytes > bytes - at - entry.bytes)
      break;
    *lto |= entry.kind == kLto;
    *others |= entry.kind != kPtx || entry.arch > arch;
    if (entry.kind == kPtx && entry.arch <= arch && (!*from || entry.arch > best->arch))
      *best = entry, *from = begin + at + entry.header_bytes;
    at += entry.header_bytes + entry.bytes;
  }
  return *from;
}

CUresult fatbin_ptx(const void *image, int arch, Text *ptx, Text *log) {
  Header header;
  struct {
    uint32_t magic, version;
    const void *data;
  } wrapper;
  bool others = false, lto = false;
  if (peek(image, &wrapper, sizeof wrapper) && wrapper.magic == kWrapper) image = wrapper.data;
  if (!peek(image, &header, sizeof header) || header.magic != (uint32_t)kMagic ||
      header.bytes > kMost || header.header_bytes < sizeof header) {
    text_print(log, "the fat binary is damaged");
    return CUDA_ERROR_INVALID_IMAGE;
  }
  char *bytes = malloc(header.bytes + 1);
  CUresult r = CUDA_ERROR_INVALID_IMAGE;
  if (!bytes) {
    r = CUDA_ERROR_OUT_OF_MEMORY;
  } else if (!peek((const char *)image + header.header_bytes, bytes, header.bytes)) {
    text_print(log, "the fat binary ends too early");
  } else {
    Entry entry = {0};
    const char *from;
    if (choose(bytes, header.bytes, (uint32_t)arch, &entry, &from, &others, &lto)) {
      if (unpack(&entry, from, ptx, log)) r = CUDA_SUCCESS;
    } else {
      r = CUDA_ERROR_NO_BINARY_FOR_GPU;
      text_print(log, "the fat binary has no PTX for sm_%d%s: nvcc adds it with -gencode "
                      "arch=compute_%d,code=compute_%d", arch,
                 lto      ? ", only LTO IR (of -dlto), which NVIDIA's linker alone reads"
                 : others ? ", only machine code or PTX of newer GPUs"
                          : "",
                 arch, arch);
    }
  }
  free(bytes);
  return r;
}
