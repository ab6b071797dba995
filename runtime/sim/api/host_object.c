// host_object.c: the fat binaries in host code with kernels: an object file, in a section, or an
// archive of such. Untrusted: any number in a program's bytes may be wrong.
#include "sim/api/api.h"

#include <ar.h>
#include <elf.h>
#include <stdlib.h>
#include <string.h>

// True if `length` bytes from `begin` on are inside.
static bool holds(size_t bytes, uint64_t begin, uint64_t length) {
  return begin <= bytes && length <= bytes - begin;
}

static const char *section_name(const char *data, size_t bytes, const Elf64_Shdr *names,
                                const Elf64_Shdr *section) {
  if (!holds(bytes, names->sh_offset, names->sh_size) || section->sh_name >= names->sh_size)
    return "";
  const char *name = data + names->sh_offset + section->sh_name;
  return memchr(name, 0, names->sh_size - section->sh_name) ? name : "";
}

// Consecutive fat binaries, each at a multiple of 8 bytes.
static CUresult add_section(const char *at, size_t bytes, TakeFatbin take, void *user, int *found) {
  while (bytes >= kFatbinHeader) {
    size_t length = fatbin_bytes(at);
    if (!length || length > bytes) {
      at += 8, bytes -= 8;
      continue;
    }
    CUresult r = take(user, at);
    if (r != CUDA_SUCCESS) return r;
    ++*found;
    at += length, bytes -= length;
  }
  return CUDA_SUCCESS;
}

static CUresult add_object(const char *data, size_t bytes, TakeFatbin take, void *user,
                           int *found) {
  Elf64_Ehdr head;
  if (bytes < sizeof head) return CUDA_SUCCESS;
  memcpy(&head, data, sizeof head);
  size_t table = (size_t)head.e_shnum * sizeof(Elf64_Shdr);
  if (memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || head.e_ident[EI_CLASS] != ELFCLASS64 ||
      head.e_shstrndx >= head.e_shnum || !holds(bytes, head.e_shoff, table))
    return CUDA_SUCCESS;
  Elf64_Shdr *sections = malloc(table);
  if (!sections) return CUDA_ERROR_OUT_OF_MEMORY;
  memcpy(sections, data + head.e_shoff, table);
  CUresult r = CUDA_SUCCESS;
  for (int i = 0; i < head.e_shnum && r == CUDA_SUCCESS; i++) {
    const char *name = section_name(data, bytes, &sections[head.e_shstrndx], &sections[i]);
    if (strcmp(name, ".nv_fatbin") != 0 && strcmp(name, "__nv_relfatbin") != 0) continue;
    if (sections[i].sh_type == SHT_NOBITS) continue;
    if (holds(bytes, sections[i].sh_offset, sections[i].sh_size))
      r = add_section(data + sections[i].sh_offset, sections[i].sh_size, take, user, found);
  }
  free(sections);
  return r;
}

CUresult host_object_fatbins(const char *data, size_t bytes, TakeFatbin take, void *user,
                             int *found) {
  enum { kHead = 60, kSizeAt = 48 };
  *found = 0;
  if (bytes < SARMAG || memcmp(data, ARMAG, SARMAG) != 0)
    return add_object(data, bytes, take, user, found);
  for (size_t at = SARMAG; at + kHead <= bytes;) {
    char digits[11] = "";
    memcpy(digits, data + at + kSizeAt, 10);
    size_t length = strtoul(digits, NULL, 10);
    at += kHead;
    if (length > bytes - at) break;
    CUresult r = add_object(data + at, length, take, user, found);
    if (r != CUDA_SUCCESS) return r;
    at += length + length % 2;
  }
  return CUDA_SUCCESS;
}
