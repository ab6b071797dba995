// settings.c: what the environment asks for, and the GPU that is modelled.
#include "sim/sim.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

static long number(const char *name, long otherwise) {
  const char *text = getenv(name);
  return text && *text ? strtol(text, NULL, 0) : otherwise;
}

enum { kTimeout = 60 }; // seconds

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
              "libcusim: NNGEN_SIM_CHECK=%s: `%.*s` is left out: it takes off, or some of basic, "
              "race, address, all\n",
              check, (int)length, at);
    at += length;
    at += *at == ',';
  }
  sim_current_settings.count = number("NNGEN_SIM_COUNT", 0) != 0;
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
    fprintf(stderr, "libcusim: NNGEN_SIM_DEVICE=%s is unknown; %s taken\n", arch, model.arch);
  model.multiprocessors = (int)number("NNGEN_SIM_MULTIPROCESSORS", model.multiprocessors);
  model.smem_optin = (int)number("NNGEN_SIM_SMEM", model.smem_optin);
  model.registers_per_sm = (int)number("NNGEN_SIM_REGISTERS", model.registers_per_sm);
  size_t host = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
  long mib = number("NNGEN_SIM_MEMORY_MIB", 0);
  model.memory = mib > 0 ? (size_t)mib << 20 : host;
}

static void read_environment(void) {
  read_checks();
  read_model();
  sim_current_settings.seed = (uint64_t)number("NNGEN_SIM_SEED", 0);
  sim_current_settings.threads = (int)number("NNGEN_SIM_THREADS", sysconf(_SC_NPROCESSORS_ONLN));
  sim_current_settings.kernel_registers = (int)number("NNGEN_SIM_KERNEL_REGISTERS", 0);
  const char *timeout = getenv("NNGEN_SIM_TIMEOUT");
  sim_current_settings.timeout = timeout && *timeout ? strtod(timeout, NULL) : kTimeout;
  if (sim_current_settings.threads < 1) sim_current_settings.threads = 1;
  if (sim_current_settings.threads > 256) sim_current_settings.threads = 256;
  sim_current_settings.ready = true;
}

void sim_settings_read(void) {
  pthread_once(&once, read_environment);
}

const DeviceModel *sim_device(void) {
  pthread_once(&once, read_environment);
  return &model;
}
