// folder.c: a private temporary folder for the host compiler's files.
#include "sim/base/base.h"

#include <errno.h>
#include <ftw.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

static int remove_entry(const char *path, const struct stat *st, int flag, struct FTW *ftw) {
  (void)st, (void)flag, (void)ftw;
  return remove(path);
}

void folder_remove(const char *folder) {
  if (!getenv("NNGEN_SIM_KEEP")) nftw(folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

// NOTE: a compilation writes all device headers anew, some sixty small files. On ext4, which looks
// for free inodes one by one where files were just deleted, that took a tenth of its time.
static bool has_memory(const char *folder) {
  struct statvfs room;
  const size_t enough = 256 << 20; // bytes
  return !getenv("NNGEN_SIM_KEEP") && statvfs(folder, &room) == 0 &&
         room.f_bavail >= enough / room.f_frsize;
}

bool folder_make(char folder[kFolder], Text *log) {
  const char *memory = has_memory("/dev/shm") ? "/dev/shm" : NULL;
  const char *bases[] = {getenv("TMPDIR"), memory, "/tmp", "/var/tmp", "/dev/shm"};
  for (size_t i = 0; i < sizeof bases / sizeof *bases; i++) {
    if (!bases[i] || !*bases[i]) continue;
    snprintf(folder, kFolder, "%.480s/cusim-XXXXXX", bases[i]);
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

bool folder_write(const char *folder, const char *name, const char *begin, size_t length,
                       Text *log) {
  char path[1024];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *f = make_parents(path, strlen(folder)) ? fopen(path, "wb") : NULL;
  bool ok = f && fwrite(begin, 1, length, f) == length;
  if (f && fclose(f) != 0) ok = false;
  if (!ok) text_print(log, "libcusim: %s cannot be written: %s\n", path, strerror(errno));
  return ok;
}

bool folder_read(const char *folder, const char *name, Text *out) {
  char path[1024], part[65536];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *f = fopen(path, "rb");
  if (!f) return false;
  for (size_t n; (n = fread(part, 1, sizeof part, f)) > 0;) text_append(out, part, n);
  fclose(f);
  return !out->failed;
}

bool folder_read_output(const char *folder, const char *name, Text *out, Text *log) {
  if (folder_read(folder, name, out)) return true;
  text_print(log, "libcusim: the host compiler made no file %s: %s\n", name,
             out->failed ? "out of memory" : strerror(errno));
  return false;
}
