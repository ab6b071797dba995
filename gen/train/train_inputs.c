// train_inputs.c: checks that a data set can provide the inputs of the entries.
#include "train.h"

#include <string.h>

int train_find_input(const Train *t, const char *name) {
  for (int i = 0; i < t->plan->ntensors; i++)
    if (t->plan->tensors[i].role == RoleInput && !strcmp(t->plan->tensors[i].name, name)) return i;
  return -1;
}

int train_classes(const Train *t) {
  if (t->labels < 0) return 0;
  return (int)t->compiler.graph->nodes[t->plan->tensors[t->labels].value]->attr.below;
}

// Batches are copied to these inputs as they are (train_put_batch).
static int need_form(const Train *t, int at, Dtype dtype, int rank, const char *form, Error *err) {
  const PlanTensor *x = at < 0 ? NULL : &t->plan->tensors[at];
  if (!x || (x->dtype == dtype && x->rank == rank)) return ExitOk;
  char dims[PlanMaxRank * 22 + 1] = "";
  for (int i = 0; i < x->rank; i++) {
    size_t used = strlen(dims);
    snprintf(dims + used, sizeof dims - used, i ? ", %lld" : "%lld", (long long)x->shape[i]);
  }
  return err_set(err, ExitUsage,
                 "%s: the input '%s' is %s (%s), a data set gives %s: nn.images makes both inputs",
                 x->loc, x->name, dtype_name(x->dtype), dims, form);
}

static int need_forms(const Train *t, Error *err) {
  int code = need_form(t, t->images, DtU8, 4, "u8 (N, C, H, W)", err);
  if (!code) code = need_form(t, t->labels, DtI32, 1, "i32 (N)", err);
  if (!code) code = need_form(t, t->valid, DtI32, 1, "one i32, how many examples count", err);
  if (code || t->images < 0) return code;
  const PlanTensor *images = &t->plan->tensors[t->images];
  const PlanTensor *labels = t->labels < 0 ? images : &t->plan->tensors[t->labels];
  if (labels != images && !train_classes(t)) // labels beyond the classes would be used as indices
    return err_set(err, ExitUsage,
                   "%s: the input 'labels' does not say how many classes there are: below = 10, "
                   "say, or nn.images",
                   labels->loc);
  if (labels->shape[0] == images->shape[0]) return ExitOk;
  return err_set(err, ExitUsage, "%s: %lld 'labels' for the %lld 'images' of %s", labels->loc,
                 (long long)labels->shape[0], (long long)images->shape[0], images->loc);
}

// An entry may read only inputs that the data set provides.
static int need_fed(const Train *t, const PlanEntry *entry, Error *err) {
  for (int i = 0; i < entry->nsteps; i++) {
    const PlanStep *step = &entry->steps[i];
    const PlanKernel *kernel = step->kind == StepLaunch ? &t->plan->kernels[step->kernel] : NULL;
    for (int j = 0; kernel && j < kernel->nargs; j++) {
      int at = kernel->args[j].tensor;
      bool fed = at == t->images || at == t->valid || (t->images >= 0 && at == t->labels);
      const PlanTensor *input = &t->plan->tensors[at];
      if (input->role == RoleInput && !fed)
        return err_set(err, ExitUsage,
                       "%s: the entry `%s` reads the input '%s', which no data gives: pictures "
                       "and labels are nn.images, numbers by chance nn.random, those of a file "
                       "nn.tensor(\"FILE.npy\")",
                       input->loc, entry->name, input->name);
    }
  }
  return ExitOk;
}

int train_need_inputs(const Train *t, Error *err) {
  int code = need_forms(t, err);
  for (int i = 0; i < t->plan->nentries && !code; i++) {
    const PlanEntry *entry = &t->plan->entries[i];
    if (!strcmp(entry->name, "train") || !strcmp(entry->name, "eval"))
      code = need_fed(t, entry, err);
  }
  return code;
}
