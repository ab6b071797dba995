// symbols.c: names that an image's dynamic table lacks: static kernels and variables, and those
// with class template arguments (which the compiler hides). The full symbol table has them.
#include "sim/api/api.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

typedef struct Symbols {
  char *image;
  size_t bytes;
  const Elf64_Sym *list;
  size_t count;
  const char *names;
} Symbols;

static bool open_symbols(CUmodule module, Symbols *s) {
  struct stat st;
  *s = (Symbols){0};
  if (fstat(module->fd, &st) != 0) return false;
  s->bytes = (size_t)st.st_size;
  s->image = mmap(NULL, s->bytes, PROT_READ, MAP_PRIVATE, module->fd, 0);
  if (s->image == MAP_FAILED) return s->image = NULL, false;
  const Elf64_Ehdr *head = (const Elf64_Ehdr *)s->image; // whole: its checksum was right
  const Elf64_Shdr *sections = (const Elf64_Shdr *)(s->image + head->e_shoff);
  for (int i = 0; i < head->e_shnum; i++) {
    if (sections[i].sh_type != SHT_SYMTAB) continue;
    s->list = (const Elf64_Sym *)(s->image + sections[i].sh_offset);
    s->count = sections[i].sh_size / sizeof *s->list;
    s->names = s->image + sections[sections[i].sh_link].sh_offset;
  }
  return true;
}

static void close_symbols(Symbols *s) {
  if (s->image) munmap(s->image, s->bytes);
}

// `static` is a letter in the host's names, which NVRTC's have not: _ZL1kPi is _Z1kPi.
static bool is_static(const char *name) {
  return !strncmp(name, "_ZL", 3);
}

// A variable outside namespaces NVRTC names as the source does: `v` for _ZL1v; else null.
static const char *plain_variable(const char *name) {
  char *end;
  if (!is_static(name)) return NULL;
  size_t length = strtoul(name + 3, &end, 10);
  return length == strlen(end) ? end : NULL;
}

static char *nvrtc_name(const char *found, bool variable) {
  const char *plain = variable ? plain_variable(found) : NULL;
  char *name = NULL;
  if (plain || !is_static(found)) return strdup(plain ? plain : found);
  return asprintf(&name, "_Z%s", found + 3) < 0 ? NULL : name;
}

char *symbol_name(CUmodule module, const void *address) {
  Symbols s;
  char *name = NULL;
  uintptr_t offset = (uintptr_t)address - module->base;
  if (!open_symbols(module, &s)) return NULL;
  for (size_t i = 0; i < s.count && !name; i++) {
    int type = ELF64_ST_TYPE(s.list[i].st_info);
    const char *found = s.names + s.list[i].st_name;
    if (s.list[i].st_value == offset && (type == STT_FUNC || type == STT_OBJECT))
      name = nvrtc_name(found, type == STT_OBJECT);
  }
  close_symbols(&s);
  return name;
}

static bool is_variable(const char *found, const char *name) {
  const char *plain = plain_variable(found);
  return !strcmp(found, name) || (plain && !strcmp(plain, name));
}

bool symbol_variable(CUmodule module, const char *name, uintptr_t *address, size_t *bytes) {
  Symbols s;
  bool found = false;
  if (!open_symbols(module, &s)) return false;
  for (size_t i = 0; i < s.count && !found; i++) {
    if (ELF64_ST_TYPE(s.list[i].st_info) != STT_OBJECT || !s.list[i].st_size) continue;
    found = is_variable(s.names + s.list[i].st_name, name);
    *address = module->base + s.list[i].st_value;
    *bytes = s.list[i].st_size;
  }
  close_symbols(&s);
  return found;
}
