// host.c: the host's C++ compiler as a program: finding it, running it, its output.
#include "sim/base/base.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

void args_add(Args *args, const char *arg) {
  if (args->count < kMaxArgs) args->list[args->count++] = arg;
}

void args_add_all(Args *args, const char *const *list) {
  for (; *list; list++) args_add(args, *list);
}

// ---- finding it -------------------------------------------------------------------------------

static bool on_path(const char *program) {
  if (strchr(program, '/')) return access(program, X_OK) == 0;
  const char *path = getenv("PATH");
  while (path && *path) {
    char file[4096];
    size_t n = strcspn(path, ":");
    snprintf(file, sizeof file, "%.*s/%s", (int)n, path, program);
    if (access(file, X_OK) == 0) return true;
    path += n + (path[n] == ':');
  }
  return false;
}

bool host_find_compiler(Args *args, char words[1024], Text *log) {
  const char *candidates[] = {getenv("NNGEN_CXX"), getenv("CXX"), "c++", "g++", "clang++"};
  for (size_t i = 0; i < sizeof candidates / sizeof *candidates; i++) {
    if (!candidates[i] || !*candidates[i]) continue;
    snprintf(words, 1024, "%s", candidates[i]);
    char *rest = words, *word = strtok_r(words, " ", &rest);
    if (!word || !on_path(word)) {
      if (i == 0) break; // a compiler that the user named must not be replaced silently
      continue;
    }
    for (; word; word = strtok_r(NULL, " ", &rest)) args_add(args, word);
    return true;
  }
  text_print(log, "libcusim: no host C++ compiler: looked for %s\n",
             getenv("NNGEN_CXX") ? getenv("NNGEN_CXX") : "NNGEN_CXX, CXX, c++, g++, clang++");
  return false;
}

// NOTE: GCC 12 misaligns arrays of leaf functions in the red zone if they are filled with a pattern
// by wide vectors: 6 of 100 such functions crashed at an aligned store.
void host_add_frames(Args *args) {
  (void)args;
#if defined(__x86_64__)
  args_add(args, "-mno-red-zone");
#endif
}

// Queries the compiler's macros, once per compiler name.
HostKind host_kind(const Args *compiler) {
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  static char asked[1024];
  static HostKind kind;
  char command[1024] = "";
  for (int i = 0; i < compiler->count; i++) {
    size_t n = strlen(command);
    snprintf(command + n, sizeof command - n, "%s ", compiler->list[i]);
  }
  pthread_mutex_lock(&lock);
  if (strcmp(asked, command) != 0) {
    char folder[kFolder];
    Text said = {0}, log = {0};
    Args args = *compiler;
    args_add_all(&args, (const char *[]){"-dM", "-E", "-x", "c++", "/dev/null", NULL});
    kind = HostGcc;
    if (folder_make(folder, &log)) {
      host_run(folder, &args, &said, &log);
      const char *version = said.data ? strstr(said.data, "#define __GNUC__ ") : NULL;
      if (version && atoi(version + strlen("#define __GNUC__ ")) >= 12) kind = HostGcc12;
      if (said.data && strstr(said.data, "__clang__")) kind = HostClang;
      folder_remove(folder);
    }
    snprintf(asked, sizeof asked, "%s", command);
    text_free(&said);
    text_free(&log);
  }
  pthread_mutex_unlock(&lock);
  return kind;
}

static char cpu[128];

static void name_cpu(void) {
#if defined(__x86_64__)
  __builtin_cpu_init();
  snprintf(cpu, sizeof cpu, "x86-64%s%s%s%s%s%s", __builtin_cpu_supports("avx") ? " avx" : "",
           __builtin_cpu_supports("avx2") ? " avx2" : "",
           __builtin_cpu_supports("fma") ? " fma" : "",
           __builtin_cpu_supports("avx512f") ? " avx512f" : "",
           __builtin_cpu_supports("avx512vl") ? " avx512vl" : "",
           __builtin_cpu_supports("avx512vnni") ? " avx512vnni" : "");
#else
  snprintf(cpu, sizeof cpu, "host");
#endif
}

const char *host_cpu(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, name_cpu);
  return cpu;
}

// ---- running it -----------------------------------------------------------------------

// The environment with TMPDIR set to the folder. To be freed with its first entry; or NULL.
static char **environment(const char *folder) {
  int n = 0, kept = 1;
  while (environ[n]) n++;
  char **list = malloc(((size_t)n + 2) * sizeof *list);
  if (!list || asprintf(&list[0], "TMPDIR=%s", folder) < 0) return free(list), NULL;
  for (int i = 0; i < n; i++)
    if (strncmp(environ[i], "TMPDIR=", 7) != 0) list[kept++] = environ[i];
  list[kept] = NULL;
  return list;
}

// Its messages go to the file "messages" there first.
int host_run(const char *folder, Args *args, Text *said, Text *log) {
  char messages[600];
  snprintf(messages, sizeof messages, "%s/messages", folder);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, messages, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  posix_spawn_file_actions_addchdir_np(&actions, folder);
  args->list[args->count] = NULL;
  pid_t pid;
  int status = -1, r = ENOMEM;
  char **variables = environment(folder);
  if (variables) {
    r = posix_spawnp(&pid, args->list[0], &actions, NULL, (char *const *)args->list, variables);
    free(variables[0]);
  }
  free(variables);
  posix_spawn_file_actions_destroy(&actions);
  if (r != 0) {
    text_print(log, "libcusim: %s cannot be started: %s\n", args->list[0], strerror(r));
    return -1;
  }
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  bool spoke = folder_read(folder, "messages", said) && said->data && said->length;
  if (!spoke && WIFEXITED(status) && WEXITSTATUS(status))
    text_print(log, "libcusim: %s: ended with exit code %d and said nothing\n", args->list[0],
               WEXITSTATUS(status));
  if (WIFEXITED(status)) return WEXITSTATUS(status);
  text_print(log, "libcusim: %s: ended by signal %d\n", args->list[0], WTERMSIG(status));
  return -1;
}

// ---- its output ---------------------------------------------------------------------------------

// A checksum of the image, kept in e_flags (unused on x86-64): a flipped bit is detected.
uint32_t host_checksum(const void *image, size_t length) {
  uint32_t hash = 2166136261u;
  const unsigned char *bytes = image;
  size_t flags = offsetof(Elf64_Ehdr, e_flags);
  for (size_t i = 0; i < length; i++) hash = (hash ^ (i - flags < 4 ? 0 : bytes[i])) * 16777619u;
  return hash;
}

bool host_seal_image(Text *image) {
  if (image->length < sizeof(Elf64_Ehdr) || memcmp(image->data, ELFMAG, SELFMAG)) return false;
  ((Elf64_Ehdr *)image->data)->e_flags = host_checksum(image->data, image->length);
  return true;
}
