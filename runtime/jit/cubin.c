// cubin.c: renames the kernel of a cubin, so that one compilation serves every layer of
// its shape while profilers and the driver see each layer's name.
//
// A cubin is an ELF file. The kernel's name is in the string table of its symbols and, after a
// dot, in the names of its sections (.text.NAME, .nv.info.NAME, .nv.constant0.NAME, ...; on sm_100
// also .nv.merc.*). Names of another length do not fit there: the string tables are
// copied to the end of the file with the new names appended. The section headers and, as in NVRTC's
// files, the program headers come last: cuModuleLoadData is not passed a size, and may take their
// end for the end of the image. Code, relocations and everything else stay in place, byte for byte;
// the old string tables stay, too, but are not referenced any more.
#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "jit/jit.h"

enum { SymbolsOfMercury = 0x70000085 }; // sm_100: a second symbol table, laid out like the first

typedef struct Cubin {
  uint8_t *bytes;
  size_t size;
  Elf64_Ehdr head;      // a copy, like the next: a damaged file's symbols may overlap its headers
  Elf64_Shdr *sections; // owned
  const char *from, *to;
} Cubin;

static bool inside(const Cubin *c, uint64_t at, uint64_t bytes) {
  return at <= c->size && bytes <= c->size - at;
}

// A string of table `table`; NULL when it does not end inside it.
static const char *string_at(const Cubin *c, const Elf64_Shdr *table, uint32_t at) {
  if (at >= table->sh_size) return NULL;
  const char *text = (const char *)c->bytes + table->sh_offset + at;
  return memchr(text, 0, table->sh_size - at) ? text : NULL;
}

static bool is_elf(const Cubin *c) {
  const Elf64_Ehdr *h = &c->head;
  return !memcmp(h->e_ident, ELFMAG, SELFMAG) && h->e_ident[EI_CLASS] == ELFCLASS64 &&
         h->e_shentsize == sizeof(Elf64_Shdr) && h->e_shstrndx < h->e_shnum &&
         inside(c, h->e_shoff, h->e_shnum * sizeof(Elf64_Shdr)) &&
         (!h->e_phnum || h->e_phentsize == sizeof(Elf64_Phdr)) &&
         inside(c, h->e_phoff, h->e_phnum * sizeof(Elf64_Phdr));
}

// Copies the headers. *known: the file is one that can be renamed. False: no memory.
static bool open_elf(Cubin *c, bool *known) {
  if (c->size >= sizeof c->head) memcpy(&c->head, c->bytes, sizeof c->head);
  *known = is_elf(c);
  if (!*known) return true;
  size_t bytes = c->head.e_shnum * sizeof *c->sections;
  c->sections = heap_alloc(bytes, 1);
  if (!c->sections) return false;
  memcpy(c->sections, c->bytes + c->head.e_shoff, bytes);
  for (int i = 0; i < c->head.e_shnum; i++)
    if (c->sections[i].sh_type != SHT_NOBITS &&
        !inside(c, c->sections[i].sh_offset, c->sections[i].sh_size))
      *known = false;
  return true;
}

// ---- the names ---------------------------------------------------------------------------------

// If `name` is NAME or PREFIX.NAME, returns the length of the part before NAME, else -1.
static int kept_length(const Cubin *c, const char *name) {
  size_t n = strlen(name), tail = strlen(c->from);
  if (n < tail || strcmp(name + n - tail, c->from)) return -1;
  return n == tail || name[n - tail - 1] == '.' ? (int)(n - tail) : -1;
}

typedef struct Table { // a string table that grows at the end of the file
  char *text;
  size_t size, room;
} Table;

static bool append(Table *t, const char *prefix, int length, const char *name, uint32_t *at) {
  size_t need = (size_t)length + strlen(name) + 1;
  if (t->size + need > t->room) {
    char *more = heap_grow(t->text, (t->room + need) * 2, 1);
    if (!more) return false;
    t->text = more, t->room = (t->room + need) * 2;
  }
  *at = (uint32_t)t->size;
  memcpy(t->text + t->size, prefix, (size_t)length);
  memcpy(t->text + t->size + length, name, need - (size_t)length);
  t->size += need;
  return true;
}

// Renames every sh_name and st_name of section `table` that contains the kernel's name.
static bool rename_in(Cubin *c, int table, Table *t, int *renamed) {
  const Elf64_Shdr *strings = &c->sections[table];
  for (int i = 0; i < c->head.e_shnum; i++) {
    Elf64_Shdr *s = &c->sections[i];
    const char *name = table == c->head.e_shstrndx ? string_at(c, strings, s->sh_name) : NULL;
    int kept = name ? kept_length(c, name) : -1;
    if (kept >= 0 && !append(t, name, kept, c->to, &s->sh_name)) return false;
    bool symbols = s->sh_type == SHT_SYMTAB || s->sh_type == (Elf64_Word)SymbolsOfMercury;
    if (!symbols || (int)s->sh_link != table) continue;
    Elf64_Sym *symbol = (Elf64_Sym *)(c->bytes + s->sh_offset);
    for (size_t k = 0; k < s->sh_size / sizeof *symbol; k++) {
      name = string_at(c, strings, symbol[k].st_name);
      kept = name ? kept_length(c, name) : -1;
      if (kept < 0) continue;
      if (!append(t, name, kept, c->to, &symbol[k].st_name)) return false;
      *renamed += kept == 0 && s->sh_type == SHT_SYMTAB;
    }
  }
  return true;
}

// ---- parts that move to the end of the file ----------------------------------------------------

// Makes room for `bytes` more, 8-aligned, at *offset.
static bool extend(Cubin *c, size_t bytes, size_t *offset) {
  *offset = (c->size + 7) / 8 * 8;
  uint8_t *more = heap_grow(c->bytes, *offset + bytes, 1);
  if (!more) return false;
  c->bytes = more;
  memset(more + c->size, 0, *offset - c->size);
  c->size = *offset + bytes;
  return true;
}

// Moves string table `table`, with the new names.
static bool move_table(Cubin *c, int table, int *renamed) {
  Elf64_Shdr *s = &c->sections[table];
  size_t offset;
  Table t = {heap_alloc(s->sh_size + 1, 1), s->sh_size, s->sh_size + 1};
  bool done = t.text != NULL;
  if (done) memcpy(t.text, c->bytes + s->sh_offset, s->sh_size);
  done = done && rename_in(c, table, &t, renamed) && extend(c, t.size, &offset);
  if (done) {
    memcpy(c->bytes + offset, t.text, t.size);
    s->sh_offset = offset;
    s->sh_size = t.size;
  }
  free(t.text);
  return done;
}

// Moves the section headers and, after them, the program headers with the segments that hold them.
static bool move_headers(Cubin *c) {
  Elf64_Ehdr *h = &c->head;
  size_t section_bytes = h->e_shnum * sizeof(Elf64_Shdr), old = h->e_phoff, offset;
  size_t program_bytes = h->e_phnum * sizeof(Elf64_Phdr);
  if (!extend(c, section_bytes + program_bytes, &offset)) return false;
  Elf64_Phdr *programs = (Elf64_Phdr *)(c->bytes + offset + section_bytes);
  memcpy(c->bytes + offset, c->sections, section_bytes);
  memcpy(programs, c->bytes + old, program_bytes);
  h->e_shoff = offset;
  if (program_bytes) h->e_phoff = offset + section_bytes;
  for (int i = 0; i < h->e_phnum; i++)
    if (programs[i].p_offset == old && programs[i].p_filesz == program_bytes)
      programs[i].p_offset = h->e_phoff;
  memcpy(c->bytes, h, sizeof *h);
  return true;
}

int cubin_rename(const void *image, size_t size, const char *from, const char *to, void **out,
                 size_t *out_size, Error *err) {
  Cubin c = {.bytes = heap_alloc(size + 1, 1), .size = size, .from = from, .to = to};
  int renamed = 0;
  *out = NULL;
  if (!c.bytes) return heap_error(err, "renaming a kernel");
  memcpy(c.bytes, image, size);
  bool known, memory = open_elf(&c, &known);
  for (int i = 0; known && memory && i < c.head.e_shnum; i++)
    if (c.sections[i].sh_type == SHT_STRTAB) memory = move_table(&c, i, &renamed);
  if (known && memory) memory = move_headers(&c);
  free(c.sections);
  if (known && memory && renamed == 1) {
    *out = c.bytes;
    *out_size = c.size;
    return ExitOk;
  }
  free(c.bytes);
  return memory ? ExitOk : heap_error(err, "renaming a kernel");
}
