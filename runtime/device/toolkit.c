// toolkit.c: opens NVRTC, or libcusim's compiler, and identifies it exactly.
//
// The identity goes into the keys of the kernel cache. NVRTC's version alone hides patch releases,
// so the library's build-id joins it; the simulator's output also depends on the host compiler.
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>

#include "device/device.h"

// ---- the build-id of a loaded library ----------------------------------------------------------

typedef struct BuildId {
  const char *path; // as the loader knows the library
  char *text;
  size_t size;
} BuildId;

// ELF notes: three words (name size, data size, type), name, data, each padded to four bytes.
static void read_notes(const uint8_t *at, size_t size, BuildId *id) {
  while (size >= 12) {
    uint32_t head[3];
    memcpy(head, at, sizeof head);
    size_t name = (head[0] + 3u) & ~3u, data = (head[1] + 3u) & ~3u;
    if (12 + name + data > size) return;
    if (head[2] == NT_GNU_BUILD_ID && head[0] == 4 && !memcmp(at + 12, "GNU", 4))
      for (uint32_t i = 0; i < head[1] && 2 * i + 3 < id->size; i++)
        snprintf(id->text + 2 * i, 3, "%02x", at[12 + name + i]);
    at += 12 + name + data;
    size -= 12 + name + data;
  }
}

static int visit(struct dl_phdr_info *info, size_t size, void *user) {
  BuildId *id = user;
  (void)size;
  if (strcmp(info->dlpi_name, id->path)) return 0;
  for (int i = 0; i < info->dlpi_phnum; i++)
    if (info->dlpi_phdr[i].p_type == PT_NOTE)
      read_notes((const uint8_t *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr),
                 info->dlpi_phdr[i].p_memsz, id);
  return 1;
}

static void identify(Toolkit *toolkit) {
  struct link_map *map;
  char id[80] = "", stamp[64] = "", host[32] = "";
  if (!dlinfo(toolkit->library, RTLD_DI_LINKMAP, &map)) {
    BuildId build = {map->l_name, id, sizeof id};
    dl_iterate_phdr(visit, &build);
  }
  if (!id[0] || toolkit->simulator) host_stamp(toolkit->path, stamp, sizeof stamp);
  if (toolkit->simulator) host_identity(host, sizeof host);
  const char *front = // libcusim's setting
      toolkit->simulator ? getenv("NNGEN_SIM_FRONTEND") : NULL;
  snprintf(toolkit->identity, sizeof toolkit->identity, "%s %d %s %s %s%s%s",
           toolkit->simulator ? "cusim" : "nvrtc", toolkit->version, id, stamp, host,
           front ? " " : "", front ? front : "");
}

static int open_api(Toolkit *toolkit, Error *err) {
  const char *missing = NULL;
  int major = 0, minor = 0;
  if (!api_load_nvrtc(toolkit->library, &toolkit->api, &missing))
    return err_set(err, ExitNoToolchain, "NVRTC: '%s' has no %s; nngen needs CUDA 12 or newer",
                   toolkit->path, missing);
  if (toolkit->api.nvrtcVersion(&major, &minor)) // libcusim, whose front end NVRTC is to be
    return err_set(err, ExitNoToolchain,
                   "NVIDIA's NVRTC was not found: neither by NNGEN_SIM_NVRTC, nor libnvrtc.so.13 "
                   "or .12, nor below CUDA_PATH; install a CUDA toolkit or leave out "
                   "--sim-frontend nvrtc (NNGEN_SIM_FRONTEND)");
  toolkit->version = major * 1000 + minor * 10;
  identify(toolkit);
  return ExitOk;
}

int toolkit_open(const char *cuda_path, int newest, Toolkit *toolkit, Error *err) {
  FoundLibrary found;
  char where[3000];
  *toolkit = (Toolkit){.library = find_library(FindNvrtc, cuda_path, newest, &found)};
  snprintf(toolkit->path, sizeof toolkit->path, "%s", found.path ? found.path : "");
  find_describe(&found, where, sizeof where);
  find_free(&found);
  if (!toolkit->library)
    return err_set(err, ExitNoToolchain,
                   "%s\ninstall a CUDA toolkit or `pip install "
                   "nvidia-cuda-nvrtc`, or name its folder with --cuda-path",
                   where);
  int rc = open_api(toolkit, err);
  if (rc) toolkit_close(toolkit);
  return rc;
}

int toolkit_open_sim(void *library, const char *path, Toolkit *toolkit, Error *err) {
  *toolkit = (Toolkit){.library = library, .simulator = true};
  snprintf(toolkit->path, sizeof toolkit->path, "%s", path);
  return open_api(toolkit, err);
}

// "sm_75 sm_80 ..." into text.
static void list_archs(const int *archs, int count, char *text, size_t size) {
  size_t at = 0;
  *text = 0;
  for (int i = 0; i < count && at < size; i++)
    at += (size_t)snprintf(text + at, size - at, "%ssm_%d", i ? " " : "", archs[i]);
}

int toolkit_check_arch(const Toolkit *toolkit, const char *arch, Error *err) {
  int count = 0, archs[64], wanted = 0;
  char known[512];
  if (toolkit->simulator) return ExitOk; // it compiles for the host, whatever it says it is
  if (sscanf(arch, "sm_%d", &wanted) != 1)
    return err_set(err, ExitUsage, "'%s' is not an architecture, for example sm_90a", arch);
  if (toolkit->api.nvrtcGetNumSupportedArchs(&count) || count < 1 || count > COUNT(archs) ||
      toolkit->api.nvrtcGetSupportedArchs(archs))
    return ExitOk; // let the compiler speak
  for (int i = 0; i < count; i++)
    if (archs[i] == wanted) return ExitOk;
  list_archs(archs, count, known, sizeof known);
  return err_set(err, ExitNoToolchain, "NVRTC %d.%d ('%s') does not know %s; it knows %s%s",
                 toolkit->version / 1000, toolkit->version / 10 % 100, toolkit->path, arch, known,
                 wanted < archs[0] ? "; an older CUDA toolkit knows older GPUs" : "");
}

void toolkit_close(Toolkit *toolkit) {
  if (toolkit->library && !toolkit->simulator) dlclose(toolkit->library);
  toolkit->library = NULL;
}
