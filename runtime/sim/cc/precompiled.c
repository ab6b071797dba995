// precompiled.c: libcusim's own device headers, precompiled by GCC: a program of a few kernels spends
// a third of its compilation on reading them. A file for each set of options is kept in the folder
// that NNGEN_SIM_PRECOMPILED names, made by the first program that needs it.
//
// The file's name is a hash of the headers and of the options; GCC refuses what another compiler
// made. Whatever goes wrong, the program is compiled without.
#include "sim/cc/cc.h"

#include <string.h>
#include <unistd.h>

static uint64_t hash(uint64_t state, const char *bytes, size_t length) { // FNV-1a
  for (size_t i = 0; i < length; i++) state = (state ^ (unsigned char)bytes[i]) * 1099511628211u;
  return state;
}

static void name_file(const char *kept, const Text *kernels, size_t headers, const Args *options,
                      char *path, size_t size) {
  uint64_t state = hash(14695981039346656037u, kernels->data, headers);
  for (int i = 0; i < options->count; i++)
    state = hash(state, options->list[i], strlen(options->list[i]) + 1);
  state = hash(state, host_cpu(), strlen(host_cpu()));
  snprintf(path, size, "%s/%016llx.gch", kept, (unsigned long long)state);
}

// Under a name of its own first: other processes may make the same file.
static bool make_file(const char *folder, const Text *kernels, size_t headers, const Args *options,
                      const char *path) {
  char part[1100];
  Text said = {0}, log = {0};
  Args args = *options;
  snprintf(part, sizeof part, "%s.%s", path, strrchr(folder, '/') + 1);
  args_add_all(&args, (const char *[]){"-fpreprocessed", "-x", "c++-header", "headers.ii", "-o",
                                       part, NULL});
  bool ok = folder_write(folder, "headers.ii", kernels->data, headers, &log) &&
            host_run(folder, &args, &said, &log) == 0 && rename(part, path) == 0;
  if (!ok) unlink(part);
  text_free(&said);
  text_free(&log);
  return ok;
}

// The headers end where the preprocessor comes back to the program's source.
static size_t headers_end(const Text *kernels) {
  const char *source = kernels->data ? strstr(kernels->data, "\n# 1 \"source.cu\"\n") : NULL;
  return source ? (size_t)(source + 1 - kernels->data) : 0;
}

// kernels.ii, without its headers, behind the file at path.
static bool write_rest(const char *folder, const Text *kernels, size_t headers, const char *path,
                       Text *log) {
  Text rest = {0};
  text_print(&rest, "#pragma GCC pch_preprocess \"%s\"\n", path);
  text_append(&rest, kernels->data + headers, kernels->length - headers);
  bool ok = !rest.failed && folder_write(folder, "kernels.ii", rest.data, rest.length, log);
  text_free(&rest);
  return ok;
}

// A file that the compiler refuses is made anew by the next program.
static bool compile_rest(const char *folder, const Args *options, const char *const *last,
                         const char *path, Text *log) {
  Text said = {0};
  Args args = *options;
  args_add(&args, "-fpreprocessed");
  args_add_all(&args, last);
  bool ok = host_run(folder, &args, &said, log) == 0;
  if (!ok && said.data && strstr(said.data, path)) unlink(path);
  text_free(&said);
  return ok;
}

bool precompiled_compile(const char *folder, const Args *options, const char *const *last) {
  char path[1024];
  const char *kept = sim_settings()->precompiled;
  Text kernels = {0}, log = {0};
  size_t headers = kept && folder_read(folder, "kernels.ii", &kernels) ? headers_end(&kernels) : 0;
  bool ok = headers != 0;
  if (ok) {
    name_file(kept, &kernels, headers, options, path, sizeof path);
    ok = access(path, R_OK) == 0 || make_file(folder, &kernels, headers, options, path);
  }
  if (ok && !(write_rest(folder, &kernels, headers, path, &log) &&
              compile_rest(folder, options, last, path, &log))) {
    folder_write(folder, "kernels.ii", kernels.data, kernels.length, &log);
    ok = false;
  }
  text_free(&kernels);
  text_free(&log);
  return ok;
}
