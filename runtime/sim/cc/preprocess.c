// preprocess.c: writes a program's source and its in-memory headers to a private folder, and runs
// the host's preprocessor on them, after libcusim's headers.
#include "sim/cc/cc.h"

#include <stdlib.h>
#include <string.h>

typedef struct Asset {
  const char *name, *begin, *end;
} Asset;
extern const Asset sim_assets[]; // runtime/sim/device/*

static bool is_safe(const char *name) {
  return *name && *name != '/' && !strstr(name, "..");
}

// Of the program's headers, or a file of the process's working folder, or of an include path.
static void include_first(const CompileJob *job, const char *name, Text *text) {
  bool given = false;
  for (int i = 0; i < job->header_count; i++) given |= !strcmp(job->header_names[i], name);
  char *whole = given ? NULL : realpath(name, NULL);
  text_print(text, "#include <%s>\n", whole ? whole : name);
  free(whole);
}

bool preprocess_takes(const char *option) {
  return !strncmp(option, "-D", 2) || !strncmp(option, "-U", 2) || !strncmp(option, "-include", 8);
}

// -D, -U and, after them, -include as a file: on the command line they would reach cusim.h, too.
static bool write_macros(const CompileJob *job, const char *folder, Text *log) {
  Text text = {0};
  for (const char *const *o = job->options; *o; o++) {
    if (!strncmp(*o, "-U", 2)) text_print(&text, "#undef %s\n", *o + 2);
    if (strncmp(*o, "-D", 2) != 0) continue;
    int name = (int)strcspn(*o + 2, "=");
    const char *value = *o + 2 + name;
    text_print(&text, "#define %.*s %s\n", name, *o + 2, *value ? value + 1 : "1");
  }
  for (const char *const *o = job->options; *o; o++)
    if (!strncmp(*o, "-include", 8)) include_first(job, *o + 8, &text);
  bool ok = !text.failed &&
            folder_write(folder, "device/macros.h", text.data ? text.data : "", text.length, log);
  text_free(&text);
  return ok;
}

bool preprocess_header(const char *folder, const char *only, Text *log) {
  for (const Asset *a = sim_assets; a->name; a++) {
    const char *name = strstr(a->name, "device/");
    if ((!only || !strcmp(name, only)) &&
        !folder_write(folder, name, a->begin, (size_t)(a->end - a->begin), log))
      return false;
  }
  return true;
}

bool preprocess_inputs(const CompileJob *job, const char *folder, Text *log) {
  if (!preprocess_header(folder, NULL, log)) return false;
  for (int i = 0; i < job->header_count; i++)
    if (is_safe(job->header_names[i]) &&
        !folder_write(folder, job->header_names[i], job->headers[i], strlen(job->headers[i]), log))
      return false;
  Text source = {0};
  text_print(&source, "#line 1 \"%s\"\n%s\n",
             job->name && *job->name ? job->name : "default_program", job->source);
  bool ok = !source.failed && write_macros(job, folder, log) &&
            folder_write(folder, "source.cu", source.data, source.length, log);
  text_free(&source);
  return ok;
}

// ---- the preprocessor --------------------------------------------------------------------------

// The folder of the program's named source: headers in quotes are found there, as NVRTC finds them.
static char *source_folder(const CompileJob *job) {
  const char *slash = job->name ? strrchr(job->name, '/') : NULL;
  char *folder = slash ? strndup(job->name, (size_t)(slash - job->name) + 1) : strdup(".");
  char *whole = folder ? realpath(folder, NULL) : NULL, *option = NULL;
  if (whole && asprintf(&option, "-iquote%s", whole) < 0) option = NULL;
  free(folder);
  free(whole);
  return option;
}

bool preprocess(const CompileJob *job, const Args *compiler, const char *folder, const char *more,
                Text *log) {
  char arch[64], list[64], *beside = source_folder(job);
  snprintf(arch, sizeof arch, "-D__CUDA_ARCH__=%d", job->arch * 10);
  snprintf(list, sizeof list, "-D__CUDA_ARCH_LIST__=%d", job->arch * 10);
  Args args = *compiler;
  args_add_all(&args, (const char *[]){"-E",
                                  "-x",
                                  "c++",
                                  "-std=c++17",
                                  "-w",
                                  "-D__CUSIM__=1",
                                  "-D__CUDACC__=1",
                                  "-D__CUDACC_RTC__=1",
                                  "-D__CUDACC_VER_MAJOR__=13", // as nvrtcVersion
                                  "-D__CUDACC_VER_MINOR__=0",
                                  arch,
                                  list,
                                  job->checks & CusimTrace ? "-DCUSIM_TRACE=1" : "-DCUSIM_TRACE=0",
                                  job->checks & CusimCount ? "-DCUSIM_COUNT=1" : "-DCUSIM_COUNT=0",
                                  "-march=native",
                                  "-nostdinc",
                                  "-nostdinc++",
                                  "-I.",
                                  "-Idevice",
                                  "-include",
                                  "device/cusim.h",
                                  "-include",
                                  "device/cusim_env.h",
                                  "-include",
                                  "device/macros.h",
                                  NULL});
  for (const char *const *o = job->options; *o; o++)
    if (!preprocess_takes(*o)) args_add(&args, *o);
  if (beside) args_add(&args, beside);
  if (more) args_add(&args, more);
  args_add_all(&args, (const char *[]){"source.cu", "-o", "source.ii", NULL});
  bool ok = compiler_run(folder, &args, log);
  free(beside);
  return ok;
}
