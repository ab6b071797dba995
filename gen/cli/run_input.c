// run_input.c: the inputs of a run: a picture through torchvision's transform, an npy file, or,
// with neither, a generated photograph for an image and seeded noise for anything else.
#include "cli.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const uint64_t kStep = 0x9e3779b97f4a7c15u; // of splitmix64's state, for each number

// A seeded normal value: splitmix64, then Box and Muller.
static double next_normal(uint64_t *state) {
  double u[2];
  for (int i = 0; i < 2; i++) {
    uint64_t z = *state += kStep;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    u[i] = (double)((z ^ z >> 31) >> 11) * 0x1p-53;
  }
  return sqrt(-2 * log(u[0] + 0x1p-54)) * cos(6.283185307179586 * u[1]);
}

// An integer from 0 to below - 1; without `below` a small one.
static double next_integer(uint64_t *state, Dtype dtype, int64_t below) {
  enum { kSmall = 16 };
  if (dtype == DtBool) below = 2;
  next_normal(state);
  return (double)((*state >> 33) % (uint64_t)(below ? below : kSmall));
}

static bool is_image(const PlanTensor *t) {
  return dtype_is_float(t->dtype) && t->rank == 4 && t->shape[1] == 3 &&
         t->shape[2] == t->shape[3] && t->shape[2] >= 8;
}

// One picture for every image of the batch.
static int fill_image(const Image *image, const PlanTensor *t, double *values, Error *err) {
  int side = (int)t->shape[2];
  ImageTransform transform = {.resize = side * 256 / 224, .crop = side};
  int64_t one = 3 * (int64_t)side * side;
  float *pixels = base_alloc((size_t)one, sizeof *pixels);
  int code = image_transform(image, &transform, pixels, err);
  for (int64_t i = 0; !code && i < t->shape[0] * one; i++) values[i] = pixels[i % one];
  free(pixels);
  return code;
}

static int fill_from_png(const char *path, const PlanTensor *t, double *values, Error *err) {
  if (!is_image(t))
    return err_set(err, ExitBadInput,
                   "--input %s: '%s' is not an image of shape (N, 3, S, S); give an .npy", path,
                   t->name);
  Image image;
  int code = image_read(path, &image, err);
  if (code) return code;
  code = fill_image(&image, t, values, err);
  image_free(&image);
  return code;
}

// " (declared in model.lua:3)": where the model has input t.
static const char *declared(const Run *r, const PlanTensor *t) {
  const Node *input = r->compiler.graph->nodes[t->value];
  return arena_printf(r->compiler.arena, " (declared in %s:%d)", input->loc.file, input->loc.line);
}

// The integers of a file must be in the range that the model declares for the input.
static int check_integers(const Run *r, const char *path, const PlanTensor *t, const Npy *npy,
                          Error *err) {
  const Node *input = r->compiler.graph->nodes[t->value];
  int64_t below = input->attr.below;
  if (!npy->integers)
    return err_set(err, ExitBadInput, "--input %s: '%s': expected %s, the file holds floats%s",
                   path, t->name, dtype_name(t->dtype), declared(r, t));
  double least = t->dtype == DtU8 ? 0 : INT32_MIN, most = t->dtype == DtU8 ? 255 : INT32_MAX;
  for (int64_t i = 0; i < npy->count; i++) {
    double v = npy->exact[i];
    if (v >= least && v <= most && (!below || (v >= 0 && v < (double)below))) continue;
    if (below)
      return err_set(err, ExitBadInput, "--input %s: element %lld of '%s' is %.0f, not 0 to %lld%s",
                     path, (long long)i, t->name, v, (long long)below - 1, declared(r, t));
    return err_set(err, ExitBadInput,
                   "--input %s: element %lld of '%s' is %.0f, not %.0f to %.0f%s", path,
                   (long long)i, t->name, v, least, most, declared(r, t));
  }
  return ExitOk;
}

static int fill_from_npy(const Run *r, const char *path, const PlanTensor *t, double *values,
                         Error *err) {
  Npy npy;
  int code = npy_read(path, &npy, err);
  if (code) return code;
  bool same = npy.rank == t->rank;
  for (int d = 0; same && d < t->rank; d++) same = npy.shape[d] == t->shape[d];
  if (!same) {
    Type want = type_make(DtF32, t->rank, t->shape), found = type_make(DtF32, npy.rank, npy.shape);
    code = err_set(err, ExitBadInput, "--input %s: '%s' has shape %s, the file has %s%s", path,
                   t->name, type_shape(&want).s, type_shape(&found).s, declared(r, t));
  }
  if (!code && !dtype_is_float(t->dtype)) code = check_integers(r, path, t, &npy, err);
  for (int64_t i = 0; !code && i < npy.count; i++)
    values[i] = npy.exact ? npy.exact[i] : npy.values[i];
  npy_free(&npy);
  return code;
}

static bool ends_with(const char *text, const char *end) {
  size_t n = strlen(text), m = strlen(end);
  return n >= m && !strcmp(text + n - m, end);
}

// The = of --input NAME=FILE, or NULL for FILE alone, whose path may contain one: ./a=b.npy.
static const char *name_end(const char *text) {
  const char *equal = strchr(text, '='), *slash = strchr(text, '/');
  return equal && slash && slash < equal ? NULL : equal;
}

static bool is_given(const char *text, const PlanTensor *t) { // is it for this tensor?
  const char *end = name_end(text);
  size_t n = strlen(t->name);
  return !end || ((size_t)(end - text) == n && !strncmp(text, t->name, n));
}

static const char *given_file(const Cli *cli, const PlanTensor *t) {
  for (int i = 0; i < cli->ninput; i++) {
    const char *text = cli->input[i], *end = name_end(text);
    if (is_given(text, t)) return end ? end + 1 : text;
  }
  return NULL;
}

static bool is_input(const Node *n, const PlanTensor *t) {
  return n->op->cls == OpSource && n->op->form == SourceInput && !strcmp(n->name, t->name);
}

// True if the entry, as the model is written, reads the input.
static bool reads(const Graph *g, int entry, const PlanTensor *t) {
  bool any = false;
  for (int i = 0; i < g->nnodes; i++) {
    const Node *n = g->nodes[i];
    for (int j = 0; n->entry == entry && n->uses && j < n->nin; j++)
      any = any || is_input(n->in[j], t);
  }
  for (int i = 0; i < g->noutputs; i++)
    any = any || (g->outputs[i].entry == entry && is_input(g->outputs[i].node, t));
  for (int i = 0; i < g->nupdates; i++)
    any = any || (g->updates[i].entry == entry && is_input(g->updates[i].value, t));
  return any;
}

// True if only other entries read the input; puts their names into `others`.
static bool is_unread(const Run *r, const PlanTensor *t, Buffer *others) {
  const Compiler *c = &r->compiler;
  bool own = false, other = false;
  for (int e = 0; e < c->nentries; e++) {
    if (!reads(c->original, e, t)) continue;
    bool runs = !strcmp(c->entries[e], r->entry->name);
    own = own || runs;
    if (!runs && others) buffer_put(others, other ? ", %s" : "%s", c->entries[e]);
    other = other || !runs;
  }
  return other && !own;
}

typedef struct Noise { // a part of an input
  uint64_t state;
  double *values;
  int64_t count;
} Noise;

static void *make_noise(void *arg) {
  Noise *n = arg;
  for (int64_t i = 0; i < n->count; i++) n->values[i] = (float)next_normal(&n->state);
  return NULL;
}

// Fills large inputs with several threads; the values do not depend on their number.
static void fill_noise(uint64_t state, double *values, int64_t count) {
  enum { kMostThreads = 16, kLeast = 1 << 20 }; // kLeast: values of a thread
  enum { kNumbers = 2 };                        // uniform numbers per value
  int64_t parts = count / kLeast, cores = sysconf(_SC_NPROCESSORS_ONLN);
  parts = parts < 1 ? 1 : parts < cores ? parts : cores;
  if (parts > kMostThreads) parts = kMostThreads;
  Noise noise[kMostThreads];
  pthread_t threads[kMostThreads];
  bool started[kMostThreads] = {false};
  for (int64_t p = parts - 1; p >= 0; p--) {
    int64_t begin = count * p / parts;
    noise[p] = (Noise){state + kNumbers * kStep * (uint64_t)begin, values + begin,
                       count * (p + 1) / parts - begin};
    started[p] = p > 0 && !pthread_create(&threads[p], NULL, make_noise, &noise[p]);
    if (!started[p]) make_noise(&noise[p]);
  }
  for (int64_t p = 1; p < parts; p++)
    if (started[p]) pthread_join(threads[p], NULL);
}

static int fill_input(Run *r, const PlanTensor *t, uint64_t seed, double *values, Error *err) {
  const char *path = is_unread(r, t, NULL) ? NULL : given_file(r->cli, t);
  if (path && ends_with(path, ".png")) return fill_from_png(path, t, values, err);
  if (path && ends_with(path, ".npy")) return fill_from_npy(r, path, t, values, err);
  if (path) return err_set(err, ExitUsage, "--input %s: expected a .png or .npy file", path);
  if (is_image(t)) {
    Image photo;
    r->input_note = "a generated photograph";
    int code = photo_make(500, 375, seed, &photo, err);
    if (!code) code = fill_image(&photo, t, values, err);
    image_free(&photo);
    return code;
  }
  r->input_note = "seeded normal noise";
  uint64_t state = seed * 0x2545f4914f6cdd1du + 88172645463325252u;
  int64_t below = r->compiler.graph->nodes[t->value]->attr.below;
  if (dtype_is_float(t->dtype)) fill_noise(state, values, tensor_count(t));
  for (int64_t i = 0; !dtype_is_float(t->dtype) && i < tensor_count(t); i++)
    values[i] = next_integer(&state, t->dtype, below);
  return ExitOk;
}

// Rejects a file for an input that the entry does not read.
static int check_unread(const Run *r, const PlanTensor *t, const char *others, Error *err) {
  for (int k = 0; k < r->cli->ninput; k++) {
    const char *text = r->cli->input[k];
    if (name_end(text) && is_given(text, t))
      return err_set(err, ExitUsage, "--input %s: entry %s reads no %s; these do: %s", text,
                     r->entry->name, t->name, others);
  }
  return ExitOk;
}

// Every --input is of exactly one input that the entry reads, every input of at most one --input.
static int check_input_names(const Run *r, Error *err) {
  int taken[kMostInputs] = {0}; // the inputs that each --input is for
  char names[256] = "";
  const char *first = NULL;
  for (int i = 0; i < r->plan->ntensors; i++) {
    const PlanTensor *t = &r->plan->tensors[i];
    if (t->role != RoleInput) continue;
    Buffer others = {0};
    bool unread = is_unread(r, t, &others);
    int code = unread ? check_unread(r, t, others.text, err) : ExitOk;
    buffer_free(&others);
    if (code) return code;
    if (unread) continue;
    size_t used = strlen(names);
    snprintf(names + used, sizeof names - used, "%s%s", used ? ", " : "", t->name);
    if (!first) first = t->name;
    int files = 0;
    for (int k = 0; k < r->cli->ninput; k++)
      if (is_given(r->cli->input[k], t)) taken[k]++, files++;
    if (files > 1) return err_set(err, ExitUsage, "--input: '%s' is given twice", t->name);
  }
  for (int k = 0; k < r->cli->ninput; k++) {
    const char *text = r->cli->input[k];
    if (!taken[k])
      return err_set(err, ExitUsage, "--input %s: the model has no such input; it has: %s", text,
                     first ? names : "none");
    if (taken[k] > 1)
      return err_set(err, ExitUsage, "--input %s: which input? the model has: %s; as in %s=%s",
                     text, names, first, text);
  }
  return ExitOk;
}

// --check-finite: the first NaN or infinity of a weights file is an error.
int run_check_finite(const char *path, Error *err) {
  Weights *weights;
  int code = weights_open(path, &weights, err);
  if (code) return code;
  for (int i = 0; !code && i < weights_count(weights); i++) {
    const WeightTensor *t = weights_at(weights, i);
    bool real = t->dtype[0] == 'F' || !strncmp(t->dtype, "BF", 2);
    if (!real) continue; // integers are finite
    int64_t count = 1;
    for (int d = 0; d < t->rank; d++) count *= t->shape[d];
    float *values = base_alloc((size_t)count, sizeof *values);
    code = weights_floats(t, values, err);
    for (int64_t k = 0; !code && k < count; k++)
      if (!isfinite(values[k]))
        code = err_set(err, ExitBadInput, "weights '%s': '%s' holds %s at element %lld", path,
                       t->name, isnan(values[k]) ? "NaN" : "infinity", (long long)k);
    free(values);
  }
  weights_close(weights);
  return code;
}

int run_read_inputs(Run *r, uint64_t seed, Error *err) {
  int code = check_input_names(r, err);
  r->input_note = r->cli->ninput ? "files" : "none";
  r->inputs = base_alloc((size_t)r->plan->ntensors, sizeof *r->inputs);
  // Different noise for each input: identical inputs would hide swapped operands.
  for (int i = 0; !code && i < r->plan->ntensors; i++) {
    const PlanTensor *t = &r->plan->tensors[i];
    if (t->role != RoleInput) continue;
    r->inputs[i] = base_alloc((size_t)tensor_count(t), sizeof *r->inputs[i]);
    const char *note = r->input_note;
    code = fill_input(r, t, seed, r->inputs[i], err);
    if (is_unread(r, t, NULL)) r->input_note = note;
    seed += kStep;
  }
  return code;
}

int run_set_inputs(Run *r, Error *err) {
  int code = ExitOk;
  for (int i = 0; !code && i < r->plan->ntensors; i++)
    if (r->inputs[i])
      code =
          tensor_write_doubles(r->loaded, i, r->inputs[i], tensor_count(&r->plan->tensors[i]), err);
  run_free_inputs(r);
  return code;
}

void run_free_inputs(Run *r) {
  for (int i = 0; r->inputs && i < r->plan->ntensors; i++) free(r->inputs[i]);
  free(r->inputs);
  r->inputs = NULL;
}
