// find.c: finds the libraries that nngen loads at run time, and says where it looked.
//
// One row per library, one per place; the places are tried in order and recorded, so
// that `nngen doctor` and the error for a missing library can show the search. Order: what the user
// named, what the process already has, the system's loader, conda, CUDA_PATH and CUDA_HOME, the
// usual toolkit folders, wheels of the Pythons found.
#include <dlfcn.h>
#include <glob.h>
#include <libgen.h>
#include <limits.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device/device.h"

typedef struct LibraryRow {
  const char *role;
  const char *sonames[4]; // newest first
  const char *wheels[2];  // folder of the CUDA 13 and 12 wheels, below site-packages/nvidia
} LibraryRow;

static const LibraryRow rows[FindCount] = {
    [FindDriver] = {"CUDA driver", {"libcuda.so.1"}, {NULL}},
    [FindNvrtc] = {"NVRTC", {"libnvrtc.so.13", "libnvrtc.so.12"}, {"cu13", "cuda_nvrtc"}},
    [FindSim] = {"libcusim", {"libcusim.so"}, {NULL}},
    [FindCublas] = {"cuBLAS", {"libcublas.so.13", "libcublas.so.12"}, {"cu13", "cublas"}},
    [FindCudnn] = {"cuDNN", {"libcudnn.so.9"}, {"cudnn", "cudnn"}},
    [FindCupti] = {"CUPTI", {"libcupti.so.13", "libcupti.so.12"}, {"cu13", "cuda_cupti"}},
};

#define TOOLKIT_DIRS "/{lib64,lib,targets/*/lib,extras/CUPTI/lib64}"

// A place is a glob pattern relative to the value of an environment variable, or absolute.
static const struct {
  const char *how, *variable, *pattern;
} places[] = {
    {"CONDA_PREFIX", "CONDA_PREFIX", "/{lib,targets/*/lib}"},
    {"CUDA_PATH", "CUDA_PATH", TOOLKIT_DIRS},
    {"CUDA_HOME", "CUDA_HOME", TOOLKIT_DIRS},
    {"/usr/local/cuda", NULL, "/usr/local/cuda" TOOLKIT_DIRS},
    {"/usr/local/cuda-*", NULL, "/usr/local/cuda-*" TOOLKIT_DIRS},
};

typedef struct Search {
  const LibraryRow *row;
  int newest; // index of the first soname that may be used
  FoundLibrary *found;
  void *handle;
} Search;

// ---- trying ------------------------------------------------------------------------------------

static void set(char **field, char *text) {
  free(*field);
  *field = text ? text : heap_copy("");
}

static void searched(Search *search, const char *where) {
  FoundLibrary *found = search->found;
  char **list = heap_grow(found->searched, (size_t)found->nsearched + 1, sizeof *list);
  if (!list) return;
  found->searched = list;
  char *copy = heap_copy(where);
  if (copy) list[found->nsearched++] = copy;
}

// The toolkit's stub libcuda has all symbols but no working functions.
static bool is_stub(const char *path) {
  return strstr(path, "/stubs/") != NULL;
}

static bool accept(Search *search, void *handle, const char *how) {
  struct link_map *map;
  if (dlinfo(handle, RTLD_DI_LINKMAP, &map) || is_stub(map->l_name)) {
    set(&search->found->note, heap_format("%s is a stub, not a driver", map->l_name));
    dlclose(handle);
    return false;
  }
  search->handle = handle;
  char *real = realpath(map->l_name, NULL);
  set(&search->found->path, real ? real : heap_copy(map->l_name));
  set(&search->found->how, heap_copy(how));
  set(&search->found->note, heap_copy(""));
  return true;
}

static bool try_file(Search *search, const char *path, int flags, const char *how) {
  // NODELETE: NVRTC does not release its memory when unloaded.
  void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE | flags);
  if (handle) return accept(search, handle, how);
  if (!(flags & RTLD_NOLOAD) && strchr(path, '/'))
    set(&search->found->note, heap_format("cannot be loaded: %s", dlerror()));
  return false;
}

static bool try_sonames(Search *search, int flags, const char *how) {
  for (int i = search->newest; i < 4 && search->row->sonames[i]; i++)
    if (try_file(search, search->row->sonames[i], flags, how)) return true;
  return false;
}

static bool try_dir(Search *search, const char *dir, const char *how) {
  char path[PATH_MAX];
  searched(search, dir);
  for (int i = search->newest; i < 4 && search->row->sonames[i]; i++) {
    snprintf(path, sizeof path, "%s/%s", dir, search->row->sonames[i]);
    if (!access(path, F_OK) && try_file(search, path, 0, how)) return true;
  }
  return false;
}

static int newest_first(const void *a, const void *b) {
  return strverscmp(*(char *const *)b, *(char *const *)a);
}

static bool try_pattern(Search *search, const char *base, const char *pattern, const char *how) {
  char text[PATH_MAX];
  glob_t match;
  bool done = false;
  snprintf(text, sizeof text, "%s%s", base, pattern);
  if (glob(text, GLOB_BRACE | GLOB_ONLYDIR, NULL, &match)) return false;
  qsort(match.gl_pathv, match.gl_pathc, sizeof *match.gl_pathv, newest_first);
  for (size_t i = 0; i < match.gl_pathc && !done; i++)
    done = try_dir(search, match.gl_pathv[i], how);
  globfree(&match);
  return done;
}

// ---- the order ---------------------------------------------------------------------------------

static bool find_driver(Search *search) {
  searched(search, "ld.so");
  return try_sonames(search, RTLD_NOLOAD, "already loaded") || try_sonames(search, 0, "ld.so") ||
         try_dir(search, "/usr/lib/wsl/lib", "WSL");
}

// Wheels are in site-packages: of the virtual environment, conda, the user, the system.
static bool find_wheel(Search *search) {
  const char *home = getenv("HOME");
  char user[PATH_MAX] = "", pattern[160];
  if (home) snprintf(user, sizeof user, "%s/.local", home);
  const char *const bases[] = {getenv("VIRTUAL_ENV"), getenv("CONDA_PREFIX"), user, "/usr/local",
                               "/usr"};
  static const char *const hows[] = {"VIRTUAL_ENV", "CONDA_PREFIX", "~/.local", "/usr/local",
                                     "/usr"};
  for (int b = 0; b < COUNT(bases); b++)
    for (int i = 0; bases[b] && *bases[b] && i < 2; i++) {
      snprintf(pattern, sizeof pattern, "/lib/python*/{site,dist}-packages/nvidia/%s/lib",
               search->row->wheels[i]);
      if (try_pattern(search, bases[b], pattern, hows[b])) return true;
    }
  return false;
}

static bool find_toolkit(Search *search, const char *cuda_path) {
  const char *named = cuda_path ? cuda_path : getenv("NNGEN_CUDA_PATH");
  const char *how = cuda_path ? "--cuda-path" : "NNGEN_CUDA_PATH";
  bool given = named && *named;
  if (given && (try_dir(search, named, how) || try_pattern(search, named, TOOLKIT_DIRS, how)))
    return true;
  searched(search, "ld.so");
  if (try_sonames(search, RTLD_NOLOAD, "already loaded") || try_sonames(search, 0, "ld.so"))
    return true;
  for (int i = 0; i < COUNT(places); i++) {
    const char *base = places[i].variable ? getenv(places[i].variable) : "";
    if (base && try_pattern(search, base, places[i].pattern, places[i].how)) return true;
  }
  return find_wheel(search);
}

static bool find_sim(Search *search) {
  char exe[PATH_MAX], dir[PATH_MAX + 8];
  const char *named = getenv("NNGEN_SIM");
  bool given = named && *named;
  if (given) searched(search, named);
  if (given && try_file(search, named, 0, "NNGEN_SIM")) return true;
  ssize_t length = readlink("/proc/self/exe", exe, sizeof exe - 1);
  if (length > 0) {
    exe[length] = 0;
    char *origin = dirname(exe);
    if (try_dir(search, origin, "beside nngen")) return true;
    snprintf(dir, sizeof dir, "%s/../lib", origin);
    if (try_dir(search, dir, "beside nngen")) return true;
  }
  searched(search, "ld.so");
  return try_sonames(search, 0, "ld.so");
}

// NVRTC opens its builtins by bare name without a run path, so it does not find them in its folder:
// without this, the first compilation fails with error 7.
static void load_builtins(const char *nvrtc_path) {
  char pattern[PATH_MAX + 32], copy[PATH_MAX];
  glob_t match;
  snprintf(copy, sizeof copy, "%s", nvrtc_path);
  snprintf(pattern, sizeof pattern, "%s/libnvrtc-builtins.so.*", dirname(copy));
  if (glob(pattern, 0, NULL, &match)) return;
  for (size_t i = 0; i < match.gl_pathc; i++) dlopen(match.gl_pathv[i], RTLD_NOW | RTLD_GLOBAL);
  globfree(&match);
}

// The version in the file's name: "libcublas.so.13.1.0.3" -> "13.1.0.3".
static char *version_of(const char *path) {
  const char *suffix = strstr(path, ".so.");
  return heap_copy(suffix ? suffix + 4 : "");
}

void *find_library(FindKind kind, const char *cuda_path, int newest, FoundLibrary *found) {
  *found = (FoundLibrary){.role = rows[kind].role,
                          .version = heap_copy(""),
                          .how = heap_copy(""),
                          .note = heap_copy("")};
  Search search = {&rows[kind], newest, found, NULL};
  bool done = kind == FindDriver ? find_driver(&search)
              : kind == FindSim  ? find_sim(&search)
                                 : find_toolkit(&search, cuda_path);
  if (done && found->path) set(&found->version, version_of(found->path));
  if (done && kind == FindNvrtc && found->path) load_builtins(found->path);
  if (!done && (!found->note || !found->note[0])) set(&found->note, heap_copy("not found"));
  return search.handle;
}

void find_free(FoundLibrary *found) {
  free(found->path);
  free(found->version);
  free(found->how);
  free(found->note);
  for (int i = 0; i < found->nsearched; i++) free(found->searched[i]);
  free(found->searched);
  *found = (FoundLibrary){0};
}

void find_describe(const FoundLibrary *found, char *text, size_t size) {
  int at = snprintf(text, size, "%s: %s; searched:", found->role, found->note ? found->note : "");
  for (int i = 0; i < found->nsearched && at >= 0 && (size_t)at < size; i++)
    at += snprintf(text + at, size - (size_t)at, " %s", found->searched[i]);
}
