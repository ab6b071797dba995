// translate.c: PTX text -> C++ text -> kernel image, by the host's compiler, in a private folder.
#include "sim/ptx/ptx.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

typedef struct Asset {
  const char *name, *begin, *end;
} Asset;
extern const Asset sim_assets[]; // runtime/sim/device/*

// A module begins with .version; text that lacks it but has other directives is invalid PTX.
static bool is_directive(const char *word) {
  static const char *const words[] = {".version", ".target", ".address_size", ".visible", ".extern",
                                      ".weak", ".entry", ".func", ".global", ".const", ".shared"};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (!strncmp(word, words[i], strlen(words[i]))) return true;
  return false;
}

bool ptx_is_text(const void *image) {
  const char *p = image;
  for (int i = 0; i < 1 << 16; i++, p++) { // skips leading comments
    if (*p == '.') return is_directive(p);
    if (*p == '/' && p[1] == '/') {
      while (*p && *p != '\n') p++;
      if (!*p) return false;
    } else if (!isspace((unsigned char)*p)) {
      return false;
    }
  }
  return false;
}

// Built for a newer GPU than the one that is modelled, or for another `a`.
static void check_target(PtxModule *m, int arch) {
  bool exact = m->target[strlen(m->target) - 1] == 'a';
  if (!arch || (exact ? m->arch == arch : m->arch <= arch)) return;
  ptx_fail(m->ptx, CUDA_ERROR_NO_BINARY_FOR_GPU, 0, "the module is for %s; the device is sm_%d",
           m->target, arch);
}

CUresult ptx_translate(const char *text, const PtxJob *job, Text *c_text, Text *log) {
  Ptx ptx = {.log = log, .error = CUDA_SUCCESS};
  if (setjmp(ptx.failed) == 0) {
    PtxModule *module = ptx_parse(&ptx, text);
    check_target(module, job->arch);
    emit_module(module, job, c_text);
  }
  ptx_free(&ptx);
  return ptx.error;
}

CUresult ptx_check(const char *text, Text *log) {
  Ptx ptx = {.log = log, .error = CUDA_SUCCESS};
  if (setjmp(ptx.failed) == 0) ptx_parse(&ptx, text);
  ptx_free(&ptx);
  return ptx.error;
}

static bool write_headers(const char *folder, Text *log) {
  for (const Asset *a = sim_assets; a->name; a++) {
    char name[256];
    snprintf(name, sizeof name, "%s", strstr(a->name, "device/"));
    if (!folder_write(folder, name, a->begin, (size_t)(a->end - a->begin), log)) return false;
  }
  return true;
}

static bool run(const char *folder, Args *args, Text *log) {
  Text said = {0};
  int code = host_run(folder, args, &said, log);
  if (code != 0 && said.data) text_append(log, said.data, said.length);
  text_free(&said);
  return code == 0;
}

// Compiles with libcusim's headers precompiled, which kernels.cc then does not include. False: the
// caller compiles it.
static bool compile_precompiled(const char *folder, const Args *options, const char *const *last) {
  char path[kPath], include[kPath];
  Text headers = {0};
  Args args = *options;
  for (const Asset *a = sim_assets; sim_settings()->precompiled && a->name; a++)
    text_append(&headers, a->begin, (size_t)(a->end - a->begin));
  bool ok = precompiled_find(folder, "device/cusim_ptx.h", &headers, &args, path);
  if (ok) {
    snprintf(include, sizeof include, "%.*s", (int)(strlen(path) - strlen(".gch")), path);
    args_add_all(&args, (const char *[]){"-include", include, NULL});
    args_add_all(&args, last);
    ok = precompiled_run(folder, &args, path);
  }
  text_free(&headers);
  return ok;
}

// NOTE: PTX is explicit about fma: -ffp-contract=off. -g1 follows -gdwarf-4, which implies -g2:
// tracking thousands of registers through a function takes half of the time.
static CUresult compile(const char *folder, const Text *c_text, int checks, Text *log) {
  enum { kLong = 1 << 20 };
  Args args = {.count = 0};
  char words[1024];
  if (!host_find_compiler(&args, words, log)) return CUDA_ERROR_JIT_COMPILER_NOT_FOUND;
  HostKind kind = host_kind(&args);
  args_add_all(&args,
               (const char *[]){"-std=c++17", "-O1", "-gdwarf-4", "-g1", "-march=native", "-fPIC",
                                "-fstack-clash-protection", "-w", "-fno-exceptions", "-fno-rtti",
                                "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=off",
                                "-fno-strict-aliasing", "-fno-delete-null-pointer-checks",
                                "-fvisibility=hidden", "-fno-stack-protector", "-fwrapv",
                                "-fno-semantic-interposition", "-fmax-errors=20",
                                "-Idevice", NULL});
  host_add_frames(&args);
  if (kind != HostClang) args_add(&args, "-fno-gnu-unique"); // Clang has no such variables
  // NOTE: GCC's points-to analysis takes half of the time for 1.5 MB of C text, and grows
  // superlinearly.
  if (kind != HostClang && c_text->length > kLong) args_add(&args, "-fno-tree-pta");
  if (kind != HostGcc) args_add(&args, "-ftrivial-auto-var-init=pattern"); // registers
  args_add(&args, checks & CusimTrace ? "-DCUSIM_TRACE=1" : "-DCUSIM_TRACE=0");
  args_add(&args, checks & CusimCount ? "-DCUSIM_COUNT=1" : "-DCUSIM_COUNT=0");
  const char *const last[] = {"-shared", "-Wl,-Bsymbolic", "-x", "c++", "kernels.cc", "-x",
                              "none", "device/cusim_guard.o", "-o", "image.so",
                              "-nostdlib", "-lm", NULL};
  if (kind != HostClang && compile_precompiled(folder, &args, last)) return CUDA_SUCCESS;
  args_add_all(&args, last);
  return run(folder, &args, log) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_PTX;
}

static CUresult compile_in(const char *folder, const char *text, const Text *c_text, int checks,
                           Text *image, Text *log) {
  if (!folder_write(folder, "source.ptx", text, strlen(text), log) ||
      !folder_write(folder, "kernels.cc", c_text->data, c_text->length, log) ||
      !write_headers(folder, log))
    return CUDA_ERROR_OPERATING_SYSTEM;
  CUresult r = compile(folder, c_text, checks, log);
  if (r != CUDA_SUCCESS) return r;
  if (!folder_read_output(folder, "image.so", image, log)) return CUDA_ERROR_OPERATING_SYSTEM;
  if (host_seal_image(image)) return CUDA_SUCCESS;
  text_print(log, "libcusim: the output of the host's compiler is not a shared object\n");
  return CUDA_ERROR_OPERATING_SYSTEM;
}

CUresult ptx_compile(const char *text, const PtxJob *job, Text *image, Text *log) {
  Text c_text = {0};
  char folder[kFolder];
  CUresult r = ptx_translate(text, job, &c_text, log);
  if (r == CUDA_SUCCESS && !folder_make(folder, log)) r = CUDA_ERROR_OPERATING_SYSTEM;
  else if (r == CUDA_SUCCESS) {
    r = compile_in(folder, text, &c_text, job->checks, image, log);
    folder_remove(folder);
  }
  text_free(&c_text);
  return r;
}
