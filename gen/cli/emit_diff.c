// emit_diff.c: `nngen emit --diff OLD`: compares with the list of launches of an earlier emission:
// settings, tensors, entries, kernels and their properties.
#include "cli.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

typedef struct Diff {
  json_t *old, *new;
  int changed, added, gone, same; // kernels
} Diff;

// A value as text, to be freed; other than strings as JSON.
static char *value_text(const json_t *value) {
  if (json_is_string(value)) return strdup(json_string_value(value));
  char *text = value ? json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
  return text ? text : strdup("none");
}

// "  KEY OLD -> NEW" when they differ; returns whether they do.
static bool print_change(const char *what, const json_t *old, const json_t *new) {
  if (old && new && json_equal(old, new)) return false;
  char *before = value_text(old), *after = value_text(new);
  printf("  %s %s -> %s\n", what, before, after);
  free(before);
  free(after);
  return true;
}

static const char *name_of(const json_t *item) {
  const char *name = json_string_value(json_object_get(item, "name"));
  return name ? name : "?";
}

// The item of `list` with the name of item `at` of `others`. Inputs of several batch sizes have one
// name: the n-th of them matches the n-th.
static const json_t *find_like(const json_t *list, const json_t *others, size_t at) {
  const char *name = name_of(json_array_get(others, at));
  int nth = 0;
  size_t i;
  json_t *item;
  for (i = 0; i < at; i++) nth += !strcmp(name_of(json_array_get(others, i)), name);
  json_array_foreach(list, i, item) if (!strcmp(name_of(item), name) && !nth--) return item;
  return NULL;
}

// ---- the network --------------------------------------------------------------------------------

static void print_settings(const Diff *d) {
  static const char *const keys[] = {"model", "cuda",  "dtype", "lowering", "settings",
                                     "archs", "ptx",   "bytes",    "library"};
  for (size_t i = 0; i < LENGTH(keys); i++)
    print_change(keys[i], json_object_get(d->old, keys[i]), json_object_get(d->new, keys[i]));
}

static bool is_border(const json_t *tensor) {
  const char *role = json_string_value(json_object_get(tensor, "role"));
  return role && strcmp(role, "temp");
}

// Inputs, outputs, parameters, states.
static void print_tensors(const Diff *d) {
  static const char *const keys[] = {"shape", "dtype", "begins_with"};
  const json_t *olds = json_object_get(d->old, "tensors"),
               *news = json_object_get(d->new, "tensors");
  size_t i;
  json_t *t;
  char what[256];
  json_array_foreach(news, i, t) {
    const json_t *old = find_like(olds, news, i);
    if (!is_border(t)) continue;
    if (!old) printf("  %s is new\n", name_of(t));
    for (size_t k = 0; old && k < LENGTH(keys); k++) {
      const json_t *before = json_object_get(old, keys[k]), *after = json_object_get(t, keys[k]);
      snprintf(what, sizeof what, "%.200s: %s", name_of(t), keys[k]);
      if (before || after) print_change(what, before, after);
    }
  }
  json_array_foreach(olds, i, t) if (is_border(t) && !find_like(news, olds, i))
      printf("  %s is gone\n", name_of(t));
}

// An entry's steps by the names of kernels and tensors, as JSON; to be released.
static json_t *steps(const json_t *list, const json_t *entry) {
  static const char *const keys[] = {"launch", "copy", "to", "zero"};
  json_t *all = json_array(), *step;
  size_t i;
  json_array_foreach(json_object_get(entry, "steps"), i, step) {
    for (size_t k = 0; k < LENGTH(keys); k++) {
      const json_t *index = json_object_get(step, keys[k]);
      const json_t *of = json_object_get(list, k ? "tensors" : "kernels");
      if (!index) continue;
      const char *name = name_of(json_array_get(of, (size_t)json_integer_value(index)));
      json_array_append_new(all, json_pack("[s, s]", keys[k], name));
    }
  }
  return all;
}

static void print_entries(const Diff *d) {
  const json_t *olds = json_object_get(d->old, "entries"),
               *news = json_object_get(d->new, "entries");
  size_t i;
  json_t *entry;
  json_array_foreach(news, i, entry) {
    const json_t *old = find_like(olds, news, i);
    json_t *before = steps(d->old, old), *after = steps(d->new, entry);
    if (!old)
      printf("  entry %s is new\n", name_of(entry));
    else if (!json_equal(before, after))
      printf("  entry %s: different steps, or in another order\n", name_of(entry));
    json_decref(before);
    json_decref(after);
  }
  json_array_foreach(olds, i, entry) if (!find_like(news, olds, i))
      printf("  entry %s is gone\n", name_of(entry));
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

// Prints which facts of the plan differ, else that the text does.
static void print_why(const Diff *d, const json_t *old, const json_t *new) {
  static const char *const keys[] = {"ops", "tile", "grid", "block", "shared_bytes"};
  bool found = false;
  for (size_t i = 0; i < LENGTH(keys); i++)
    found |= print_change(keys[i], json_object_get(old, keys[i]), json_object_get(new, keys[i]));
  json_t *before = arguments(d->old, old), *after = arguments(d->new, new);
  if (!json_equal(before, after)) found |= print_change("arguments", before, after);
  json_decref(before);
  json_decref(after);
  if (!found) printf("  its text: the template or the expression differs\n");
}

static void compare_kernels(Diff *d) {
  const json_t *olds = json_object_get(d->old, "kernels"),
               *news = json_object_get(d->new, "kernels");
  size_t i;
  json_t *k;
  json_array_foreach(news, i, k) {
    const json_t *old = find_like(olds, news, i);
    if (!old) {
      printf("new      %s\n", name_of(k));
      d->added++;
    } else if (differs(d, old, k)) {
      printf("changed  %s\n", name_of(k));
      print_why(d, old, k);
      d->changed++;
    } else {
      d->same++;
    }
  }
  json_array_foreach(olds, i, k) {
    if (find_like(news, olds, i)) continue;
    printf("gone     %s\n", name_of(k));
    d->gone++;
  }
}

static json_t *read_list(const char *path) {
  json_error_t where;
  json_t *list = json_load_file(path, 0, &where);
  if (json_is_array(json_object_get(list, "kernels"))) return list;
  json_decref(list);
  return NULL;
}

// The list of launches in a folder: of this name, or the only one.
static json_t *find_list(const char *folder, const char *name) {
  char path[4096];
  snprintf(path, sizeof path, "%s/%s.json", folder, name);
  json_t *list = read_list(path);
  DIR *dir = list ? NULL : opendir(folder);
  for (struct dirent *entry; dir && !list && (entry = readdir(dir));) {
    size_t n = strlen(entry->d_name);
    if (n < 5 || strcmp(entry->d_name + n - 5, ".json")) continue;
    snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
    list = read_list(path);
  }
  if (dir) closedir(dir);
  return list;
}

int emit_diff(const Emission *e, Error *err) {
  json_error_t where;
  Diff d = {.old = find_list(e->cli->diff, e->name)};
  if (!d.old)
    return err_set(err, ExitBadInput,
                   "--diff: %s has no list of launches (NAME.json): give a folder that nngen emit "
                   "has written",
                   e->cli->diff);
  embed_cuda(e->embed); // the list contains its hashes
  const char *text = embed_text(e->embed, "net.json");
  d.new = json_loads(text, 0, &where);
  if (!d.new) die("net.json: line %d: %s", where.line, where.text);
  printf("plan\n");
  print_settings(&d);
  print_tensors(&d);
  print_entries(&d);
  compare_kernels(&d);
  printf("%d kernels the same, %d changed, %d new, %d gone\n", d.same, d.changed, d.added, d.gone);
  json_decref(d.old);
  json_decref(d.new);
  return ExitOk;
}
