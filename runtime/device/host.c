// host.c: identifies everything that determines libcusim's machine code: the C++ compiler, the
// host's processor (kernels are compiled for it), and the checks that are built in.
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

#include "device/device.h"

static bool find_program(const char *name, char *path, size_t size) {
  const char *dirs = getenv("PATH");
  if (strchr(name, '/')) return snprintf(path, size, "%s", name), !access(path, X_OK);
  while (dirs && *dirs) {
    int length = (int)strcspn(dirs, ":");
    snprintf(path, size, "%.*s/%s", length, dirs, name);
    if (!access(path, X_OK)) return true;
    dirs += length + (dirs[length] == ':');
  }
  if (size) *path = 0;
  return false;
}

// The command as the user wrote it ("ccache g++"), the same choice as libcusim's.
static bool find_command(char *command, size_t size, char *path, size_t path_size) {
  const char *const names[] = {getenv("NNGEN_CXX"), getenv("CXX"), "c++", "g++", "clang++"};
  for (int i = 0; i < COUNT(names); i++) {
    if (!names[i] || !*names[i]) continue;
    snprintf(command, size, "%s", names[i]);
    char word[512];
    snprintf(word, sizeof word, "%.*s", (int)strcspn(command, " "), command);
    if (find_program(word, path, path_size)) return true;
    if (i == 0) return false; // a compiler that the user named must not be replaced silently
  }
  return false;
}

bool host_compiler(char *path, size_t size) {
  char command[1024];
  if (size) *path = 0;
  return find_command(command, sizeof command, path, size);
}

void host_stamp(const char *path, char *text, size_t size) {
  struct stat info;
  *text = 0;
  if (stat(path, &info)) return;
  snprintf(text, size, "%lld.%lld.%09ld", (long long)info.st_size, (long long)info.st_mtim.tv_sec,
           info.st_mtim.tv_nsec);
}

static void hash_text(XXH3_state_t *state, const char *text) {
  XXH3_64bits_update(state, text ? text : "", text ? strlen(text) + 1 : 1);
}

// The first processor's name and instruction sets.
static void hash_processor(XXH3_state_t *state) {
  char line[8192];
  FILE *file = fopen("/proc/cpuinfo", "r");
  while (file && fgets(line, sizeof line, file) && *line != '\n')
    if (!strncmp(line, "model name", 10) || !strncmp(line, "flags", 5) ||
        !strncmp(line, "Features", 8))
      hash_text(state, line);
  if (file) fclose(file);
}

static void hash_compiler(XXH3_state_t *state) {
  char command[1024] = "", path[1024], stamp[64];
  find_command(command, sizeof command, path, sizeof path);
  hash_text(state, command);
  for (char *rest = command, *word; (word = strtok_r(rest, " ", &rest));) {
    if (!find_program(word, path, sizeof path)) continue; // an option
    host_stamp(path, stamp, sizeof stamp);
    hash_text(state, stamp);
  }
}

void host_identity(char *text, size_t size) {
  XXH3_state_t *state = XXH3_createState();
  *text = 0;
  if (!state) return;
  XXH3_64bits_reset(state);
  hash_compiler(state);
  hash_processor(state);
  hash_text(state, getenv("NNGEN_SIM_CHECK"));
  hash_text(state, getenv("NNGEN_SIM_COUNT"));
  hash_text(state, getenv("NNGEN_SIM_OPTIMIZE"));
  snprintf(text, size, "%016llx", (unsigned long long)XXH3_64bits_digest(state));
  XXH3_freeState(state);
}
