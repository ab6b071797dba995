// host_compiler.c: CUDA C++ source -> kernel image, by the host's C++ compiler.
//
// In a private temporary folder: the source and its in-memory headers are written out, the compiler
// preprocesses them behind cusim.h, rewrite.c turns the result into C++, and the compiler makes a
// shared object of it. Programs are compiled side by side; nothing here is shared between them.
#include "sim/compile.h"
#include "sim/sim.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

typedef struct Asset {
  const char *name, *begin, *end;
} Asset;
extern const Asset sim_assets[]; // runtime/sim/device/*

enum { kMaxArgs = 256 };

typedef struct Args {
  const char *list[kMaxArgs + 1];
  int count;
} Args;

static void add(Args *args, const char *arg) {
  if (args->count < kMaxArgs) args->list[args->count++] = arg;
}

static void add_all(Args *args, const char *const *list) {
  for (; *list; list++) add(args, *list);
}

// ---- the compiler -------------------------------------------------------------------------------

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

// The compiler's words ("ccache g++" is two) into args; words must outlive them. False: none found.
static bool find_compiler(Args *args, char words[1024]) {
  const char *candidates[] = {getenv("NNGEN_CXX"), getenv("CXX"), "c++", "g++", "clang++"};
  for (size_t i = 0; i < sizeof candidates / sizeof *candidates; i++) {
    if (!candidates[i] || !*candidates[i]) continue;
    snprintf(words, 1024, "%s", candidates[i]);
    char *rest = words, *word = strtok_r(words, " ", &rest);
    if (!word || !on_path(word)) {
      if (i == 0) return false; // the user's own choice is not passed over in silence
      continue;
    }
    for (; word; word = strtok_r(NULL, " ", &rest)) add(args, word);
    return true;
  }
  return false;
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

// ---- files --------------------------------------------------------------------------------------

static int remove_entry(const char *path, const struct stat *st, int flag, struct FTW *ftw) {
  (void)st, (void)flag, (void)ftw;
  return remove(path);
}

static void remove_folder(const char *folder) {
  if (!getenv("NNGEN_SIM_KEEP")) nftw(folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

static bool make_folder(char folder[512], Text *log) {
  const char *bases[] = {getenv("TMPDIR"), "/tmp", "/var/tmp", "/dev/shm"};
  for (size_t i = 0; i < sizeof bases / sizeof *bases; i++) {
    if (!bases[i] || !*bases[i]) continue;
    snprintf(folder, 512, "%.480s/cusim-XXXXXX", bases[i]);
    if (mkdtemp(folder)) return true;
  }
  text_print(log,
             "libcusim: no temporary folder can be made in TMPDIR, /tmp, /var/tmp, /dev/shm: %s\n",
             strerror(errno));
  return false;
}

static bool make_parents(char *path, size_t base) {
  for (char *p = path + base + 1; (p = strchr(p, '/')); p++) {
    *p = 0;
    int r = mkdir(path, 0700);
    *p = '/';
    if (r != 0 && errno != EEXIST) return false;
  }
  return true;
}

static bool write_file(const char *folder, const char *name, const char *begin, size_t length,
                       Text *log) {
  char path[1024];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *f = make_parents(path, strlen(folder)) ? fopen(path, "wb") : NULL;
  bool ok = f && fwrite(begin, 1, length, f) == length;
  if (f && fclose(f) != 0) ok = false;
  if (!ok) text_print(log, "libcusim: %s cannot be written: %s\n", path, strerror(errno));
  return ok;
}

static bool read_file(const char *folder, const char *name, Text *out) {
  char path[1024], part[65536];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *f = fopen(path, "rb");
  if (!f) return false;
  for (size_t n; (n = fread(part, 1, sizeof part, f)) > 0;) text_append(out, part, n);
  fclose(f);
  return !out->failed;
}

// What the compiler should have made.
static bool read_output(const char *folder, const char *name, Text *out, Text *log) {
  if (read_file(folder, name, out)) return true;
  text_print(log, "libcusim: the host compiler made no file %s: %s\n", name,
             out->failed ? "out of memory" : strerror(errno));
  return false;
}

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

static bool is_for_source(const char *option) {
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
            write_file(folder, "device/macros.h", text.data ? text.data : "", text.length, log);
  text_free(&text);
  return ok;
}

static bool write_inputs(const CompileJob *job, const char *folder, Text *log) {
  for (const Asset *a = sim_assets; a->name; a++) {
    char name[256];
    snprintf(name, sizeof name, "device/%s", strrchr(a->name, '/') + 1);
    if (!write_file(folder, name, a->begin, (size_t)(a->end - a->begin), log)) return false;
  }
  for (int i = 0; i < job->header_count; i++)
    if (is_safe(job->header_names[i]) &&
        !write_file(folder, job->header_names[i], job->headers[i], strlen(job->headers[i]), log))
      return false;
  Text source = {0};
  text_print(&source, "#line 1 \"%s\"\n%s\n",
             job->name && *job->name ? job->name : "default_program", job->source);
  bool ok = !source.failed && write_macros(job, folder, log) &&
            write_file(folder, "source.cu", source.data, source.length, log);
  text_free(&source);
  return ok;
}

// ---- running the compiler -----------------------------------------------------------------------

// The environment, but for TMPDIR: that is the folder. To be freed with its first entry; or null.
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

// Runs args inside the folder; its messages go to "messages" there. The exit code, or -1.
static int run_in(const char *folder, Args *args, Text *log) {
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
  Text said = {0};
  if (read_file(folder, "messages", &said) && said.data && said.length)
    messages_log(said.data, log);
  else if (WIFEXITED(status) && WEXITSTATUS(status))
    text_print(log, "libcusim: %s: ended with exit code %d and said nothing\n", args->list[0],
               WEXITSTATUS(status));
  text_free(&said);
  if (WIFEXITED(status)) return WEXITSTATUS(status);
  text_print(log, "libcusim: %s: ended by signal %d\n", args->list[0], WTERMSIG(status));
  return -1;
}

static bool preprocess(const CompileJob *job, const Args *compiler, const char *folder, Text *log) {
  char arch[64], list[64];
  snprintf(arch, sizeof arch, "-D__CUDA_ARCH__=%d", job->arch * 10);
  snprintf(list, sizeof list, "-D__CUDA_ARCH_LIST__=%d", job->arch * 10);
  Args args = *compiler;
  add_all(&args, (const char *[]){"-E",
                                  "-x",
                                  "c++",
                                  "-std=c++17",
                                  "-w",
                                  "-D__CUSIM__=1",
                                  "-D__CUDACC__=1",
                                  "-D__CUDACC_RTC__=1",
                                  "-D__NVCC__=1",
                                  "-D__CUDACC_VER_MAJOR__=13", // as nvrtcVersion
                                  "-D__CUDACC_VER_MINOR__=0",
                                  arch,
                                  list,
                                  job->checks & CusimTrace ? "-DCUSIM_TRACE=1" : "-DCUSIM_TRACE=0",
                                  job->checks & CusimCount ? "-DCUSIM_COUNT=1" : "-DCUSIM_COUNT=0",
                                  "-march=native",
                                  "-I.",
                                  "-Idevice",
                                  "-include",
                                  "device/cusim.h",
                                  "-include",
                                  "device/macros.h",
                                  NULL});
  for (const char *const *o = job->options; *o; o++)
    if (!is_for_source(*o)) add(&args, *o);
  add_all(&args, (const char *[]){"source.cu", "-o", "source.ii", NULL});
  return run_in(folder, &args, log) == 0;
}

static bool rewrite(const CompileJob *job, const char *folder, Text *log) {
  Text before = {0}, after = {0};
  bool ok = read_output(folder, "source.ii", &before, log);
  if (ok) rewrite_source(job, before.data, &after);
  ok = ok && !after.failed && write_file(folder, "kernels.ii", after.data, after.length, log);
  text_free(&before);
  text_free(&after);
  return ok;
}

// What cusim.h's marks in the preprocessed text tell of the compiler, whatever its name.
typedef struct Marks {
  bool clang, fills_registers;
} Marks;

static Marks read_marks(const char *folder, Text *log) {
  Text text = {0};
  Marks marks = {0};
  if (read_output(folder, "source.ii", &text, log)) {
    marks.clang = strstr(text.data, "cusim_is_clang");
    marks.fills_registers = strstr(text.data, "cusim_fills_registers");
  }
  text_free(&text);
  return marks;
}

// For a counted kernel: the assembly with a call per basic block, and its table (assembly.c).
// NOTE: without sibling calls each announcement returns to the block it announces.
static bool make_assembly(const Args *common, bool clang, const char *folder, Text *log) {
  Args args = *common;
  add_all(&args, (const char *[]){clang ? "-fsanitize-coverage=bb,no-prune,trace-pc"
                                        : "-fsanitize-coverage=trace-pc",
                                  "-fno-tree-vectorize", "-fno-tree-slp-vectorize",
                                  "-fno-unroll-loops", "-fno-optimize-sibling-calls", "-S",
                                  "kernels.ii", "-o", "kernels.s", NULL});
  if (!clang) add(&args, "-fno-thread-jumps"); // what a warp accesses at once stays at one place
  Text before = {0}, after = {0};
  bool ok = run_in(folder, &args, log) == 0 && read_output(folder, "kernels.s", &before, log);
  if (ok) assembly_count(before.data, &after);
  ok = ok && !after.failed && write_file(folder, "counted.s", after.data, after.length, log);
  text_free(&before);
  text_free(&after);
  return ok;
}

// NOTE: Clang (up to 14) announces no bytes that it moves by memcpy and its like, but calls these:
// tsan_abi.c has them.
static const char moved_bytes[] = "-Wl,--wrap=memcpy,--wrap=memmove,--wrap=memset";

static bool link_image(const Args *compiler, bool clang, const char *folder, Text *log) {
  Args args = *compiler;
  if (clang) add(&args, moved_bytes);
  add_all(&args, (const char *[]){"-shared", "-fPIC", "-Wl,-Bsymbolic", "-Wl,--emit-relocs",
                                  "counted.s", "device/cusim_guard.s", "-o", "image.so",
                                  "-nostdlib", "-lm", "-lc", NULL});
  return run_in(folder, &args, log) == 0;
}

// NOTE: without -fno-strict-aliasing GCC breaks kernels that reinterpret memory, as CUDA allows. A
// module's variables are its own: without -Bsymbolic the process's of the same name would be taken,
// without -fno-gnu-unique those of the first module that instantiated the same template.
static bool make_image(const CompileJob *job, const Args *compiler, const char *folder, Text *log) {
  Args args = *compiler;
  Marks marks = read_marks(folder, log);
  add_all(&args, (const char *[]){"-x",
                                  "c++-cpp-output",
                                  "-std=c++17",
                                  "-O2",
                                  "-g1",
                                  "-gdwarf-4",
                                  "-march=native",
                                  "-fPIC",
                                  "-shared",
                                  "-Wl,-Bsymbolic",
                                  "-ffunction-sections", // for shared.c, as the next
                                  "-Wl,--emit-relocs",
                                  "-fstack-clash-protection",
                                  "-w",
                                  "-fno-exceptions",
                                  "-fno-rtti",
                                  "-fno-math-errno",
                                  "-fno-trapping-math",
                                  "-ffp-contract=fast",
                                  "-fno-strict-aliasing",
                                  "-fno-delete-null-pointer-checks",
                                  "-fvisibility=hidden",
                                  "-fno-stack-protector",
                                  "-fno-semantic-interposition",
                                  "-fmax-errors=20",
                                  NULL});
  if (!marks.clang) add(&args, "-fno-gnu-unique"); // Clang has no such variables
  if (marks.fills_registers)                       // with what is NaN, or huge
    add(&args, "-ftrivial-auto-var-init=pattern");
#if defined(__x86_64__)
  add(&args, "-mprefer-vector-width=512"); // where the host has it; else it changes nothing
#endif
#if defined(__aarch64__)
  add(&args, "-mno-outline-atomics"); // whose functions are in a library that is not linked
#endif
  if (job->checks & CusimTrace) add(&args, "-fsanitize=thread");
  if (job->checks & CusimTrace && marks.clang)
    add_all(&args, (const char *[]){moved_bytes, "-mllvm", "-tsan-distinguish-volatile=1", NULL});
  else if (job->checks & CusimTrace && marks.fills_registers) // GCC 11 and newer know it
    add(&args, "--param=tsan-distinguish-volatile=1");
  if (job->checks == CusimTrace) add(&args, "-fsanitize=alignment"); // branches, not to be counted
  for (const char *const *o = job->options; *o; o++)
    if (!is_for_source(*o)) add(&args, *o);
  if (job->checks & CusimCount)
    return make_assembly(&args, marks.clang, folder, log) &&
           link_image(compiler, marks.clang && job->checks & CusimTrace, folder, log);
  add_all(&args, (const char *[]){"kernels.ii", "-x", "assembler", "device/cusim_guard.s", "-x",
                                  "none", "-o", "image.so", "-nostdlib", "-lm", "-lc", NULL});
  return run_in(folder, &args, log) == 0;
}

static nvrtcResult compile_in(const CompileJob *job, const char *folder, Text *image, Text *log) {
  Args compiler = {.count = 0};
  char words[1024];
  if (!find_compiler(&compiler, words)) {
    text_print(log, "libcusim: no host C++ compiler: looked for %s\n",
               getenv("NNGEN_CXX") ? getenv("NNGEN_CXX") : "NNGEN_CXX, CXX, c++, g++, clang++");
    return NVRTC_ERROR_INTERNAL_ERROR;
  }
  if (!write_inputs(job, folder, log)) return NVRTC_ERROR_INTERNAL_ERROR;
  if (!preprocess(job, &compiler, folder, log)) return NVRTC_ERROR_COMPILATION;
  if (!rewrite(job, folder, log)) return NVRTC_ERROR_INTERNAL_ERROR;
  if (!make_image(job, &compiler, folder, log)) return NVRTC_ERROR_COMPILATION;
  if (!read_output(folder, "image.so", image, log)) return NVRTC_ERROR_INTERNAL_ERROR;
  if (image->length < sizeof(Elf64_Ehdr) || memcmp(image->data, ELFMAG, SELFMAG)) {
    text_print(log, "libcusim: what %s made is no shared object\n", compiler.list[0]);
    return NVRTC_ERROR_INTERNAL_ERROR;
  }
  ((Elf64_Ehdr *)image->data)->e_flags = module_checksum(image->data, image->length);
  return NVRTC_SUCCESS;
}

nvrtcResult host_compile(const CompileJob *job, Text *image, Text *log) {
  char folder[512];
  if (!make_folder(folder, log)) return NVRTC_ERROR_INTERNAL_ERROR;
  nvrtcResult r = compile_in(job, folder, image, log);
  remove_folder(folder);
  return r;
}
