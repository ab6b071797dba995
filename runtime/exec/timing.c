// timing.c: how long an entry, and each of its steps, takes on the device.
//
// Times are between two events on the stream. Steps are timed inside a whole run, with an event
// between them: nothing waits, so a step's time excludes the host's launch latency.
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "exec/exec.h"

static int by_value(const void *a, const void *b) {
  double left = *(const double *)a, right = *(const double *)b;
  return (left > right) - (left < right);
}

static double median_of(const double *sorted, int count) {
  return (sorted[(count - 1) / 2] + sorted[count / 2]) / 2;
}

static int summarise(RunTiming *timing, Error *err) {
  int count = timing->runs;
  double sum = 0, squares = 0;
  double *sorted = heap_alloc((size_t)count, sizeof *sorted);
  if (!sorted) return heap_error(err, "timing");
  memcpy(sorted, timing->samples, (size_t)count * sizeof *sorted);
  qsort(sorted, (size_t)count, sizeof *sorted, by_value);
  for (int i = 0; i < count; i++) sum += sorted[i];
  timing->mean = sum / count;
  for (int i = 0; i < count; i++) squares += pow(sorted[i] - timing->mean, 2);
  timing->stddev = count > 1 ? sqrt(squares / (count - 1)) : 0;
  timing->min = sorted[0];
  timing->max = sorted[count - 1];
  timing->median = median_of(sorted, count);
  timing->p99 = sorted[(int)ceil(.99 * count) - 1]; // nearest rank
  free(sorted);
  return ExitOk;
}

// ---- whole runs --------------------------------------------------------------------------------

typedef struct Clock {
  Loaded *loaded;
  Replay *replay; // NULL: launches
  int entry;
} Clock;

static double host_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return 1e3 * (double)now.tv_sec + 1e-6 * (double)now.tv_nsec;
}

static int time_one(const Clock *clock, double *ms, double *enqueue, Error *err) {
  Loaded *loaded = clock->loaded;
  const DriverApi *api = &loaded->device->api;
  float time = 0;
  double begin = host_ms();
  int rc = CU(api, err, cuEventRecord, loaded->begin, loaded->device->stream);
  if (!rc)
    rc =
        clock->replay ? replay_enqueue(clock->replay, err) : run_enqueue(loaded, clock->entry, err);
  if (!rc) rc = CU(api, err, cuEventRecord, loaded->end, loaded->device->stream);
  *enqueue += host_ms() - begin;
  if (!rc) rc = CU(api, err, cuEventSynchronize, loaded->end);
  if (!rc) rc = CU(api, err, cuEventElapsedTime, &time, loaded->begin, loaded->end);
  *ms = time;
  return rc;
}

static int time_all(const Clock *clock, const RunOptions *options, RunTiming *timing, Error *err) {
  double ignored = 0, enqueue = 0;
  int rc = ExitOk;
  for (int i = 0; i < options->warmup && !rc; i++) rc = time_one(clock, &ignored, &ignored, err);
  for (int i = 0; i < timing->runs && !rc; i++) {
    rc = time_one(clock, &timing->samples[i], &enqueue, err);
    if (options->progress.step)
      options->progress.step(options->progress.user, "running", i + 1, timing->runs);
  }
  timing->enqueue = enqueue / timing->runs;
  return rc ? rc : summarise(timing, err);
}

static int time_entry(Loaded *loaded, const char *entry, const RunOptions *options,
                      RunTiming *timing, Error *err) {
  Clock clock = {.loaded = loaded};
  int rc = run_find_entry(loaded, entry, &clock.entry, err);
  if (!rc && options->graph) rc = replay_capture(loaded, entry, &clock.replay, err);
  if (!rc) rc = time_all(&clock, options, timing, err);
  replay_close(clock.replay);
  return rc;
}

int run_time(Loaded *loaded, const char *entry, const RunOptions *options, RunTiming *timing,
             Error *err) {
  static const RunOptions none = {0};
  if (!options) options = &none;
  NvtxLevel level = loaded->nvtx_level;
  *timing = (RunTiming){.runs = options->repeat > 0 ? options->repeat : 1};
  timing->samples = heap_alloc((size_t)timing->runs, sizeof *timing->samples);
  if (!timing->samples) return heap_error(err, "timing");
  if (options->nvtx) loaded->nvtx_level = options->nvtx;
  int rc = time_entry(loaded, entry, options, timing, err);
  loaded->nvtx_level = level;
  if (rc) run_timing_free(timing);
  return rc;
}

void run_timing_free(RunTiming *timing) {
  free(timing->samples);
  *timing = (RunTiming){0};
}

// ---- steps -------------------------------------------------------------------------------------

typedef struct StepClock {
  Loaded *loaded;
  const PlanEntry *entry;
  CUevent *events; // nsteps + 1
  double *samples; // nsteps x runs
  int runs;
} StepClock;

static int step_clock_open(StepClock *clock, Error *err) {
  size_t steps = (size_t)clock->entry->nsteps;
  clock->events = heap_alloc(steps + 1, sizeof *clock->events);
  clock->samples = heap_alloc(steps * (size_t)clock->runs, sizeof *clock->samples);
  if (!clock->events || !clock->samples) return heap_error(err, "timing");
  int rc = ExitOk;
  for (size_t i = 0; i <= steps && !rc; i++)
    rc = CU(&clock->loaded->device->api, err, cuEventCreate, &clock->events[i], CU_EVENT_DEFAULT);
  return rc;
}

static void step_clock_close(StepClock *clock) {
  for (int i = 0; clock->events && i <= clock->entry->nsteps; i++)
    if (clock->events[i]) clock->loaded->device->api.cuEventDestroy(clock->events[i]);
  free(clock->events);
  free(clock->samples);
}

static int step_clock_run(StepClock *clock, int run, Error *err) { // run < 0: a warm-up
  Loaded *loaded = clock->loaded;
  const DriverApi *api = &loaded->device->api;
  int steps = clock->entry->nsteps;
  int rc = CU(api, err, cuEventRecord, clock->events[0], loaded->device->stream);
  for (int i = 0; i < steps && !rc; i++) {
    rc = run_enqueue_step(loaded, &clock->entry->steps[i], err);
    if (!rc) rc = CU(api, err, cuEventRecord, clock->events[i + 1], loaded->device->stream);
  }
  if (!rc) rc = CU(api, err, cuStreamSynchronize, loaded->device->stream);
  for (int i = 0; i < steps && !rc && run >= 0; i++) {
    float ms = 0;
    rc = CU(api, err, cuEventElapsedTime, &ms, clock->events[i], clock->events[i + 1]);
    clock->samples[i * clock->runs + run] = ms;
  }
  return rc;
}

int run_time_steps(Loaded *loaded, const char *name, const RunOptions *options, double *ms,
                   Error *err) {
  int entry, rc = run_find_entry(loaded, name, &entry, err);
  if (rc) return rc;
  StepClock clock = {.loaded = loaded,
                     .entry = &loaded->plan->entries[entry],
                     .runs = options && options->repeat > 0 ? options->repeat : 1};
  NvtxLevel level = loaded->nvtx_level;
  loaded->nvtx_level = NvtxOff; // a range per launch would be timed with it
  rc = step_clock_open(&clock, err);
  int warmup = options ? options->warmup : 0;
  for (int i = -warmup; i < clock.runs && !rc; i++) rc = step_clock_run(&clock, i, err);
  for (int i = 0; i < clock.entry->nsteps && !rc; i++) {
    double *samples = clock.samples + (size_t)i * (size_t)clock.runs;
    qsort(samples, (size_t)clock.runs, sizeof *samples, by_value);
    ms[i] = median_of(samples, clock.runs);
  }
  step_clock_close(&clock);
  loaded->nvtx_level = level;
  return rc;
}
