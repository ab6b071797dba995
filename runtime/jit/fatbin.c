// fatbin.c: a fat binary: a container of images, of which the driver loads the one for its GPU.
//
// A header of 16 bytes, then for each image an entry (its kind and GPU) and its bytes,
// padded to 8. The format is unpublished; this writes the same as NVIDIA's `fatbinary`.
#include <ctype.h>
#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "jit/jit.h"
#include "nngen_image.h"

enum { Magic = (int)0xba55ed50, KindPtx = 1, KindElf = 2, EntryVersion = 0x101 };
enum { ForLinux64 = 0x11, ArchSpecific = 0x100000, Mercury = 0x1000000 }; // of an entry's flags
enum { FirstMercury = 100 }; // sm_100 and newer have machine code in two forms

typedef struct Header {
  uint32_t magic;
  uint16_t version, header_bytes;
  uint64_t bytes; // of the entries
} Header;

typedef struct Entry {
  uint16_t kind, version;
  uint32_t header_bytes;
  uint64_t bytes; // bytes after the header
  uint32_t compressed_bytes;
  uint32_t options;      // offset of the Options after this struct, or 0
  uint16_t minor, major; // PTX: its version
  uint32_t arch;
  uint64_t name;
  uint64_t flags;
  uint64_t unused;
  uint64_t plain_bytes;
} Entry;

typedef struct Options { // follows an entry with `options`; then `compat_bytes` bytes
  uint32_t text, compat_bytes;
} Options;

typedef struct Out {
  uint8_t *bytes;
  size_t size, room;
  bool failed; // no memory
} Out;

static void put(Out *out, const void *bytes, size_t size) {
  if (out->size + size > out->room && !out->failed) {
    size_t room = (out->room + size) * 2;
    uint8_t *more = heap_grow(out->bytes, room, 1);
    out->failed = !more;
    if (more) out->bytes = more, out->room = room;
  }
  if (out->failed) return;
  memcpy(out->bytes + out->size, bytes, size);
  out->size += size;
}

static void pad(Out *out) {
  static const uint8_t zeros[8];
  put(out, zeros, (8 - out->size % 8) % 8);
}

// The section .nv.compat, in which the assembler describes the two forms of machine code, and which
// fatbinary copies in front of the image. Returns its size.
static size_t find_compat(const FatImage *image, const uint8_t **found) {
  const uint8_t *bytes = image->bytes;
  Elf64_Ehdr head;
  if (image->size < sizeof head) return 0;
  memcpy(&head, bytes, sizeof head);
  Elf64_Shdr names, section;
  size_t sections = head.e_shnum * sizeof section;
  if (memcmp(bytes, ELFMAG, SELFMAG) || head.e_shentsize != sizeof section ||
      head.e_shstrndx >= head.e_shnum || head.e_shoff > image->size ||
      sections > image->size - head.e_shoff)
    return 0;
  memcpy(&names, bytes + head.e_shoff + head.e_shstrndx * sizeof names, sizeof names);
  for (int i = 0; i < head.e_shnum; i++) {
    static const char wanted[] = ".nv.compat";
    memcpy(&section, bytes + head.e_shoff + (size_t)i * sizeof section, sizeof section);
    uint64_t name = names.sh_offset + section.sh_name;
    if (name > image->size || image->size - name < sizeof wanted ||
        memcmp(bytes + name, wanted, sizeof wanted))
      continue;
    if (section.sh_offset > image->size || section.sh_size > image->size - section.sh_offset)
      return 0;
    *found = bytes + section.sh_offset;
    return section.sh_size;
  }
  return 0;
}

static bool read_arch(const char *arch, Entry *entry) {
  bool ptx = !strncmp(arch, "compute_", strlen("compute_"));
  const char *digits = ptx ? arch + strlen("compute_") : arch + strlen("sm_");
  if ((!ptx && strncmp(arch, "sm_", strlen("sm_"))) || !isdigit((unsigned char)*digits))
    return false;
  char *end;
  entry->kind = ptx ? KindPtx : KindElf;
  entry->arch = (uint32_t)strtoul(digits, &end, 10);
  entry->flags = ForLinux64 | (*end == 'a' ? ArchSpecific : 0) |
                 (!ptx && entry->arch >= FirstMercury ? Mercury : 0);
  return !*end || !strcmp(end, "a");
}

static bool read_version(const FatImage *image, Entry *entry) { // ".version 9.0"
  static const char word[] = ".version ";
  const char *at = memmem(image->bytes, image->size, word, strlen(word));
  unsigned major, minor;
  if (!at || sscanf(at + strlen(word), "%u.%u", &major, &minor) != 2) return false;
  entry->major = (uint16_t)major;
  entry->minor = (uint16_t)minor;
  return true;
}

static bool put_image(Out *out, const FatImage *image) {
  Entry entry = {.version = EntryVersion, .major = 1, .minor = 8};
  const uint8_t *compat = NULL;
  if (!read_arch(image->arch, &entry)) return false;
  bool ptx = entry.kind == KindPtx;
  if (ptx && !read_version(image, &entry)) return false;
  if (!ptx && (image->size < SELFMAG || memcmp(image->bytes, ELFMAG, SELFMAG))) return false;
  Options options = {.text = sizeof entry + sizeof options};
  if (entry.flags & Mercury) options.compat_bytes = (uint32_t)find_compat(image, &compat);
  bool more = ptx || options.compat_bytes;
  entry.options = more ? sizeof entry : 0;
  entry.header_bytes = sizeof entry;
  if (more) entry.header_bytes += (sizeof options + 1 + options.compat_bytes + 7) / 8 * 8;
  entry.bytes = (image->size + 7) / 8 * 8;
  put(out, &entry, sizeof entry);
  if (more) {
    put(out, &options, sizeof options);
    put(out, "", 1);
    put(out, compat ? compat : (const uint8_t *)"", options.compat_bytes);
    pad(out);
  }
  put(out, image->bytes, image->size);
  pad(out);
  return true;
}

int fatbin_make(const FatImage *images, int count, void **bytes, size_t *size, Error *err) {
  Header header = {.magic = (uint32_t)Magic, .version = 1, .header_bytes = sizeof header};
  Out out = {0};
  *bytes = NULL;
  put(&out, &header, sizeof header);
  for (int i = 0; i < count; i++) {
    if (put_image(&out, &images[i])) continue;
    free(out.bytes);
    return err_set(err, ExitNoToolchain, "the image for %s is neither machine code nor PTX for it",
                   images[i].arch);
  }
  if (out.failed) return free(out.bytes), heap_error(err, "making a fat binary");
  header.bytes = out.size - sizeof header;
  memcpy(out.bytes, &header, sizeof header);
  *bytes = out.bytes;
  *size = out.size;
  return ExitOk;
}
