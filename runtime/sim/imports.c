// imports.c: whether the threads of a kernel image can wait for each other.
//
// Every way to wait is a function of libcusim, so the linker's table of what the image imports
// tells. Kernels that import none run as a loop over the block's threads.
#include "sim/sim.h"

#include <elf.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

// The functions and variables that no thread waits in.
static const char *const plain[] = {"cusim_self",        "cusim_misaligned", "cusim_trap",
                                    "cusim_assert_fail", "cusim_clock",      "cusim_nanotime",
                                    "cusim_printf"};

static bool is_plain(const char *name) {
  if (strncmp(name, "cusim_", 6) != 0) return true; // the C library's
  for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
    if (!strcmp(name, plain[i])) return true;
  return false;
}

static bool all_plain(const char *image) {
  const Elf64_Ehdr *head = (const Elf64_Ehdr *)image;
  const Elf64_Shdr *sections = (const Elf64_Shdr *)(image + head->e_shoff), *table = sections;
  while (table < sections + head->e_shnum && table->sh_type != SHT_DYNSYM) table++;
  if (table == sections + head->e_shnum || table->sh_link >= head->e_shnum) return false;
  const Elf64_Sym *symbols = (const Elf64_Sym *)(image + table->sh_offset);
  const char *names = image + sections[table->sh_link].sh_offset;
  for (size_t i = 1; i < table->sh_size / sizeof *symbols; i++)
    if (symbols[i].st_shndx == SHN_UNDEF && !is_plain(names + symbols[i].st_name)) return false;
  return true;
}

// The image is whole: its checksum was right.
bool imports_wait(int fd) {
  struct stat st;
  if (fstat(fd, &st) != 0) return true;
  void *image = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
  if (image == MAP_FAILED) return true;
  bool plain_ones = all_plain(image);
  munmap(image, (size_t)st.st_size);
  return !plain_ones;
}
