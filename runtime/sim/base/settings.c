// settings.c: settings from the environment, and the modelled GPU.
#include "sim/base/base.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

enum { kTimeout = 60, kStackKib = 64, kMostThreads = 256 };

// The number in a variable; an invalid one is reported and ignored.
static long number(const char *name, long otherwise, long least, long most) {
  const char *text = getenv(name);
  if (!text || !*text) return otherwise;
  char *end;
  errno = 0;
  long value = strtol(text, &end, 0);
  if (!*end && !errno && value >= least && value <= most) return value;
  fprintf(stderr, "libcusim: %s=%s is ignored: expected a number from %ld to %ld; using %ld\n",
          name, text, least, most, otherwise);
  return otherwise;
}

static double seconds(const char *name, double otherwise) {
  const char *text = getenv(name);
  if (!text || !*text) return otherwise;
  char *end;
  double value = strtod(text, &end);
  if (end > text && !*end && value >= 0 && value <= 1e9) return value;
  fprintf(stderr, "libcusim: %s=%s is ignored: expected seconds, 0 for no limit; using %g\n", name,
          text, otherwise);
  return otherwise;
}

Settings sim_current_settings;
static DeviceModel model;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static const DeviceModel presets[] = {
    // arch, name, cc, SMs, threads, blocks, registers, smem: SM, opt-in, default, clocks, bus, L2
    {"sm_90a", "libcusim sm_90a", 9, 0, 132, 2048, 32, 65536, 228 << 10, 227 << 10, 48 << 10,
     1980000, 3201000, 6144, 60 << 20, 0},
    {"sm_80", "libcusim sm_80", 8, 0, 108, 2048, 32, 65536, 164 << 10, 163 << 10, 48 << 10, 1410000,
     1215000, 5120, 40 << 20, 0},
    {"sm_100a", "libcusim sm_100a", 10, 0, 148, 2048, 32, 65536, 228 << 10, 227 << 10, 48 << 10,
     1965000, 3996000, 8192, 126 << 20, 0},
};

static bool is_word(const char *text, size_t length, const char *word) {
  return strlen(word) == length && !memcmp(text, word, length);
}

static bool add_check(const char *text, size_t length) {
  bool all = is_word(text, length, "all");
  bool race = all || is_word(text, length, "race"),
       address = all || is_word(text, length, "address");
  sim_current_settings.race |= race;
  sim_current_settings.address |= address;
  return race || address || is_word(text, length, "basic");
}

static void read_checks(void) {
  const char *check = getenv("NNGEN_SIM_CHECK");
  if (!check || !*check) check = "basic";
  sim_current_settings.basic = strcmp(check, "off") != 0;
  for (const char *at = check; sim_current_settings.basic && *at;) {
    size_t length = strcspn(at, ",");
    if (!add_check(at, length))
      fprintf(stderr,
              "libcusim: NNGEN_SIM_CHECK=%s: `%.*s` is ignored: expected off, or some of basic, "
              "race, address, all\n",
              check, (int)length, at);
    at += length;
    at += *at == ',';
  }
  sim_current_settings.count = number("NNGEN_SIM_COUNT", 0, 0, 1) != 0;
  sim_current_settings.trace =
      sim_current_settings.race || sim_current_settings.address || sim_current_settings.count;
}

static void read_model(void) {
  const char *arch = getenv("NNGEN_SIM_DEVICE");
  model = presets[0];
  bool known = !arch || !*arch;
  for (size_t i = 0; i < sizeof presets / sizeof *presets; i++)
    if (arch && !strcasecmp(arch, presets[i].arch)) model = presets[i], known = true;
  if (!known)
    fprintf(stderr, "libcusim: NNGEN_SIM_DEVICE=%s is unknown; using %s\n", arch, model.arch);
  model.multiprocessors =
      (int)number("NNGEN_SIM_MULTIPROCESSORS", model.multiprocessors, 1, 1 << 16);
  model.smem_optin = (int)number("NNGEN_SIM_SMEM", model.smem_optin, 1024, 16 << 20);
  if (model.smem_default > model.smem_optin) model.smem_default = model.smem_optin;
  if (model.smem_per_sm < model.smem_optin + 1024) model.smem_per_sm = model.smem_optin + 1024;
  model.registers_per_sm =
      (int)number("NNGEN_SIM_REGISTERS", model.registers_per_sm, 1024, 1 << 24);
  size_t host = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
  long mib = number("NNGEN_SIM_MEMORY_MIB", 0, 0, 1l << 40);
  model.memory = mib > 0 ? (size_t)mib << 20 : host;
}

static void read_frontend(void) {
  const char *name = getenv("NNGEN_SIM_FRONTEND");
  if (!name || !*name || !strcmp(name, "host") || !strcmp(name, "cxx")) return;
  sim_current_settings.nvrtc = !strcmp(name, "nvrtc");
  if (!sim_current_settings.nvrtc)
    fprintf(stderr,
            "libcusim: NNGEN_SIM_FRONTEND=%s is ignored: expected cxx or nvrtc; using cxx\n",
            name);
}

static void read_optimization(void) {
  const char *level = getenv("NNGEN_SIM_OPTIMIZE");
  if (!level || !*level) level = "2";
  bool known = strlen(level) == 1 && strchr("0123g", *level);
  if (!known)
    fprintf(stderr,
            "libcusim: NNGEN_SIM_OPTIMIZE=%s is ignored: expected 0, 1, 2, 3 or g; using 2\n",
            level);
  snprintf(sim_current_settings.optimize, sizeof sim_current_settings.optimize, "-O%c",
           known ? *level : '2');
}

// A folder, created if missing; NULL if none is set or it cannot be created.
static const char *folder(const char *name) {
  const char *path = getenv(name);
  if (!path || !*path) return NULL;
  char *whole = mkdir(path, 0777) == 0 || errno == EEXIST ? realpath(path, NULL) : NULL;
  if (!whole)
    fprintf(stderr, "libcusim: %s=%s is ignored: expected a folder: %s\n", name, path,
            strerror(errno));
  return whole; // as long as the process lives
}

static void read_environment(void) {
  read_checks();
  read_frontend();
  read_model();
  long cores = sysconf(_SC_NPROCESSORS_ONLN);
  cores = cores < 1 ? 1 : cores > kMostThreads ? kMostThreads : cores;
  sim_current_settings.seed = (uint64_t)number("NNGEN_SIM_SEED", 0, LONG_MIN, LONG_MAX);
  sim_current_settings.threads = (int)number("NNGEN_SIM_THREADS", cores, 1, kMostThreads);
  sim_current_settings.kernel_registers = (int)number("NNGEN_SIM_KERNEL_REGISTERS", 0, 0, 1 << 16);
  read_optimization();
  sim_current_settings.precompiled = folder("NNGEN_SIM_PRECOMPILED");
  sim_current_settings.timeout = seconds("NNGEN_SIM_TIMEOUT", kTimeout);
  sim_current_settings.stack_bytes = (size_t)number("NNGEN_SIM_STACK_KIB", kStackKib, 16, 1 << 20)
                                     << 10;
  sim_current_settings.ready = true;
}

void sim_settings_read(void) {
  pthread_once(&once, read_environment);
}

void settings_stack(size_t bytes) {
  size_t whole = (bytes + ((size_t)kStackKib << 10) + 0xffff) & ~(size_t)0xffff;
  if (whole > sim_settings()->stack_bytes) sim_current_settings.stack_bytes = whole;
}

const DeviceModel *sim_device(void) {
  pthread_once(&once, read_environment);
  return &model;
}
