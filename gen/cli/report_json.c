// report_json.c: what `nngen run --json` prints. README.md lists its schema, version 1.
#include "cli.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>

// JSON has neither NaN nor infinity.
json_t *report_number(double x) {
  return isfinite(x) ? json_real(x) : json_null();
}

static json_t *json_kernel(const Run *r, int step) {
  int index = r->entry->steps[step].kernel;
  const PlanKernel *k = &r->plan->kernels[index];
  const KernelReport *j = &r->jit->kernels[index];
  json_t *o =
      json_pack("{s:s s:s s:s s:s s:s s:s s:[iii] s:i s:i s:i s:i s:f s:I s:I s:b s:b}", "name",
                k->name, "layer", k->layer, "ops", k->ops, "template", k->class_name, "tile",
                k->tile, "loc", k->loc, "grid", k->grid[0], k->grid[1], k->grid[2], "block",
                k->block[0], "registers", j->registers, "spill_bytes", j->spill_bytes, "smem",
                k->smem, "flops", k->flops, "bytes_read", (json_int_t)k->bytes_read,
                "bytes_written", (json_int_t)k->bytes_written, "serialized", j->serialized,
                "cached", j->cached);
  if (r->ms) json_object_set_new(o, "ms", report_number(r->ms[step]));
  if (!(r->kernel_error[index] < 0)) // less: not checked
    json_object_set_new(o, "error", report_number(r->kernel_error[index]));
  if (r->counts) {
    const KernelCounts *c = &r->counts[index];
    json_object_set_new(
        o, "counted",
        json_pack("{s:I s:I s:I s:I s:I s:I s:I s:I s:I s:I}", "launches", (json_int_t)c->launches,
                  "distinct_bytes", (json_int_t)c->distinct_bytes, "bytes_read",
                  (json_int_t)c->bytes_read, "bytes_written", (json_int_t)c->bytes_written,
                  "sectors", (json_int_t)c->sectors, "ideal_sectors", (json_int_t)c->ideal_sectors,
                  "bank_conflicts", (json_int_t)c->bank_conflicts, "flops", (json_int_t)c->flops,
                  "branches", (json_int_t)c->branches, "divergent_branches",
                  (json_int_t)c->divergent_branches));
  }
  return o;
}

static json_t *json_totals(const Totals *t) {
  return json_pack("{s:i s:f s:I}", "kernels", t->kernels, "flops", t->flops, "bytes",
                   (json_int_t)t->bytes);
}

static void add_result(json_t *list, const char *name, const CheckResult *c) {
  if (!c->node) return; // of another entry
  json_t *error = report_number(c->relative), *gate = report_number(c->gate);
  json_array_append_new(list, json_pack("{s:s s:o s:o s:b s:b s:f}", "name", name, "error", error,
                                        "gate", gate, "passed", c->passed, "rounding",
                                        c->rounding > 0, "rounding_error", c->rounding));
}

static json_t *json_outputs(const Run *r) {
  json_t *list = json_array();
  const Graph *g = r->compiler.original;
  for (int i = 0; i < g->noutputs; i++) add_result(list, g->outputs[i].name, &r->outputs[i]);
  for (int i = 0; i < g->nupdates; i++) add_result(list, g->updates[i].state->name, &r->updates[i]);
  return list;
}

static json_t *json_timing(const RunTiming *t) {
  json_t *samples = json_array();
  for (int i = 0; i < t->runs; i++) json_array_append_new(samples, json_real(t->samples[i]));
  return json_pack("{s:i s:f s:f s:f s:f s:f s:o}", "runs", t->runs, "min_ms", t->min, "mean_ms",
                   t->mean, "median_ms", t->median, "p99_ms", t->p99, "enqueue_ms", t->enqueue,
                   "samples_ms", samples);
}

// For each row of the first output, its best labels.
static int json_labels(const Run *r, json_t **list, Error *err) {
  BestLabels *best;
  int64_t rows;
  int code = report_best(r, &best, &rows, err);
  *list = json_array();
  for (int64_t row = 0; !code && row < rows; row++) {
    json_t *one = json_array();
    for (int i = 0; i < best[row].count; i++)
      json_array_append_new(one, json_pack("{s:s s:o}", "label", best[row].name[i], "probability",
                                           report_number(best[row].probability[i])));
    json_array_append_new(*list, one);
  }
  free(best);
  return code;
}

static json_t *json_seeded(const Run *r) {
  json_t *list = json_array();
  for (int i = 0; i < r->filled.nseeded; i++)
    if (run_lacks(r, i)) json_array_append_new(list, json_string(r->filled.seeded[i]));
  return list;
}

static json_t *json_unused(const Run *r) {
  json_t *list = json_array();
  for (int i = 0; i < r->filled.nunused; i++)
    json_array_append_new(list, json_string(r->filled.unused[i]));
  return list;
}

int report_json(const Run *r, Error *err) {
  json_t *kernels = json_array();
  for (int i = 0; i < r->entry->nsteps; i++)
    if (report_is_launch(r, i)) json_array_append_new(kernels, json_kernel(r, i));
  json_t *o = json_pack(
      "{s:i s:s s:s s:s s:s s:s s:i s:o s:o s:I s:I s:I s:f s:f s:i s:i s:i s:o}", "schema_version",
      1, "model", r->plan->model, "dtype", r->plan->dtype, "lowering", r->plan->lowering, "arch",
      r->plan->arch, "device", r->device ? device_info(r->device)->name : "none", "ops",
      r->ops, "work", json_totals(&r->fused), "unfused", json_totals(&r->unfused),
      "arena_bytes", (json_int_t)r->plan->arena_bytes, "arena_bound",
      (json_int_t)r->plan->arena_bound, "static_bytes", (json_int_t)r->plan->static_bytes,
      "generate_seconds", r->seconds_generate, "compile_seconds", r->jit->seconds, "compiled",
      r->jit->compiled, "cached", r->jit->cached, "shared", r->jit->shared, "kernels", kernels);
  if (r->loaded)
    json_object_set_new(o, "seconds",
                        json_pack("{s:f s:f s:f s:f s:f s:f}", "init", r->filled.seconds_init,
                                  "device", r->seconds_device, "generate", r->seconds_generate,
                                  "load", r->seconds_load, "parameters", r->seconds_params, "ready",
                                  r->seconds_ready));
  if (r->loaded && r->cli->weights) json_object_set_new(o, "not_in_weights", json_seeded(r));
  if (r->loaded && r->cli->weights) json_object_set_new(o, "not_in_model", json_unused(r));
  if (r->steps > 1)
    json_object_set_new(o, "steps",
                        json_pack("{s:I s:b}", "count", (json_int_t)r->steps, "waited", r->waited));
  if (r->checked) json_object_set_new(o, "outputs", json_outputs(r));
  if (r->timed) json_object_set_new(o, "timing", json_timing(&r->timing));
  json_t *labels = NULL;
  int code = r->cli->labels ? json_labels(r, &labels, err) : ExitOk;
  if (labels) json_object_set_new(o, "labels", labels);
  int failed = code ? 0 : json_dumpf(o, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
  json_decref(o);
  if (code) return code;
  printf("\n");
  return failed ? err_set(err, ExitBadInput, "stdout cannot be written") : ExitOk;
}
