// precompiled.c: libcusim's own device headers, precompiled by GCC: reading them is a third of a
// small kernel's compilation. A file for each set of options is kept in the folder
// that NNGEN_SIM_PRECOMPILED names, written by the first program that needs it.
//
// The file's name is a hash of the headers and the options; GCC rejects files of another compiler.
// On any error, the program is compiled without.
#include "sim/base/base.h"

#include <string.h>
#include <unistd.h>

static void name_file(const Text *headers, const Args *options, char path[kPath]) {
  uint64_t state = hash_bytes(kHashStart, headers->data, headers->length);
  for (int i = 0; i < options->count; i++)
    state = hash_bytes(state, options->list[i], strlen(options->list[i]) + 1);
  state = hash_bytes(state, host_cpu(), strlen(host_cpu()));
  snprintf(path, kPath, "%s/%016llx.gch", sim_settings()->precompiled, (unsigned long long)state);
}

// Under a temporary name first: other processes may write the same file.
static bool make_file(const char *folder, const char *name, const Args *options, const char *path) {
  char part[kPath + kFolder];
  Text said = {0}, log = {0};
  Args args = *options;
  snprintf(part, sizeof part, "%s.%s", path, strrchr(folder, '/') + 1);
  args_add_all(&args, (const char *[]){"-x", "c++-header", name, "-o", part, NULL});
  bool ok = host_run(folder, &args, &said, &log) == 0 && rename(part, path) == 0;
  if (!ok) unlink(part);
  text_free(&said);
  text_free(&log);
  return ok;
}

bool precompiled_find(const char *folder, const char *name, const Text *headers,
                      const Args *options, char path[kPath]) {
  if (!sim_settings()->precompiled || headers->failed || !headers->length) return false;
  name_file(headers, options, path);
  return access(path, R_OK) == 0 || make_file(folder, name, options, path);
}

bool precompiled_run(const char *folder, Args *args, const char *path) {
  Text said = {0}, log = {0};
  char name[kPath]; // the compiler's messages leave out the ending of a file that is included
  snprintf(name, sizeof name, "%.*s", (int)(strlen(path) - strlen(".gch")), path);
  bool ok = host_run(folder, args, &said, &log) == 0;
  if (!ok && said.data && strstr(said.data, name)) unlink(path);
  text_free(&said);
  text_free(&log);
  return ok;
}
