// emit_files.c: the files of `nngen emit`. All are written as NAME.part and renamed when the last
// one is complete: after a failure the folder is as it was. Files that nngen emit did not write are
// never overwritten.
#include "cli.h"
#include "nngen_image.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// In the first bytes of every emitted file; in a header, after a table of all entries.
static const char kMark[] = "nngen emit";

static bool is_ours(const char *path) {
  char begin[64 << 10];
  FILE *file = fopen(path, "rb");
  if (!file) return true; // no such file
  size_t n = fread(begin, 1, sizeof begin, file);
  fclose(file);
  return !n || memmem(begin, n, kMark, strlen(kMark));
}

// DIR/NAMEsuffix, or DIR/suffix if that is a complete name.
static void file_path(const Emission *e, const char *suffix, char *path, size_t size) {
  bool whole = isalpha((unsigned char)suffix[0]);
  snprintf(path, size, "%s/%s%s", e->dir, whole ? "" : e->name, suffix);
}

static void part_path(const Emission *e, const char *suffix, char *path, size_t size) {
  file_path(e, suffix, path, size - sizeof ".part");
  strcat(path, ".part");
}

static int write_bytes(const Emission *e, const char *suffix, const void *bytes, size_t size,
                       Error *err) {
  char path[4096];
  part_path(e, suffix, path, sizeof path);
  FILE *file = fopen(path, "wb");
  if (!file) return err_set(err, ExitBadInput, "%s: %s", path, strerror(errno));
  bool failed = fwrite(bytes, 1, size, file) != size;
  failed = fclose(file) || failed;
  return failed ? err_set(err, ExitBadInput, "%s: %s", path, strerror(errno)) : ExitOk;
}

static char *read_all(const char *path, size_t *size) {
  FILE *file = fopen(path, "rb");
  struct stat info;
  char *bytes = NULL;
  if (file && !fstat(fileno(file), &info)) {
    bytes = base_alloc((size_t)info.st_size + 1, 1);
    *size = fread(bytes, 1, (size_t)info.st_size, file);
  }
  if (file) fclose(file);
  return bytes;
}

static int write_text(const Emission *e, const char *suffix, const char *text, Error *err) {
  return write_bytes(e, suffix, text, strlen(text), err);
}

enum {
  kHost = 1,
  kKernels = 2,
  kInFile = 4,
  kInCode = 8,
  kStored = 16,
  kCpp = 32,
  kAlone = 64 // when a file is written
};

static const struct {
  const char *suffix, *template; // template: or NULL; for README.md see template_of
  int when;
} files[] = {{".h", "net.h", kHost},
             {".c", "net.c", kHost},
             {".hpp", "net.hpp", kCpp},
             {".cu", NULL, kKernels},
             {".json", "net.json", kKernels},
             {"_fatbin.h", NULL, kHost},
             {".safetensors", NULL, kInFile},
             {"_weights.h", NULL, kInCode},
             {"Makefile", "Makefile", kHost},
             {"CMakeLists.txt", "CMakeLists.txt", kHost},
             {"example.c", "example.c", kHost},
             {"README.md", "README.md", kHost | kAlone},
             {"_check.c", "check.c", kStored},
             {"_check.bin", NULL, kStored}};
enum { kFiles = sizeof files / sizeof files[0] };

static int wanted_files(const Emission *e) {
  const Cli *cli = e->cli;
  if (cli->kernels_only) return kKernels | kAlone;
  return kHost | kKernels | (cli->weights_in_code ? kInCode : kInFile) |
         (e->options.check ? kStored : 0) | (emit_has_lang(cli, "cpp") ? kCpp : 0);
}

static const char *template_of(const Emission *e, int i) {
  bool alone = e->cli->kernels_only && !strcmp(files[i].suffix, "README.md");
  return alone ? "kernels.md" : files[i].template;
}

static int check_files(const Emission *e, Error *err) {
  char path[4096];
  for (int i = 0; i < kFiles; i++) {
    if (!(files[i].when & wanted_files(e))) continue;
    file_path(e, files[i].suffix, path, sizeof path);
    if (!is_ours(path))
      return err_set(err, ExitUsage,
                     "%s exists, and nngen emit did not write it: move it away, or choose "
                     "another folder with -o",
                     path);
  }
  return ExitOk;
}

static int make_folder(Emission *e, Error *err) {
  struct stat info;
  file_make_parents(e->dir, 0777); // a failure is reported for the folder itself
  e->new_folder = !mkdir(e->dir, 0777);
  if (!e->new_folder && errno != EEXIST)
    return err_set(err, ExitBadInput, "-o %s: %s", e->dir, strerror(errno));
  if (stat(e->dir, &info) || !S_ISDIR(info.st_mode))
    return err_set(err, ExitUsage, "-o %s: is a file; expected a folder", e->dir);
  return check_files(e, err);
}

static int write_images(const Emission *e, const char *cuda, Error *err) {
  char file[256], name[256], comment[512];
  void *bytes = NULL;
  size_t size = 0;
  JitOptions jit = {.cuda_path = e->cli->cuda_path,
                    .cache_dir = e->cli->no_cache ? "" : e->cli->cache_dir,
                    .progress = e->cli->quiet ? (Progress){0} : progress_bar(),
                    .log = log_to_stderr()};
  snprintf(file, sizeof file, "%s.cu", e->name);
  int code = image_build(cuda, file, e->targets, e->narchs + 1, &jit, &bytes, &size, err);
  progress_end();
  if (code) return code;
  snprintf(name, sizeof name, "%s_fatbin", e->name);
  snprintf(comment, sizeof comment, "%s.h: %s.cu as a fat binary, by nngen emit.", name, e->name);
  const char *text = embed_array(e->embed, name, comment, bytes, size);
  free(bytes);
  return write_text(e, "_fatbin.h", text, err);
}

static int write_weights(const Emission *e, Error *err) {
  char path[4096], name[256], comment[512];
  part_path(e, ".safetensors", path, sizeof path);
  int code = emit_weights(e, path, err);
  if (code || !e->cli->weights_in_code) return code;
  size_t size;
  char *bytes = read_all(path, &size);
  remove(path);
  if (!bytes) return err_set(err, ExitBadInput, "%s: cannot be read", path);
  snprintf(name, sizeof name, "%s_weights", e->name);
  snprintf(comment, sizeof comment, "%s.h: parameters as a safetensors file, by nngen emit.", name);
  code = write_text(e, "_weights.h", embed_array(e->embed, name, comment, bytes, size), err);
  free(bytes);
  return code;
}

static int write_stored(Emission *e, Error *err) {
  char path[4096];
  part_path(e, "_check.bin", path, sizeof path);
  if (!e->cli->quiet && progress_bar().step) // takes a minute for large contractions
    progress_bar().step(NULL, "computing stored results", 0, 1);
  int code = emit_check(e, path, err);
  progress_end();
  return code;
}

// Renames the parts and removes files of an earlier emission; after a failure removes the parts.
static int move_parts(const Emission *e, int code, Error *err) {
  char path[4096], part[4096];
  struct stat info;
  for (int i = 0; i < kFiles; i++) {
    bool wanted = files[i].when & wanted_files(e);
    file_path(e, files[i].suffix, path, sizeof path);
    part_path(e, files[i].suffix, part, sizeof part);
    if (code)
      remove(part);
    else if (wanted && rename(part, path))
      code = err_set(err, ExitBadInput, "%s: %s", path, strerror(errno));
    else if (!wanted && !stat(path, &info) && is_ours(path))
      remove(path); // of an earlier emission with other options
  }
  if (code && e->new_folder) rmdir(e->dir);
  return code;
}

static void print_files(const Emission *e) {
  char path[4096];
  printf("%s:", e->dir);
  for (int i = 0; i < kFiles; i++) {
    if (!(files[i].when & wanted_files(e))) continue;
    file_path(e, files[i].suffix, path, sizeof path);
    printf(" %s", path + strlen(e->dir) + 1);
  }
  printf("\n");
  if (wanted_files(e) & kHost)
    printf("build it with: make -C %s (README.md there says more)\n", e->dir);
}

int emit_files(Emission *e, Error *err) {
  int code = make_folder(e, err), wanted = wanted_files(e);
  const char *cuda = embed_cuda(e->embed);
  if (code) return code;
  for (int i = 0; !code && i < kFiles; i++)
    if (files[i].template && files[i].when & wanted)
      code = write_text(e, files[i].suffix, embed_text(e->embed, template_of(e, i)), err);
  if (!code) code = write_text(e, ".cu", cuda, err);
  if (!code && wanted & (kInFile | kInCode)) code = write_weights(e, err);
  if (!code && wanted & kHost) code = write_images(e, cuda, err);
  if (!code && wanted & kStored) code = write_stored(e, err);
  code = move_parts(e, code, err);
  if (!code && !e->cli->quiet) print_files(e);
  return code;
}
