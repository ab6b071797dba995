// embed_merge.c: merges plans of one model for several batch sizes: parameters and their derived
// values are shared, the arena has the largest size needed, entries are kept for each batch.
//
// Parameters are identified by name. Values that `init` computes are shared if the same program
// reads the same tensors. All other tensors are separate per plan.
#include "emit.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

typedef struct Merge {
  Plan *out;
  const Plan *from; // the plan being added
  const char *tag;  // suffix of its kernels and entries: "b8"
  bool first;
  int *tensor, *kernel; // of `from`: index in `out`; -1: not there yet, or not needed
  const int *same;      // concatenated kernels of all plans: the first with the same program
  int before;           // number of kernels of the preceding plans
  int *row;             // by kernel of `out`: its index in that concatenation
} Merge;

static char *copy_text(const char *text) {
  char *copy = strdup(text ? text : "");
  if (!copy) die("out of memory");
  return copy;
}

static char *join(const char *name, const char *tag) {
  size_t size = strlen(name) + strlen(tag) + 2;
  char *text = base_alloc(size, 1);
  snprintf(text, size, "%s_%s", name, tag);
  return text;
}

// ---- tensors ------------------------------------------------------------------------------------

static bool is_kept(const PlanTensor *t) {
  return t->role == RoleParam || t->role == RoleState;
}

static bool same_shape(const PlanTensor *a, const PlanTensor *b) {
  return a->dtype == b->dtype && a->rank == b->rank &&
         !memcmp(a->shape, b->shape, sizeof *a->shape * (size_t)a->rank);
}

static int find_kept(const Plan *plan, const char *name) {
  for (int i = 0; i < plan->ntensors; i++)
    if (is_kept(&plan->tensors[i]) && !strcmp(plan->tensors[i].name, name)) return i;
  return -1;
}

static int add_tensor(Merge *m, int t) {
  if (m->tensor[t] >= 0) return m->tensor[t];
  const PlanTensor *from = &m->from->tensors[t];
  PlanTensor *to = &m->out->tensors[m->out->ntensors];
  *to = *from;
  to->name = copy_text(from->name);
  to->loc = copy_text(from->loc);
  return m->tensor[t] = m->out->ntensors++;
}

// Matches parameters and states that `out` already has. Error: shapes differ.
static int match_kept(Merge *m, Error *err) {
  for (int t = 0; t < m->from->ntensors; t++) {
    const PlanTensor *from = &m->from->tensors[t];
    int found = is_kept(from) ? find_kept(m->out, from->name) : -1;
    m->tensor[t] = found;
    if (found < 0) continue;
    PlanTensor *to = &m->out->tensors[found];
    if (!same_shape(to, from))
      return err_set(err, ExitUsage,
                     "--set batch: the shape of '%s' depends on the batch (%s): emit them singly",
                     from->name, from->loc);
    if (from->space == SpaceStatic) to->space = SpaceStatic; // used after init by one of them
  }
  return ExitOk;
}

// ---- kernels ------------------------------------------------------------------------------------

// The source with whole-word occurrences of the kernel's name replaced.
static char *rename_source(const char *source, const char *name, const char *now) {
  Buffer b = {0};
  size_t n = strlen(name);
  for (const char *at = source, *next; *at; at = next) {
    next = strstr(at, name);
    if (!next) next = at + strlen(at);
    buffer_put(&b, "%.*s", (int)(next - at), at);
    if (!*next) break;
    bool word = next == source || !(isalnum((unsigned char)next[-1]) || next[-1] == '_');
    word = word && !(isalnum((unsigned char)next[n]) || next[n] == '_');
    buffer_put(&b, "%s", word ? now : name);
    next += n;
  }
  return b.text;
}

static PlanMap *copy_map(const PlanMap *from) {
  if (!from) return NULL;
  PlanMap *to = base_alloc(1, sizeof *to);
  *to = *from;
  return to;
}

static int add_kernel(Merge *m, int k) {
  const PlanKernel *from = &m->from->kernels[k];
  PlanKernel *to = &m->out->kernels[m->out->nkernels];
  *to = *from;
  to->name = m->first ? copy_text(from->name) : join(from->name, m->tag);
  to->layer = copy_text(from->layer);
  to->ops = copy_text(from->ops);
  to->class_name = copy_text(from->class_name);
  to->tile = copy_text(from->tile);
  to->source = rename_source(from->source, from->name, to->name);
  to->names = copy_text(from->names);
  to->file = copy_text(from->file);
  to->loc = copy_text(from->loc);
  to->args = base_alloc((size_t)from->nargs + 1, sizeof *to->args);
  for (int i = 0; i < from->nargs; i++)
    to->args[i] = (PlanArg){.name = copy_text(from->args[i].name),
                            .tensor = add_tensor(m, from->args[i].tensor),
                            .written = from->args[i].written,
                            .map = copy_map(from->args[i].map)};
  m->row[m->out->nkernels] = m->before + k;
  return m->kernel[k] = m->out->nkernels++;
}

static bool is_same_map(const PlanMap *a, const PlanMap *b) {
  return a && b ? !memcmp(a, b, sizeof *a) : a == b;
}

// Does kernel `to` of `out` compute the same as k, on the same tensors? Then outputs are shared.
static bool does_the_same(const Merge *m, int to, int k) {
  const PlanKernel *a = &m->out->kernels[to], *b = &m->from->kernels[k];
  bool same = m->same[m->row[to]] == m->same[m->before + k] && a->nargs == b->nargs &&
              !memcmp(a->grid, b->grid, sizeof a->grid);
  for (int i = 0; same && i < a->nargs; i++) {
    const PlanTensor *t = &m->from->tensors[b->args[i].tensor];
    same = b->args[i].written ? t->role == RoleTemp
                              : m->tensor[b->args[i].tensor] == a->args[i].tensor;
    same = same && is_same_map(a->args[i].map, b->args[i].map);
  }
  return same;
}

static bool is_made(Merge *m, const PlanEntry *init, int k) {
  for (int i = 0; i < init->nsteps; i++) {
    int to = init->steps[i].kernel;
    if (init->steps[i].kind != StepLaunch || !does_the_same(m, to, k)) continue;
    const PlanKernel *a = &m->out->kernels[to], *b = &m->from->kernels[k];
    for (int j = 0; j < a->nargs; j++) {
      PlanTensor *t = &m->out->tensors[a->args[j].tensor];
      if (!b->args[j].written) continue;
      m->tensor[b->args[j].tensor] = a->args[j].tensor;
      if (m->from->tensors[b->args[j].tensor].space == SpaceStatic) t->space = SpaceStatic;
    }
    return true;
  }
  return false;
}

// ---- entries ------------------------------------------------------------------------------------

static void add_steps(Merge *m, PlanEntry *to, const PlanEntry *from, bool init) {
  for (int i = 0; i < from->nsteps; i++) {
    PlanStep step = from->steps[i];
    if (step.kind == StepLaunch) {
      if (init && !m->first && is_made(m, to, step.kernel)) continue;
      step.kernel = add_kernel(m, step.kernel);
    } else {
      step.target = add_tensor(m, step.target);
      if (step.kind == StepCopy) step.source = add_tensor(m, step.source);
    }
    to->steps[to->nsteps++] = step;
  }
}

static int add_plan(Merge *m, Error *err) {
  for (int k = 0; k < m->from->nkernels; k++) m->kernel[k] = -1;
  int code = match_kept(m, err);
  for (int t = 0; t < m->from->ntensors && !code; t++)
    if (m->from->tensors[t].role != RoleTemp) add_tensor(m, t); // inputs first, as in each plan
  for (int i = 0; i < m->from->nentries && !code; i++) {
    const PlanEntry *from = &m->from->entries[i];
    bool init = !strcmp(from->name, "init");
    PlanEntry *to = &m->out->entries[init ? 0 : m->out->nentries++];
    if (!init) to->name = join(strcmp(from->name, "infer") ? from->name : "run", m->tag);
    add_steps(m, to, from, init);
  }
  if (m->from->arena_bytes > m->out->arena_bytes) m->out->arena_bytes = m->from->arena_bytes;
  return code;
}

static void place(Plan *p) {
  p->static_bytes = p->init_bytes = 0;
  for (int i = 0; i < p->ntensors; i++) {
    PlanTensor *t = &p->tensors[i];
    int64_t *end = t->space == SpaceStatic ? &p->static_bytes : &p->init_bytes;
    if (t->space == SpaceArena) continue;
    t->offset = *end;
    *end += round_up(t->bytes, 256);
  }
}

static Plan *new_plan(const Plan *const *plans, int count) {
  Plan *p = base_alloc(1, sizeof *p);
  size_t tensors = 0, kernels = 0, entries = 1, steps = 0;
  for (int i = 0; i < count; i++) {
    tensors += (size_t)plans[i]->ntensors;
    kernels += (size_t)plans[i]->nkernels;
    entries += (size_t)plans[i]->nentries;
    for (int e = 0; e < plans[i]->nentries; e++) steps += (size_t)plans[i]->entries[e].nsteps;
  }
  p->model = copy_text(plans[0]->model);
  p->lowering = copy_text(plans[0]->lowering);
  p->dtype = copy_text(plans[0]->dtype);
  p->arch = copy_text(plans[0]->arch);
  p->tensors = base_alloc(tensors + 1, sizeof *p->tensors);
  p->kernels = base_alloc(kernels + 1, sizeof *p->kernels);
  p->entries = base_alloc(entries + 1, sizeof *p->entries);
  for (size_t i = 0; i < entries; i++)
    p->entries[i].steps = base_alloc(steps + 1, sizeof *p->entries[i].steps);
  p->entries[p->nentries++].name = copy_text("init");
  p->headers = base_alloc((size_t)plans[0]->nheaders + 1, sizeof *p->headers);
  for (int i = 0; i < plans[0]->nheaders; i++)
    p->headers[p->nheaders++] =
        (PlanHeader){copy_text(plans[0]->headers[i].name), copy_text(plans[0]->headers[i].text)};
  return p;
}

int embed_merge(const Plan *const *plans, const char *const *tags, int count, const int *same,
                Plan **out, Error *err) {
  Merge m = {.out = new_plan(plans, count), .same = same, .first = true};
  int code = ExitOk, kernels = 0;
  for (int i = 0; i < count; i++) kernels += plans[i]->nkernels;
  m.row = base_alloc((size_t)kernels + 1, sizeof *m.row);
  for (int i = 0; i < count && !code; i++, m.first = false) {
    m.from = plans[i];
    m.tag = tags[i];
    m.tensor = base_alloc((size_t)plans[i]->ntensors + 1, sizeof *m.tensor);
    m.kernel = base_alloc((size_t)plans[i]->nkernels + 1, sizeof *m.kernel);
    code = add_plan(&m, err);
    m.before += plans[i]->nkernels;
    free(m.tensor), free(m.kernel);
  }
  free(m.row);
  place(m.out);
  *out = m.out;
  return code;
}
