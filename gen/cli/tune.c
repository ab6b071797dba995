// tune.c: the verb `tune`: timing on a GPU by replayed graphs, the tuning file, and the report.
#include "cli.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { kMost = 60, kLaunches = 20, kRounds = 7, kReplays = 3 };

// ---- times ------------------------------------------------------------------------------------

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

// Warm: the median over graphs of kLaunches launches; candidates alternate, so that clock drift
// affects all alike. Cold: single launches between events, each after a memset that evicts the L2.
static int time_on_device(void *user, Loaded *loaded, const Variants *v, double *us,
                          double *us_cold, Error *err) {
  (void)user;
  double samples[kMostVariants][kRounds], ms[2 * kMostVariants];
  int code = ExitOk;
  for (int round = 0; round < kRounds; round++)
    for (int i = 0; !code && i < v->count; i++) {
      RunOptions options = {.warmup = 1, .repeat = kReplays, .graph = true};
      RunTiming timing;
      char entry[16];
      snprintf(entry, sizeof entry, "v%d", i);
      code = run_time(loaded, entry, &options, &timing, err);
      if (code) return code;
      samples[i][round] = timing.median * 1e3 / v->launches;
      run_timing_free(&timing);
    }
  RunOptions options = {.warmup = 1, .repeat = kRounds};
  code = run_time_steps(loaded, "cold", &options, ms, err);
  for (int i = 0; !code && i < v->count; i++) {
    qsort(samples[i], kRounds, sizeof samples[i][0], by_value);
    us[i] = samples[i][kRounds / 2];
    us_cold[i] = ms[2 * i + 1] * 1e3;
  }
  return code;
}

// ---- report -----------------------------------------------------------------------------------

static void print_rows(const TuneReport *r) {
  printf("%-58s %6s  %-30s %8s %8s %8s  %-30s %8s %6s\n", "problem", "layers", "the model's tile",
         "modelled", "us", "cold", "the fastest tile", "us", "gain");
  for (int i = 0; i < r->nrows; i++) {
    const TuneRow *t = &r->rows[i];
    printf("%-58s %6d  %-30s %8.2f %8.2f %8.2f  %-30s %8.2f %5.2fx%s\n", t->problem, t->layers,
           t->model.tile, t->model.model_us, t->model.us, t->model.us_cold,
           !strcmp(t->best.tile, t->model.tile) ? "the same" : t->best.tile, t->best.us,
           t->model.us / t->best.us, t->wrong ? "  wrong candidates discarded" : "");
  }
}

// The cost model against measurements: its choices against the fastest, its times against the
// measured ones.
typedef struct Distance {
  double model_us, best_us; // all layers together
  double ratio, worst;      // modelled / measured: geometric mean; the one farthest from 1
  int close;                // problems where the model's choice is within 5 % of the fastest
} Distance;

static Distance distance(const TuneReport *r) {
  Distance d = {.worst = 1};
  double logs = 0;
  for (int i = 0; i < r->nrows; i++) {
    const TuneRow *t = &r->rows[i];
    double ratio = t->model.model_us / t->model.us;
    d.model_us += t->layers * t->model.us;
    d.best_us += t->layers * t->best.us;
    d.close += t->model.us <= 1.05 * t->best.us;
    logs += log(ratio);
    if (fabs(log(ratio)) > fabs(log(d.worst))) d.worst = ratio;
  }
  d.ratio = r->nrows ? exp(logs / r->nrows) : 1;
  return d;
}

static void print_report(const TuneReport *r, const DeviceInfo *device, const char *path) {
  Distance d = distance(r);
  printf("device    %s, %s, driver %d.%d\n", device->name, device->arch,
         device->driver_version / 1000, device->driver_version % 1000 / 10);
  printf("times     microseconds a launch; medians of graphs of %d launches, L2 warm; cold: single "
         "launches\n\n",
         kLaunches);
  print_rows(r);
  printf("\nthe model's choice is within 5 %% of the fastest for %d of %d problems; contractions "
         "take %.1f us by its choices, %.1f us by the fastest (%.2fx)\n",
         d.close, r->nrows, d.model_us, d.best_us, d.model_us / d.best_us);
  printf("modelled / measured time of its choices: %.2f in the geometric mean, %.2f at worst\n",
         d.ratio, d.worst);
  printf("stored in %s\n", path);
}

static json_t *json_tiles(const TuneRow *t) {
  json_t *tiles = json_array();
  for (int i = 0; i < t->candidates; i++) {
    const TuningEntry *e = &t->all[i];
    json_array_append_new(tiles, json_pack("{s:s, s:b, s:f, s:f, s:f}", "tile", e->tile, "right",
                                           t->right[i], "model_us", e->model_us, "us", e->us,
                                           "us_cold", e->us_cold));
  }
  return tiles;
}

static int print_json(const TuneReport *r, const DeviceInfo *device, const char *path, Error *err) {
  Distance d = distance(r);
  json_t *rows = json_array();
  for (int i = 0; i < r->nrows; i++) {
    const TuneRow *t = &r->rows[i];
    const char *format = "{s:s, s:s, s:i, s:i, s:i, s:s, s:f, s:f, s:f, s:s, s:f, s:f, s:o}";
    json_array_append_new(rows,
                          json_pack(format, "problem", t->problem, "layer", t->layer, "layers",
                                    t->layers, "candidates", t->candidates, "wrong", t->wrong,
                                    "model_tile", t->model.tile, "model_us", t->model.model_us,
                                    "us", t->model.us, "us_cold", t->model.us_cold, "best_tile",
                                    t->best.tile, "best_us", t->best.us, "best_us_cold",
                                    t->best.us_cold, "tiles", json_tiles(t)));
  }
  json_t *o = json_pack("{s:i, s:s, s:s, s:f, s:f, s:f, s:f, s:o}", "schema_version", 1, "device",
                        device->name, "file", path, "us_by_model", d.model_us, "us_by_best",
                        d.best_us, "modelled_by_measured", d.ratio, "worst_modelled_by_measured",
                        d.worst, "problems", rows);
  int failed = json_dumpf(o, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(6));
  json_decref(o);
  printf("\n");
  return failed ? err_set(err, ExitBadInput, "stdout cannot be written") : ExitOk;
}

// ---- the verb ---------------------------------------------------------------------------------

static int open_gpu(const Cli *cli, Device **device, Error *err) {
  int code = cli_device(cli, device, err);
  if (!code && device_info(*device)->kind == DeviceSim)
    code = err_set(err, ExitNoDevice,
                   "tune needs a GPU, and here is only libcusim, whose times say nothing about "
                   "one; to use a file tuned elsewhere: nngen run MODEL --tuning FILE");
  return code;
}

static int tune_on(const Cli *cli, Compiler *c, Device *device, const char *path, Error *err) {
  Tuning *tuning = NULL;
  TuneReport report = {0};
  TuneOptions options = {
      .timer = time_on_device,
      .most = kMost,
      .launches = kLaunches,
      .flush_bytes = 4 * (int64_t)device_info(device)->l2_bytes,
      .path = path,
      .jit = {.cache_dir = cli->no_cache ? "" : cli->cache_dir, .log = log_to_stderr()},
      .progress = cli->quiet ? (Progress){0} : progress_bar(),
      .log = log_to_stderr()};
  int code = tuning_read(path, true, &tuning, err);
  if (!code) cli_warn_tuning(cli, tuning, device_info(device)->name);
  if (!code) code = tune_model(c, device, &options, tuning, &report, err);
  progress_end();
  if (!code && cli->json)
    code = print_json(&report, device_info(device), path, err);
  else if (!code)
    print_report(&report, device_info(device), path);
  free(report.rows);
  tuning_free(tuning);
  return code;
}

int verb_tune(const Cli *cli, Error *err) {
  Options options;
  Arch arch;
  Device *device = NULL;
  Compiler c;
  int code = cli_options(cli, &options, err);
  if (!code) code = open_gpu(cli, &device, err);
  char *path = cli->tuning ? strdup(cli->tuning) : tuning_default_path(cli->cache_dir);
  if (!code && !path)
    code = err_set(err, ExitUsage,
                   "there is no cache folder to store the tiles in; name a file "
                   "with --tuning FILE");
  if (!code) {
    arch_of_device(device_info(device), &arch);
    options.arch = &arch;
    options.apart = true;
    code = compile_model(&c, &options, err);
    if (!code) code = tune_on(cli, &c, device, path, err);
    compile_close(&c);
  }
  free(path);
  if (device) device_close(device);
  return code;
}
