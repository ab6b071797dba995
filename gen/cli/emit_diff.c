// emit_diff.c: `nngen emit --diff OLD`: what an emission would change in a folder of an earlier
// one, by the lists of launches of both: settings, tensors, kernels, and what of a kernel is
// another.
#include "cli.h"

#include <stdlib.h>
#include <string.h>

#include <jansson.h>

typedef struct Diff {
  json_t *old, *new;
  int changed, added, gone, same; // kernels
} Diff;

// A value as text, to be freed: what is no text as JSON.
static char *value_text(const json_t *value) {
  if (json_is_string(value)) return strdup(json_string_value(value));
  char *text = value ? json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
  return text ? text : strdup("none");
}

// "  KEY OLD -> NEW" when they differ; returns whether they do.
static bool tell_change(const char *what, const json_t *old, const json_t *new) {
  if (old && new &&json_equal(old, new)) return false;
  char *before = value_text(old), *after = value_text(new);
  printf("  %s %s -> %s\n", what, before, after);
  free(before);
  free(after);
  return true;
}

static const json_t *find_named(const json_t *list, const char *name) {
  size_t i;
  json_t *item;
  json_array_foreach(list, i, item) {
    const char *other = json_string_value(json_object_get(item, "name"));
    if (other && !strcmp(other, name)) return item;
  }
  return NULL;
}

static const char *name_of(const json_t *item) {
  const char *name = json_string_value(json_object_get(item, "name"));
  return name ? name : "?";
}

// ---- the network --------------------------------------------------------------------------------

static void tell_settings(const Diff *d) {
  static const char *const keys[] = {"model", "dtype", "lowering", "settings",
                                     "archs", "ptx",   "bytes",    "library"};
  for (size_t i = 0; i < LENGTH(keys); i++)
    tell_change(keys[i], json_object_get(d->old, keys[i]), json_object_get(d->new, keys[i]));
}

static bool is_border(const json_t *tensor) {
  const char *role = json_string_value(json_object_get(tensor, "role"));
  return role && strcmp(role, "temp");
}

// Inputs, outputs, parameters, states.
static void tell_tensors(const Diff *d) {
  const json_t *olds = json_object_get(d->old, "tensors"),
               *news = json_object_get(d->new, "tensors");
  size_t i;
  json_t *t;
  char what[256];
  json_array_foreach(news, i, t) {
    const json_t *old = find_named(olds, name_of(t));
    if (!is_border(t)) continue;
    if (!old) printf("  %s is new\n", name_of(t));
    snprintf(what, sizeof what, "%.200s: shape", name_of(t));
    if (old) tell_change(what, json_object_get(old, "shape"), json_object_get(t, "shape"));
    snprintf(what, sizeof what, "%.200s: dtype", name_of(t));
    if (old) tell_change(what, json_object_get(old, "dtype"), json_object_get(t, "dtype"));
  }
  json_array_foreach(olds, i, t) if (is_border(t) && !find_named(news, name_of(t)))
      printf("  %s is gone\n", name_of(t));
}

// ---- kernels ------------------------------------------------------------------------------------

// The dtype and shape of each tensor that the kernel takes, as JSON; to be released.
static json_t *arguments(const json_t *list, const json_t *kernel) {
  const json_t *tensors = json_object_get(list, "tensors");
  json_t *all = json_array(), *arg;
  size_t i;
  json_array_foreach(json_object_get(kernel, "args"), i, arg) {
    json_int_t index = json_integer_value(json_object_get(arg, "tensor"));
    const json_t *t = json_array_get(tensors, (size_t)index);
    json_array_append_new(all, json_pack("[O?, O?, O?]", json_object_get(t, "dtype"),
                                         json_object_get(t, "shape"), json_object_get(t, "order")));
  }
  return all;
}

static bool differs(const Diff *d, const json_t *old, const json_t *new) {
  static const char *const keys[] = {"source", "grid", "block", "shared_bytes"};
  for (size_t i = 0; i < LENGTH(keys); i++)
    if (!json_equal(json_object_get(old, keys[i]), json_object_get(new, keys[i]))) return true;
  json_t *before = arguments(d->old, old), *after = arguments(d->new, new);
  bool other = !json_equal(before, after);
  json_decref(before);
  json_decref(after);
  return other;
}

// Why it is another: the first facts of the plan that are, else its text.
static void tell_why(const Diff *d, const json_t *old, const json_t *new) {
  static const char *const keys[] = {"ops", "tile", "grid", "block", "shared_bytes"};
  bool told = false;
  for (size_t i = 0; i < LENGTH(keys); i++)
    told |= tell_change(keys[i], json_object_get(old, keys[i]), json_object_get(new, keys[i]));
  json_t *before = arguments(d->old, old), *after = arguments(d->new, new);
  if (!json_equal(before, after)) told |= tell_change("arguments", before, after);
  json_decref(before);
  json_decref(after);
  if (!told) printf("  its text: the template is another, or what it computes\n");
}

static void compare_kernels(Diff *d) {
  const json_t *olds = json_object_get(d->old, "kernels"),
               *news = json_object_get(d->new, "kernels");
  size_t i;
  json_t *k;
  json_array_foreach(news, i, k) {
    const json_t *old = find_named(olds, name_of(k));
    if (!old) {
      printf("new      %s\n", name_of(k));
      d->added++;
    } else if (differs(d, old, k)) {
      printf("changed  %s\n", name_of(k));
      tell_why(d, old, k);
      d->changed++;
    } else {
      d->same++;
    }
  }
  json_array_foreach(olds, i, k) {
    if (find_named(news, name_of(k))) continue;
    printf("gone     %s\n", name_of(k));
    d->gone++;
  }
}

int emit_diff(const Emission *e, Error *err) {
  char path[4096];
  json_error_t where;
  snprintf(path, sizeof path, "%s/%s.json", e->cli->diff, e->name);
  Diff d = {.old = json_load_file(path, 0, &where)};
  if (!json_is_object(d.old) || !json_is_array(json_object_get(d.old, "kernels"))) {
    json_decref(d.old);
    return err_set(err, ExitBadInput,
                   "--diff: %s: is no list of launches: name a folder that nngen emit has written",
                   path);
  }
  embed_cuda(e->embed); // the list tells of it
  const char *text = embed_text(e->embed, "net.json");
  d.new = json_loads(text, 0, &where);
  if (!d.new) die("net.json: line %d: %s", where.line, where.text);
  printf("plan\n");
  tell_settings(&d);
  tell_tensors(&d);
  compare_kernels(&d);
  printf("%d kernels the same, %d changed, %d new, %d gone\n", d.same, d.changed, d.added, d.gone);
  json_decref(d.old);
  json_decref(d.new);
  return ExitOk;
}
