// tuning.c: the file of measured tiles: read and validated (users edit it), queried by the
// scheduler, extended by `nngen tune`.
#include "attend.h"

#include <errno.h>
#include <jansson.h>
#include <regex.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { kSchema = 1 };

struct Tuning {
  json_t *root, *devices; // devices is a part of root
  const char *path;       // owned; NULL for an empty table
};

static json_t *must(json_t *value) {
  if (!value) die("out of memory");
  return value;
}

Tuning *tuning_new(void) {
  Tuning *t = base_alloc(1, sizeof *t);
  t->root = must(json_object());
  t->devices = must(json_object());
  json_object_set_new(t->root, "schema_version", json_integer(kSchema));
  json_object_set_new(t->root, "devices", t->devices);
  return t;
}

void tuning_free(Tuning *t) {
  if (!t) return;
  json_decref(t->root);
  free((char *)t->path);
  free(t);
}

// ---- reading ----------------------------------------------------------------------------------

typedef struct Reader {
  const char *path, *text;
  Error *err;
} Reader;

// Line of the innermost of the nested keys.
static int line_of(const Reader *r, const char *const *keys, int count) {
  const char *at = r->text;
  for (int i = 0; i < count; i++) {
    char quoted[512];
    snprintf(quoted, sizeof quoted, "\"%s\"", keys[i]);
    const char *found = strstr(at, quoted);
    if (!found) break;
    at = found;
  }
  int line = 1;
  for (const char *s = r->text; s < at; s++) line += *s == '\n';
  return line;
}

static int wrong(const Reader *r, const char *const *keys, int count, const char *why) {
  return err_set(r->err, ExitBadInput, "%s:%d: %s", r->path, line_of(r, keys, count), why);
}

static int unknown_key(const Reader *r, const char *const *keys, int count,
                       const char *const *known, int nknown) {
  char why[256];
  const char *near = text_nearest(keys[count - 1], known, nknown);
  snprintf(why, sizeof why, "unknown key \"%.80s\"%s%s%s", keys[count - 1],
           near ? "; did you mean \"" : "", near ? near : "", near ? "\"?" : "");
  return wrong(r, keys, count, why);
}

// Validates keys and tiles by pattern: a misspelt one would never match and be ignored silently.
static bool matches(const char *text, const char *pattern) {
  regex_t compiled;
  if (regcomp(&compiled, pattern, REG_EXTENDED | REG_NOSUB)) die("bad pattern %s", pattern);
  bool found = !regexec(&compiled, text, 0, NULL, 0);
  regfree(&compiled);
  return found;
}

static bool is_problem(const char *text) {
  return matches(
      text,
      "^(fp32|tf32|fp16|bf16) ("
      "conv( data| filter)? [0-9x]+ by [0-9x]+ stride [0-9]+x[0-9]+ pad -?[0-9]+(,-?[0-9]+){3}"
      "( dilation [0-9]+x[0-9]+)?( groups [0-9]+)?|"
      "matmul [0-9x]+( transposed| computed)? by [0-9x]+( transposed| computed)?|"
      "(attention|weights of one product|weights of two products) [0-9x]+ to [0-9x]+ by [0-9x]+( "
      "[0-9]+ % of tiles)?)$");
}

static bool is_tile(const char *text) {
  return matches(text, "^[0-9]+x[0-9]+ warps [0-9]+x[0-9]+ stages [0-9]+ parts [0-9]+( wgmma)?$");
}

static int check_entry(const Reader *r, const char *device, const char *problem, json_t *entry) {
  static const char *const known[] = {"tile", "us", "us_cold", "model_us"};
  const char *keys[] = {"devices", device, problem, NULL};
  if (!json_is_object(entry)) return wrong(r, keys, 3, "expected an object with a \"tile\"");
  const char *key;
  json_t *value;
  json_object_foreach(entry, key, value) {
    keys[3] = key;
    int i = 0;
    while (i < 4 && strcmp(known[i], key)) i++;
    if (i == 4) return unknown_key(r, keys, 4, known, 4);
    if (i == 0 && !json_is_string(value)) return wrong(r, keys, 4, "\"tile\" must be a string");
    if (i == 0 && !is_tile(json_string_value(value)))
      return wrong(r, keys, 4,
                   "expected a tile, such as \"64x32 warps 32x16 stages 4 parts 1\"; "
                   "--explain KERNEL prints a kernel's entry");
    if (i > 0 && (!json_is_number(value) || json_number_value(value) < 0))
      return wrong(r, keys, 4, "a time must be a number of microseconds");
  }
  if (!json_object_get(entry, "tile")) return wrong(r, keys, 3, "this entry has no \"tile\"");
  if (is_problem(problem)) return ExitOk;
  return wrong(r, keys, 3,
               "expected a problem, such as \"fp16 matmul 8x784 by 784x256 transposed\"; "
               "--explain KERNEL prints a kernel's entry");
}

static int check_root(const Reader *r, json_t *root) {
  static const char *const known[] = {"schema_version", "devices"};
  const char *keys[] = {NULL, NULL}, *key, *problem;
  json_t *value, *entry;
  if (!json_is_object(root)) return wrong(r, keys, 0, "a tuning file must be a JSON object");
  json_object_foreach(root, key, value) {
    keys[0] = key;
    if (strcmp(key, known[0]) && strcmp(key, known[1])) return unknown_key(r, keys, 1, known, 2);
  }
  keys[0] = "schema_version";
  if (json_integer_value(json_object_get(root, keys[0])) != kSchema)
    return wrong(r, keys, 1,
                 "schema_version must be 1: made by another nngen? run nngen tune again");
  json_t *devices = json_object_get(root, "devices");
  keys[0] = "devices";
  if (!json_is_object(devices)) return wrong(r, keys, 1, "\"devices\" must be an object");
  json_object_foreach(devices, key, value) {
    keys[1] = key;
    if (!json_is_object(value)) return wrong(r, keys, 2, "a device must be an object of problems");
    json_object_foreach(value, problem, entry) {
      int code = check_entry(r, key, problem, entry);
      if (code) return code;
    }
  }
  return ExitOk;
}

static char *read_text(const char *path) { // free with free(); NULL: see errno
  FILE *file = fopen(path, "rb");
  char *text = NULL;
  size_t size = 0, got;
  char chunk[4096];
  if (!file) return NULL;
  while ((got = fread(chunk, 1, sizeof chunk, file)) > 0) {
    text = realloc(text, size + got + 1);
    if (!text) die("out of memory");
    memcpy(text + size, chunk, got);
    size += got;
  }
  bool failed = ferror(file);
  fclose(file);
  if (failed) return free(text), NULL;
  if (!text) text = base_alloc(1, 1);
  text[size] = 0;
  return text;
}

int tuning_read(const char *path, bool may_lack, Tuning **out, Error *err) {
  json_error_t why;
  *out = NULL;
  errno = 0;
  char *text = read_text(path);
  if (!text && may_lack && errno == ENOENT) {
    *out = tuning_new();
    return ExitOk;
  }
  if (!text)
    return err_set(err, ExitBadInput,
                   "tuning file '%s': %s; nngen tune MODEL --tuning %s creates it",
                   path, strerror(errno ? errno : EIO), path);
  Reader r = {path, text, err};
  json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, &why);
  int code = root ? check_root(&r, root)
                  : err_set(err, ExitBadInput, "%s:%d: no JSON: %s", path, why.line, why.text);
  free(text);
  if (code) return json_decref(root), code;
  Tuning *t = base_alloc(1, sizeof *t);
  *t = (Tuning){root, json_object_get(root, "devices"), strdup(path)};
  *out = t;
  return ExitOk;
}

// ---- writing ----------------------------------------------------------------------------------

int tuning_write(const Tuning *t, const char *path, Error *err) {
  char temp[4096];
  snprintf(temp, sizeof temp, "%s.%ld", path, (long)getpid());
  int failed = json_dump_file(t->root, temp, JSON_INDENT(2) | JSON_REAL_PRECISION(5));
  if (!failed) failed = rename(temp, path);
  if (!failed) return ExitOk;
  int why = errno;
  unlink(temp);
  return err_set(err, ExitBadInput, "tuning file '%s' cannot be written: %s", path, strerror(why));
}

void tuning_put(Tuning *t, const char *device, const char *problem, const TuningEntry *e) {
  json_t *problems = json_object_get(t->devices, device), *entry = must(json_object());
  if (!problems) {
    problems = must(json_object());
    json_object_set_new(t->devices, device, problems);
  }
  json_object_set_new(entry, "tile", json_string(e->tile));
  if (e->us > 0) json_object_set_new(entry, "us", json_real(e->us));
  if (e->us_cold > 0) json_object_set_new(entry, "us_cold", json_real(e->us_cold));
  if (e->model_us > 0) json_object_set_new(entry, "model_us", json_real(e->model_us));
  json_object_set_new(problems, problem, entry);
}

// ---- queries ----------------------------------------------------------------------------------

// The architecture's GPU is a word of the stored name: "H200" of "NVIDIA H200".
static bool same_device(const char *stored, const char *device) {
  const char *at = strstr(stored, device);
  size_t n = strlen(device);
  return !strcmp(stored, device) ||
         (at && at > stored && at[-1] == ' ' && (!at[n] || at[n] == ' '));
}

bool tuning_find(const Tuning *t, const char *device, const char *problem, TuningEntry *e) {
  const char *name;
  json_t *problems;
  if (!t || !device) return false;
  json_object_foreach(t->devices, name, problems) {
    json_t *entry = same_device(name, device) ? json_object_get(problems, problem) : NULL;
    if (!entry) continue;
    *e = (TuningEntry){json_string_value(json_object_get(entry, "tile")),
                       json_number_value(json_object_get(entry, "us")),
                       json_number_value(json_object_get(entry, "us_cold")),
                       json_number_value(json_object_get(entry, "model_us"))};
    return true;
  }
  return false;
}

int tuning_count(const Tuning *t, const char *device, int *own, const char **other) {
  const char *name;
  json_t *problems;
  int others = 0;
  *own = 0;
  *other = NULL;
  if (!t) return 0;
  json_object_foreach(t->devices, name, problems) {
    int count = (int)json_object_size(problems);
    bool same = same_device(name, device);
    *(same ? own : &others) += count;
    if (!same && count) *other = name;
  }
  return others;
}

const Tile *tuning_pick(const Group *g, const Tile *list, int count) {
  Compiler *c = g->graph->c;
  const Options *o = &c->options;
  TuningEntry entry;
  if (!o->tuning || !tuning_find(o->tuning, o->device, tuning_problem(g), &entry)) return NULL;
  for (int i = 0; i < count; i++)
    if (!strcmp(tuning_tile(c->arena, &list[i]), entry.tile)) return &list[i];
  c->stale = arena_printf(c->arena, "%s: %s", tuning_problem(g), entry.tile);
  return NULL;
}

void tuning_explain(const Group *g, FILE *file) {
  TuningEntry e;
  const Options *o = &g->graph->c->options;
  fprintf(file, "  in a tuning file: \"%s\": {\"tile\": \"%s\"}\n", tuning_problem(g),
          tuning_tile(g->graph->arena, &g->tile));
  if (!g->tile.tuned || !tuning_find(o->tuning, o->device, tuning_problem(g), &e)) return;
  fprintf(file, "  tuned: measured as fastest on %s", o->device);
  if (e.us > 0) fprintf(file, ", %.2f us", e.us);
  if (e.us_cold > 0) fprintf(file, " (%.2f us with a cold L2)", e.us_cold);
  fprintf(file, "; the model predicts %.2f us\n", g->tile.seconds * 1e6);
}

// ---- names ------------------------------------------------------------------------------------

static const char *shape(Arena *arena, const Type *t) { // "1x64x56x56"
  const char *text = "";
  for (int d = 0; d < t->rank; d++)
    text = arena_printf(arena, d ? "%sx%lld" : "%s%lld", text, (long long)t->dim[d]);
  return text;
}

static const char *matrices(Arena *arena, const Type *t, int64_t rows,
                            int64_t columns) { // "12x197x64"
  int64_t count = type_count(t) / (rows * columns);
  Type kept = type_make(t->dtype, 3, (int64_t[]){count, rows, columns});
  return count > 1 ? shape(arena, &kept) : shape(arena, &kept) + strlen("1x");
}

// Layout of the last two dimensions of a matmul operand: transposed ones are loaded differently.
static const char *lie(const Group *g, const Node *n) {
  int64_t stride[MaxRank], offset;
  int rank = n->type.rank;
  if (!view_of(g, n, stride, &offset)) return " computed";
  return rank > 1 && stride[rank - 2] == 1 && stride[rank - 1] > 1 ? " transposed" : "";
}

// Queries, keys, values, and the share of tiles not skipped.
static const char *attention_problem(const Group *g) {
  Arena *arena = g->graph->arena;
  const Attention *a = g->attention;
  Attending p = attend_problem(g);
  double live = attend_share(g, &p, &(Tile){.m = 64, .n = 64});
  const char *part = live < 1 ? arena_printf(arena, " %.0f %% of tiles", 100 * live) : "";
  const char *to = p.sums ? shape(arena, &g->anchor->type)
                          : matrices(arena, &a->operand[a->noperands - 1]->type, p.keys, p.width);
  return arena_printf(arena, "%s %s %s to %s by %s%s", precision_name(g->anchor->precision),
                      attend_kind(&p), matrices(arena, &a->operand[0]->type, p.rows, p.depth[0]),
                      matrices(arena, &a->operand[1]->type, p.keys, p.depth[0]), to, part);
}

const char *tuning_problem(const Group *g) {
  if (g->attention) return attention_problem(g);
  const Node *n = g->anchor, *a = n->in[0], *b = n->in[1];
  const Attr *t = &n->attr;
  Arena *arena = g->graph->arena;
  const char *dtype = precision_name(n->precision);
  const char *stored = tail_all_transposed(g) ? " stored transposed" : "";
  if (maps_gives(n) == PartNone) {
    Product p = contract_product(g);
    return arena_printf(arena, "%s matmul %s%s by %s%s%s", dtype,
                        matrices(arena, &a->type, p.m, p.k), lie(g, a),
                        matrices(arena, &b->type, p.k, p.n), lie(g, b), stored);
  }
  const char *more = "";
  if (t->dilation[0] != 1 || t->dilation[1] != 1)
    more = arena_printf(arena, " dilation %lldx%lld", (long long)t->dilation[0],
                        (long long)t->dilation[1]);
  if (t->groups != 1) more = arena_printf(arena, "%s groups %lld", more, (long long)t->groups);
  static const char *const words[] = {
      [PartPositions] = "conv", [PartImage] = "conv data", [PartFilter] = "conv filter"};
  return arena_printf(arena, "%s %s %s by %s stride %lldx%lld pad %lld,%lld,%lld,%lld%s%s", dtype,
                      words[maps_gives(n)], shape(arena, &a->type), shape(arena, &b->type),
                      (long long)t->stride[0], (long long)t->stride[1], (long long)t->pad[0],
                      (long long)t->pad[1], (long long)t->pad[2], (long long)t->pad[3], more,
                      stored);
}

// Attention has equal tile shapes for both tensor core units.
const char *tuning_tile(Arena *arena, const Tile *t) {
  return arena_printf(arena, "%dx%d warps %dx%d stages %d parts %d%s", t->m, t->n, t->tm, t->tn,
                      t->stages, t->splits, !t->tn && t->unit == &unit_wgmma ? " wgmma" : "");
}
