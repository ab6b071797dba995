// run_state.c: the entry that a run executes, and its initial states, restored before every further
// run of the same command (timing, the comparison of bits).
#include "cli.h"
#include "gen/lang/lang.h"

#include <stdlib.h>
#include <string.h>

// True if the entry writes an output or a state.
static bool is_used(const Compiler *c, int entry) {
  bool used = false;
  for (int i = 0; i < c->graph->noutputs; i++) used = used || c->graph->outputs[i].entry == entry;
  for (int i = 0; i < c->graph->nupdates; i++) used = used || c->graph->updates[i].entry == entry;
  return used;
}

int run_pick_entry(const Compiler *c, const char *name, int *entry, Error *err) {
  Buffer list = {0};
  for (*entry = 0; *entry < c->nentries; ++*entry) {
    if (!is_used(c, *entry)) continue;
    if (!name || !strcmp(c->entries[*entry], name)) return buffer_free(&list), ExitOk;
    buffer_put(&list, list.size ? ", %s" : "%s", c->entries[*entry]);
  }
  int code = err_set(err, ExitUsage, "--entry %s: %s has no such entry; it has: %s", name,
                     c->options.model, list.text ? list.text : "none");
  buffer_free(&list);
  return code;
}

bool cli_is_weight(const Graph *graph, const char *name) {
  for (int i = 0; i < graph->nnodes; i++) {
    const Node *n = graph->nodes[i];
    if (n->op->cls == OpSource && n->op->form == SourceParam && !strcmp(n->name, name)) return true;
  }
  return false;
}

static ParamsFrom params_from(void *graph, const PlanTensor *tensor) {
  return cli_is_weight(graph, tensor->name) ? ParamsFile : ParamsFileIfThere;
}

void cli_choose_params(Params *params, const Compiler *c) {
  params_choose(params, params_from, c->graph);
  for (int i = 0; i < c->nsettings; i++)
    if (c->settings[i].owner == SettingOfModel && !strcmp(c->settings[i].name, "prefix"))
      params_prefix(params, c->settings[i].value);
}

// True for a state, including a parameter that is updated like one.
static bool is_state(const Run *r, int tensor) {
  const PlanTensor *t = &r->plan->tensors[tensor];
  return t->role == RoleState || (t->value >= 0 && r->compiler.graph->nodes[t->value]->follows);
}

int run_keep_states(Run *r, Error *err) {
  int code = ExitOk;
  r->states = base_alloc((size_t)r->plan->ntensors, sizeof *r->states);
  for (int i = 0; !code && i < r->plan->ntensors; i++) {
    if (!is_state(r, i)) continue;
    int64_t count = tensor_count(&r->plan->tensors[i]);
    r->states[i] = base_alloc((size_t)count, sizeof **r->states);
    code = tensor_read_doubles(r->loaded, i, r->states[i], count, err);
  }
  return code;
}

int run_restore_states(Run *r, Error *err) {
  int code = ExitOk;
  for (int i = 0; !code && i < r->plan->ntensors; i++)
    if (r->states[i])
      code =
          tensor_write_doubles(r->loaded, i, r->states[i], tensor_count(&r->plan->tensors[i]), err);
  return code;
}

// Writes the error of the model's line in *err.
static int refuse(Compiler *c, const Node *state, double value, Error *err) {
  c->error = err;
  if (setjmp(c->recover)) return err->code = ExitBadInput;
  const char *beyond = source_beyond(c, state->name);
  err_at(c, state->loc, "state '%s' is %.0f after this run, not 0 to %lld%s%s", state->name, value,
         (long long)state->attr.below - 1, beyond ? ": " : "", beyond ? beyond : "");
}

int run_check_states(Run *r, Error *err) {
  int code = ExitOk;
  for (int i = 0; !code && i < r->plan->ntensors; i++) {
    const PlanTensor *t = &r->plan->tensors[i];
    const Node *n = r->compiler.graph->nodes[t->value];
    if (!is_state(r, i) || !n->attr.below) continue;
    int64_t count = tensor_count(t);
    double *values = base_alloc((size_t)count, sizeof *values);
    code = tensor_read_doubles(r->loaded, i, values, count, err);
    for (int64_t j = 0; !code && j < count; j++)
      if (values[j] < 0 || values[j] >= (double)n->attr.below)
        code = refuse(&r->compiler, n, values[j], err);
    free(values);
  }
  return code;
}

bool run_has_states(const Run *r) {
  bool any = false;
  for (int i = 0; r->states && i < r->plan->ntensors; i++) any = any || r->states[i];
  return any;
}

bool run_lacks(const Run *r, int i) {
  int tensor = tensor_find(r->plan, r->filled.seeded[i]);
  for (int s = 0; s < r->entry->nsteps; s++) {
    const PlanStep *step = &r->entry->steps[s];
    const PlanKernel *k = step->kind == StepLaunch ? &r->plan->kernels[step->kernel] : NULL;
    for (int j = 0; k && j < k->nargs; j++)
      if (k->args[j].tensor == tensor) return true;
  }
  return false;
}

void run_free_states(Run *r) {
  for (int i = 0; r->states && i < r->plan->ntensors; i++) free(r->states[i]);
  free(r->states);
}
