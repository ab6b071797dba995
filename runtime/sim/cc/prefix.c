// prefix.c: caches the common includes at the beginning of programs, as of nngen's kernels:
// preprocessed and rewritten, they are kept in the folder NNGEN_SIM_PRECOMPILED, with the macros
// that they define. The program's own text then mostly needs no preprocessor (macros.c), which
// takes a quarter of a small kernel's compilation.
//
// A cached file's name is a hash of all that the includes can depend on: libcusim's headers, the
// program's, its macros, options, and the compiler's file. The preprocessor is used
// if an include could mean a header on disk, or if the program's text is not plain.
// A program that fails to compile is compiled again as a whole, for correct messages.
#include "sim/cc/cc.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct Asset {
  const char *name, *begin, *end;
} Asset;
extern const Asset sim_assets[]; // runtime/sim/device/*

typedef struct Prefix {
  Text text, macros;
  int barriers; // in the text
} Prefix;

// ---- the beginning of a program -----------------------------------------------------------------

// The leading #include lines of a source, without the blank lines, comments and #line between them.
// Returns the beginning of the program's own text.
static const char *find_includes(const char *source, Text *includes) {
  const char *own = source;
  for (const char *line = source, *next; *line; line = next) {
    size_t n = strcspn(line, "\n");
    next = line + n + (line[n] == '\n');
    if (!strncmp(line, "#include ", 9)) {
      text_append(includes, line, n);
      text_append(includes, "\n", 1);
      own = next;
    } else if (n && strncmp(line, "//", 2) != 0 && strncmp(line, "#line ", 6) != 0) {
      break;
    }
  }
  text_append(includes, "", 0);
  return own;
}

// True if a file of that name is where an include in quotes looks first.
static bool is_shadowed(const CompileJob *job) {
  for (int i = 0; i < job->header_count; i++)
    if (access(job->header_names[i], F_OK) == 0) return true;
  for (const Asset *a = sim_assets; a->name; a++)
    if (access(strstr(a->name, "device/") + strlen("device/"), F_OK) == 0) return true;
  return false;
}

// True if the key covers everything that the includes depend on.
static bool is_plain(const CompileJob *job) {
  for (const char *const *o = job->options; *o; o++)
    if (!strncmp(*o, "-I", 2) || !strncmp(*o, "-include", 8)) return false;
  return !(job->name && strchr(job->name, '/')) && !is_shadowed(job);
}

// ---- the key ------------------------------------------------------------------------------------

static uint64_t hash_word(uint64_t state, const char *word) {
  return hash_bytes(state, word, strlen(word) + 1);
}

static uint64_t hash_assets(void) {
  static uint64_t known; // the same value from every thread
  uint64_t state = __atomic_load_n(&known, __ATOMIC_RELAXED);
  if (state) return state;
  state = kHashStart;
  for (const Asset *a = sim_assets; a->name; a++)
    state = hash_bytes(hash_word(state, a->name), a->begin, (size_t)(a->end - a->begin));
  __atomic_store_n(&known, state, __ATOMIC_RELAXED);
  return state;
}

// Hashes path, size and age of the compiler.
static uint64_t hash_program(uint64_t state, const char *name) {
  const char *path = strchr(name, '/') ? "" : getenv("PATH");
  while (path) {
    char file[4096];
    struct stat info;
    size_t n = strcspn(path, ":");
    snprintf(file, sizeof file, "%.*s%s%s", (int)n, path, n ? "/" : "", name);
    if (access(file, X_OK) == 0 && stat(file, &info) == 0) {
      long long facts[] = {info.st_size, info.st_mtim.tv_sec, info.st_mtim.tv_nsec};
      return hash_bytes(hash_word(state, file), facts, sizeof facts);
    }
    path = path[n] ? path + n + 1 : NULL;
  }
  return state;
}

static uint64_t hash_job(const CompileJob *job, const Args *compiler, const Text *includes) {
  uint64_t state = hash_word(hash_assets(), includes->data);
  int numbers[] = {job->arch, job->checks};
  for (int i = 0; i < job->header_count; i++)
    state = hash_word(hash_word(state, job->header_names[i]), job->headers[i]);
  for (const char *const *o = job->options; *o; o++) state = hash_word(state, *o);
  for (int i = 0; i < compiler->count; i++)
    state = hash_program(hash_word(state, compiler->list[i]), compiler->list[i]);
  state = hash_bytes(state, numbers, sizeof numbers);
  return hash_word(state, host_cpu());
}

// ---- the file -----------------------------------------------------------------------------------

// A line of numbers: barriers, the lengths of the text and of the macros, a hash of both.
static const char kForm[] = "libcusim prefix 1: %d %zu %zu %llx\n";

static bool read_file(const char *path, Prefix *prefix) {
  Text file = {0};
  size_t length, rest;
  unsigned long long sum;
  bool ok = folder_read("/", path, &file) && file.length &&
            sscanf(file.data, kForm, &prefix->barriers, &length, &rest, &sum) == 4;
  const char *body = ok ? memchr(file.data, '\n', file.length) : NULL;
  ok = body && file.length - (size_t)(body + 1 - file.data) == length + rest &&
       hash_bytes(kHashStart, body + 1, length + rest) == sum;
  if (ok) text_append(&prefix->text, body + 1, length);
  if (ok) text_append(&prefix->macros, body + 1 + length, rest);
  text_free(&file);
  return ok && !prefix->text.failed && !prefix->macros.failed;
}

// Under a temporary name first: other processes may write the same file.
static void write_file(const char *path, const char *folder, const Prefix *prefix) {
  Text body = {0}, file = {0}, log = {0};
  char part[kPath + kFolder];
  snprintf(part, sizeof part, "%s.%s", path, strrchr(folder, '/') + 1);
  text_append(&body, prefix->text.data, prefix->text.length);
  text_append(&body, prefix->macros.data, prefix->macros.length);
  text_print(&file, kForm, prefix->barriers, prefix->text.length, prefix->macros.length,
             (unsigned long long)hash_bytes(kHashStart, body.data, body.length));
  text_append(&file, body.data, body.length);
  bool ok = !body.failed && !file.failed && folder_write("/", part, file.data, file.length, &log);
  if (!ok || rename(part, path) != 0) unlink(part);
  text_free(&body);
  text_free(&file);
  text_free(&log);
}

// ---- making it ----------------------------------------------------------------------------------

// True if every file that was read is in the folder, by its line markers.
static bool is_of_folder(const char *text) {
  return !strstr(text, "\n# 1 \"/") && !strstr(text, "\n# 1 \"..");
}

static bool make(const CompileJob *job, const Args *compiler, const char *folder,
                 const Text *includes, Prefix *prefix) {
  CompileJob first = *job;
  Text before = {0}, log = {0};
  Kernels *kernels = kernels_make();
  first.source = includes->data;
  first.name = "source.cu";
  bool ok = kernels && preprocess_inputs(&first, folder, &log) &&
            preprocess(&first, compiler, folder, NULL, &log) &&
            folder_read(folder, "source.ii", &before) && is_of_folder(before.data) &&
            preprocess(&first, compiler, folder, "-dM", &log) &&
            folder_read(folder, "source.ii", &prefix->macros) &&
            rewrite_part(kernels, before.data, &prefix->barriers, &prefix->text) &&
            !kernels_any(kernels) && !prefix->text.failed;
  if (kernels) kernels_free(kernels);
  text_free(&before);
  text_free(&log);
  return ok;
}

// NOTE: the first program leaves an empty file, and only the second fills it: headers that are used
// once, for example with a planted fault, are not cached.
static bool find(const CompileJob *job, const Args *compiler, const char *folder,
                 const Text *includes, const char *path, Prefix *prefix) {
  if (read_file(path, prefix)) return true;
  int fresh = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fresh >= 0) return close(fresh), false;
  *prefix = (Prefix){.barriers = 0};
  if (!make(job, compiler, folder, includes, prefix)) return false;
  write_file(path, folder, prefix);
  return true;
}

// ---- the program --------------------------------------------------------------------------------

// Appends the rewritten text after the includes, then the list of kernels.
static bool add_own(const CompileJob *job, Prefix *prefix, const char *own, Text *out) {
  Text plain = {0};
  Macros *macros = macros_read(prefix->macros.data);
  Kernels *kernels = kernels_make();
  text_print(&plain, "\n# 1 \"%s\"\n", job->name && *job->name ? job->name : "default_program");
  bool ok = macros && kernels && macros_expand(macros, job->source, own, &plain);
  if (ok) {
    text_append(out, prefix->text.data, prefix->text.length);
    rewrite_part(kernels, plain.data, &prefix->barriers, out);
    text_append(out, "\n", 1);
    kernels_table(kernels, job, out);
  }
  if (kernels) kernels_free(kernels);
  macros_free(macros);
  text_free(&plain);
  return ok && !out->failed;
}

bool prefix_find(const CompileJob *job, const Args *compiler, const char *folder, char path[kPath],
                 Text *out) {
  Text includes = {0};
  Prefix prefix = {.barriers = 0};
  const char *kept = sim_settings()->precompiled;
  if (!kept || getenv("NNGEN_SIM_KEEP") || !is_plain(job)) return false;
  const char *own = find_includes(job->source, &includes);
  snprintf(path, kPath, "%s/%016llx.prefix", kept,
           (unsigned long long)hash_job(job, compiler, &includes));
  bool ok = !includes.failed && find(job, compiler, folder, &includes, path, &prefix) &&
            add_own(job, &prefix, own, out);
  text_free(&includes);
  text_free(&prefix.text);
  text_free(&prefix.macros);
  return ok;
}
