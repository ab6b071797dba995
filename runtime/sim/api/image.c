// image.c: reads a kernel image's section table: where the kernels' code is, whether
// their threads can wait for each other, and (shared.c) each kernel's static shared memory.
//
// Every way to wait is a function, so the image's imports show it. Kernels
// of an image that imports only functions known not to wait run as a loop over the block's
// threads; one that calls anything else (for example a function of the program) gets fibers.
#include "sim/api/api.h"

#include <dlfcn.h>
#include <elf.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

// Functions and variables that do not wait: libcusim's, and those that compilers call implicitly.
static const char *const plain[] = {"cusim_self",
                                    "cusim_misaligned",
                                    "cusim_trap",
                                    "cusim_assert_fail",
                                    "cusim_clock",
                                    "cusim_nanotime",
                                    "cusim_multiprocessors",
                                    "cusim_printf",
                                    "cusim_vprintf",
                                    "cusim_malloc",
                                    "cusim_free",
                                    "memcpy",
                                    "memmove",
                                    "memset",
                                    "memcmp",
                                    "__tls_get_addr",
                                    "__cxa_finalize",
                                    "__gmon_start__",
                                    "_ITM_deregisterTMCloneTable",
                                    "_ITM_registerTMCloneTable"};

// A function of the C library's arithmetic, wherever this process has it.
static bool is_arithmetic(void *handle, const char *name) {
  Dl_info info;
  void *address = dlsym(handle, name);
  if (!address || !dladdr(address, &info)) return false;
  const char *file = strrchr(info.dli_fname, '/');
  return file && !strncmp(file, "/libm.so", 8);
}

static bool is_plain(void *handle, const char *name) {
  for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
    if (!strcmp(name, plain[i])) return true;
  return is_arithmetic(handle, name);
}

// Number of imported symbols of a kind.
static int count_imports(void *handle, const char *image, const Elf64_Shdr *table,
                         bool (*is)(void *handle, const char *name)) {
  const Elf64_Ehdr *head = (const Elf64_Ehdr *)image;
  const Elf64_Shdr *sections = (const Elf64_Shdr *)(image + head->e_shoff);
  if (!table || table->sh_link >= head->e_shnum) return 0;
  const Elf64_Sym *symbols = (const Elf64_Sym *)(image + table->sh_offset);
  const char *names = image + sections[table->sh_link].sh_offset;
  int n = 0;
  for (size_t i = 1; i < table->sh_size / sizeof *symbols; i++)
    n += symbols[i].st_shndx == SHN_UNDEF && is(handle, names + symbols[i].st_name);
  return n;
}

static bool is_not_plain(void *handle, const char *name) {
  return !is_plain(handle, name);
}

static bool is_trigger(void *handle, const char *name) {
  (void)handle;
  return !strcmp(name, "cusim_launch_dependents");
}

static const Elf64_Shdr *find_section(const char *image, const char *name) {
  const Elf64_Ehdr *head = (const Elf64_Ehdr *)image;
  const Elf64_Shdr *sections = (const Elf64_Shdr *)(image + head->e_shoff);
  if (head->e_shstrndx >= head->e_shnum) return NULL;
  const char *names = image + sections[head->e_shstrndx].sh_offset;
  for (int i = 0; i < head->e_shnum; i++)
    if (!strcmp(names + sections[i].sh_name, name)) return &sections[i];
  return NULL;
}

// The image is whole: its checksum was right.
bool image_read(CUmodule module) {
  struct stat st;
  if (fstat(module->fd, &st) != 0) return false;
  char *image = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, module->fd, 0);
  if (image == MAP_FAILED) return false;
  const Elf64_Shdr *code = find_section(image, ".text");
  module->code = code ? module->base + code->sh_addr : module->base;
  module->code_bytes = code ? code->sh_size : module->bytes;
  const Elf64_Shdr *table = find_section(image, ".dynsym");
  module->waits = !table || count_imports(module->handle, image, table, is_not_plain) > 0;
  module->triggers = count_imports(module->handle, image, table, is_trigger) > 0;
  bool ok = shared_measure(module, image);
  munmap(image, (size_t)st.st_size);
  return ok;
}
