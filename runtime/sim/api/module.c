// module.c: loads kernel images, finds their kernels and globals.
//
// An image is an ELF shared object that libcusim's NVRTC made. cuModuleLoadData is given no length,
// so it is taken from the ELF headers; the bytes are read by write(2), which reports a bad address
// instead of faulting. A kernel's static shared memory is the image's thread-local segment.
#include "sim/api/api.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static uint64_t serial; // of the last module

// ---- reading the image --------------------------------------------------------------------------

// A new anonymous file; without memfd, an unlinked one.
int image_file(void) {
  int fd = memfd_create("cusim-kernels", MFD_CLOEXEC);
  if (fd >= 0) return fd;
  char path[] = "/tmp/cusim-XXXXXX";
  fd = mkostemp(path, O_CLOEXEC);
  if (fd >= 0) unlink(path);
  return fd;
}

ssize_t image_write(int fd, const void *from, size_t bytes) {
  return syscall(SYS_write, fd, from, bytes);
}

// Appends bytes at a program's address to the file: an invalid image when they cannot be read.
static CUresult take_bytes(int fd, const void *from, size_t bytes) {
  for (const char *at = from; bytes;) {
    ssize_t n = image_write(fd, at, bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0 && errno == EFAULT)
      return sim_refuse(CUDA_ERROR_INVALID_IMAGE, "the kernel image ends at %p", (void *)at);
    if (n <= 0) {
      fprintf(stderr, "libcusim: the kernel image cannot be stored: %s\n", strerror(errno));
      return CUDA_ERROR_OPERATING_SYSTEM;
    }
    at += n, bytes -= (size_t)n;
  }
  return CUDA_SUCCESS;
}

// The length of the ELF file whose header this is; 0 when it is none of ours.
static size_t elf_length(const Elf64_Ehdr *head) {
  enum { kMost = 1 << 30 };
  if (memcmp(head->e_ident, ELFMAG, SELFMAG) || head->e_ident[EI_CLASS] != ELFCLASS64) return 0;
#if defined(__x86_64__)
  if (head->e_machine != EM_X86_64) return 0;
#endif
  if (head->e_type != ET_DYN || head->e_shentsize != sizeof(Elf64_Shdr)) return 0;
  size_t length = head->e_shoff + (size_t)head->e_shnum * head->e_shentsize;
  return head->e_shoff < kMost && length > sizeof *head ? length : 0;
}

static bool image_is_whole(int fd, size_t length) {
  void *map = mmap(NULL, length, PROT_READ, MAP_PRIVATE, fd, 0);
  if (map == MAP_FAILED) return false;
  bool whole = ((Elf64_Ehdr *)map)->e_flags == host_checksum(map, length);
  munmap(map, length);
  return whole;
}

static CUresult store_image(const void *image, int *fd) {
  Elf64_Ehdr head;
  *fd = image_file();
  if (*fd < 0) {
    fprintf(stderr, "libcusim: no file for the kernel image: %s\n", strerror(errno));
    return CUDA_ERROR_OPERATING_SYSTEM;
  }
  CUresult r = take_bytes(*fd, image, sizeof head);
  if (r != CUDA_SUCCESS) return r;
  if (pread(*fd, &head, sizeof head, 0) != sizeof head) return CUDA_ERROR_OPERATING_SYSTEM;
  size_t length = elf_length(&head);
  if (!memcmp(head.e_ident, ELFMAG, SELFMAG) && head.e_machine == EM_CUDA)
    return sim_refuse(CUDA_ERROR_NO_BINARY_FOR_GPU,
                      "the kernel image is a GPU's machine code: libcusim takes PTX (of NVRTC "
                      "-arch=compute_90a and nvrtcGetPTX, of nvcc -ptx or -gencode "
                      "code=compute_90a)");
  if (!length)
    return sim_refuse(CUDA_ERROR_INVALID_IMAGE,
                      "the kernel image was not made by libcusim's NVRTC on such a host");
  r = take_bytes(*fd, (const char *)image + sizeof head, length - sizeof head);
  if (r != CUDA_SUCCESS) return r;
  if (image_is_whole(*fd, length)) return CUDA_SUCCESS;
  return sim_refuse(CUDA_ERROR_INVALID_IMAGE,
                    "the kernel image is damaged, or libcusim's NVRTC did not make it");
}

// Loads PTX; errors go to the program's log, their first line to stderr.
static CUresult store_text(const char *from, unsigned count, const CUjit_option *options,
                           void **values, int *fd) {
  Text image = {0}, log = {0};
  CUresult r = image_of_text(from, &image, &log);
  if (r == CUDA_SUCCESS)
    r = store_image(image.data, fd);
  else
    sim_refuse(r, "%.*s", log.data ? (int)strcspn(log.data, "\n") : 0, log.data ? log.data : "");
  image_give_log(&log, count, options, values);
  text_free(&image);
  text_free(&log);
  return r;
}

// ---- loading ------------------------------------------------------------------------------------

// Images refer to libcusim's functions by name: makes them visible when the program has loaded
// libcusim privately.
static void publish_self(void) {
  static bool done;
  Dl_info info;
  if (done || !dladdr((void *)publish_self, &info)) return;
  dlopen(info.dli_fname, RTLD_NOLOAD | RTLD_GLOBAL | RTLD_NOW);
  done = true;
}

static int find_segments(struct dl_phdr_info *info, size_t size, void *data) {
  (void)size;
  CUmodule module = data;
  struct link_map *map = NULL;
  dlinfo(module->handle, RTLD_DI_LINKMAP, &map);
  if (!map || info->dlpi_addr != map->l_addr) return 0;
  module->base = info->dlpi_addr;
  for (int i = 0; i < info->dlpi_phnum; i++) {
    size_t end = info->dlpi_phdr[i].p_vaddr + info->dlpi_phdr[i].p_memsz;
    if (info->dlpi_phdr[i].p_type == PT_LOAD && end > module->bytes) module->bytes = end;
    if (info->dlpi_phdr[i].p_type == PT_TLS) {
      module->tls_module = info->dlpi_tls_modid;
      size_t bytes = info->dlpi_phdr[i].p_memsz;
      module->tls_bytes = bytes > kTlsGuard ? bytes - kTlsGuard : 0;
    }
  }
  return 1;
}

static int count_params(const CusimKernel *kernel) {
  int n = 0;
  while (kernel->param_sizes[n]) n++;
  return n;
}

static CUresult add_function(CUmodule module, const CusimKernel *kernel) {
  CUfunction function = calloc(1, sizeof *function);
  if (!function) return CUDA_ERROR_OUT_OF_MEMORY;
  Dl_info info;
  bool named = dladdr(kernel->symbol, &info) && info.dli_sname && info.dli_saddr == kernel->symbol;
  *function = (struct CUfunc_st){.module = module, .kernel = kernel, .carveout = -1};
  function->name = named ? strdup(info.dli_sname) : symbol_name(module, kernel->symbol);
  if (!function->name) function->name = strdup(kernel->name);
  function->counters = calloc(1, sizeof *function->counters);
  function->param_count = count_params(kernel);
  function->next = module->functions;
  module->functions = function;
  bool ok = function->name && function->counters && handle_add(HandleFunction, function);
  return ok ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult open_image(CUmodule module) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)getpid(), module->fd); // which gdb can open
  publish_self();
  module->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!module->handle)
    return sim_refuse(CUDA_ERROR_INVALID_IMAGE, "the kernel image cannot be loaded: %s", dlerror());
  module->serial = ++serial;
  module->image = dlsym(module->handle, "cusim_image");
  if (!module->image)
    return sim_refuse(CUDA_ERROR_INVALID_IMAGE, "the kernel image has no table of kernels");
  if (module->image->abi != CUSIM_ABI || strcmp(module->image->cpu, host_cpu()) != 0)
    return sim_refuse(CUDA_ERROR_NO_BINARY_FOR_GPU,
                      "the kernel image was made by another libcusim, or for another machine");
  int lacks = (sim_settings()->trace ? CusimTrace : 0) | (sim_settings()->count ? CusimCount : 0);
  if (lacks & ~module->image->checks)
    return sim_refuse(CUDA_ERROR_NO_BINARY_FOR_GPU,
                      "the kernel image was compiled without the checks or counters that are on");
  dl_iterate_phdr(find_segments, module);
  bool counted = sim_settings()->count && !module->image->kernels->from_ptx;
  if (counted && !flow_load(module, dlsym(module->handle, "cusim_blocks")))
    return CUDA_ERROR_OUT_OF_MEMORY;
  if (sim_settings()->count) module->counts = dlsym(module->handle, "cusim_counts");
  CUresult r = CUDA_SUCCESS;
  for (const CusimKernel *k = module->image->kernels; k->name && r == CUDA_SUCCESS; k++)
    r = add_function(module, k);
  if (r == CUDA_SUCCESS && !image_read(module)) return CUDA_ERROR_OUT_OF_MEMORY;
  for (CUfunction f = module->functions; f; f = f->next)
    if (f->kernel->from_ptx) f->static_smem = f->kernel->static_smem;
  return r;
}

static void unload(CUmodule module) {
  for (CUfunction f = module->functions, next; f; f = next) {
    next = f->next;
    handle_drop(f);
    free(f->name);
    free(f->counters);
    free(f);
  }
  free(module->blocks);
  free(module->guards);
  first_read_forget(module->base, module->bytes);
  if (module->handle) dlclose(module->handle);
  if (module->fd >= 0) close(module->fd);
  free(module);
}

char *module_lower_name(const void *image, const char *name) {
  CUmodule module = calloc(1, sizeof *module);
  char *lowered = NULL;
  if (!module) return NULL;
  pthread_mutex_lock(&sim_lock);
  if (store_image(image, &module->fd) == CUDA_SUCCESS && open_image(module) == CUDA_SUCCESS)
    for (CUfunction f = module->functions; f && !lowered; f = f->next)
      if (!strcmp(f->kernel->name, name)) lowered = strdup(f->name);
  unload(module);
  pthread_mutex_unlock(&sim_lock);
  return lowered;
}

CUresult cuModuleLoadDataEx(CUmodule *out, const void *image, unsigned count, CUjit_option *options,
                            void **values) {
  CUresult r = sim_context_check();
  if (r != CUDA_SUCCESS) return r;
  if (!out || !image) return CUDA_ERROR_INVALID_VALUE;
  CUmodule module = calloc(1, sizeof *module);
  if (!module) return CUDA_ERROR_OUT_OF_MEMORY;
  pthread_mutex_lock(&sim_lock);
  module->fd = -1;
  bool text = image_is_text(image);
  r = text ? store_text(image, count, options, values, &module->fd)
           : store_image(image, &module->fd);
  bool stored = r == CUDA_SUCCESS;
  if (stored) r = open_image(module);
  if (r != CUDA_SUCCESS && (stored || !text)) {
    Text log = {0};
    text_print(&log, "%s\n", sim_said());
    image_give_log(&log, count, options, values);
    text_free(&log);
  }
  if (r == CUDA_SUCCESS && !handle_add(HandleModule, module)) r = CUDA_ERROR_OUT_OF_MEMORY;
  if (r == CUDA_SUCCESS) {
    module->next = sim_modules;
    *out = sim_modules = module;
  } else {
    unload(module);
  }
  pthread_mutex_unlock(&sim_lock);
  return r;
}

CUresult cuModuleLoadData(CUmodule *module, const void *image) {
  return cuModuleLoadDataEx(module, image, 0, NULL, NULL);
}

CUresult cuModuleLoad(CUmodule *module, const char *path) {
  if (!path) return CUDA_ERROR_INVALID_VALUE;
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return CUDA_ERROR_FILE_NOT_FOUND;
  off_t length = lseek(fd, 0, SEEK_END);
  void *map = length > 0 ? mmap(NULL, (size_t)length, PROT_READ, MAP_PRIVATE, fd, 0) : MAP_FAILED;
  close(fd);
  if (map == MAP_FAILED) return CUDA_ERROR_INVALID_IMAGE;
  CUresult r = cuModuleLoadData(module, map);
  munmap(map, (size_t)length);
  return r;
}

static bool is_module(CUmodule module) {
  return handle_is(HandleModule, module);
}

CUresult cuModuleUnload(CUmodule module) {
  CUresult r = sim_context_usable();
  if (r != CUDA_SUCCESS) return r;
  pthread_mutex_lock(&sim_lock);
  bool known = is_module(module);
  if (known) {
    stream_drain_all();
    graph_forget(module);
    CUmodule *at = &sim_modules;
    while (*at != module) at = &(*at)->next;
    *at = module->next;
    handle_drop(module);
    unload(module);
  }
  pthread_mutex_unlock(&sim_lock);
  return known ? sim_context_check() : CUDA_ERROR_INVALID_HANDLE;
}

bool module_owns(CUfunction function) {
  return handle_is(HandleFunction, function);
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
  CUresult r = sim_context_check();
  if (r != CUDA_SUCCESS) return r;
  if (!function || !name || !*name) return CUDA_ERROR_INVALID_VALUE;
  if (!is_module(module)) return CUDA_ERROR_INVALID_HANDLE;
  for (CUfunction f = module->functions; f; f = f->next)
    if (f->kernel->enter && !strcmp(f->name, name)) return *function = f, CUDA_SUCCESS;
  return sim_refuse(CUDA_ERROR_NOT_FOUND,
                    "the module has no kernel %s (of one that is not extern \"C\", "
                    "see nvrtcGetLoweredName)",
                    name);
}

// ---- second names: for a program that compiles equal kernels once -------------------------------

static CUresult add_alias(CUmodule module, CUfunction of, const char *name, CUfunction *out) {
  CUresult r = add_function(module, of->kernel);
  if (r != CUDA_SUCCESS) return r;
  *out = module->functions; // the one added
  char *copy = strdup(name);
  if (!copy) return CUDA_ERROR_OUT_OF_MEMORY;
  free((*out)->name);
  (*out)->name = copy;
  (*out)->static_smem = of->static_smem;
  return CUDA_SUCCESS;
}

// A function like `kernel` of the module, named `name` in reports, with its own counters and
// attributes. Freed with the module.
__attribute__((visibility("default"))) CUresult
cusimModuleAlias(CUfunction *out, CUmodule module, const char *kernel, const char *name) {
  CUfunction of = NULL;
  CUresult r = cuModuleGetFunction(&of, module, kernel);
  if (r != CUDA_SUCCESS) return r;
  if (!out || !name || !*name) return CUDA_ERROR_INVALID_VALUE;
  pthread_mutex_lock(&sim_lock);
  r = add_alias(module, of, name, out);
  pthread_mutex_unlock(&sim_lock);
  return r;
}

CUresult cuModuleGetGlobal_v2(CUdeviceptr *ptr, size_t *bytes, CUmodule module, const char *name) {
  CUresult r = sim_context_check();
  if (r != CUDA_SUCCESS) return r;
  if (!name || (!ptr && !bytes)) return CUDA_ERROR_INVALID_VALUE;
  if (!is_module(module)) return CUDA_ERROR_INVALID_HANDLE;
  uintptr_t address;
  size_t size;
  if (!symbol_variable(module, name, &address, &size))
    return sim_refuse(CUDA_ERROR_NOT_FOUND, "the module has no variable %s", name);
  if (ptr) *ptr = (CUdeviceptr)address;
  if (bytes) *bytes = size;
  return CUDA_SUCCESS;
}
