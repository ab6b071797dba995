// compile.c: runs the passes in the order of their table and verifies the graph after each.
#include "compile.h"

#include <ctype.h>
#include <string.h>

// Facts about the graph that passes require (needs), establish (gives) and destroy (breaks).
enum Fact {
  HasTypes = 1,
  HasDtypes = 2,
  HasOrders = 4,
  HasGroups = 8,
  HasTiles = 16,
  HasOrderedLaunches = 32,
  HasSources = 64
};

// Fixed values depend only on constants and on parameters that no entry updates: an update may run
// after other uses of the parameter.
static void find_fixed(Graph *g) {
  for (int i = 0; i < g->nnodes; i++) {
    Node *n = g->nodes[i];
    bool param = n->op->cls == OpSource && n->op->form == SourceParam;
    if (param) n->fixed = !n->updated;
    for (int j = 0; j < n->nin; j++) n->fixed = n->fixed && n->in[j]->fixed;
  }
}

static void front_stage(Compiler *c) {
  front_run(c);
  gradients_check(c);
}

static void shape_stage(Compiler *c) { // also keeps the model as written, for the oracle
  for (int i = 0; i < c->graph->nnodes; i++) shape_infer(c, c->graph->nodes[i]);
  find_fixed(c->graph);
  if (c->nentries > 1 || c->graph->nupdates) c->graph = graph_split(c->graph);
  c->original = c->graph;
  graph_count_uses(c->original);
  for (int i = 0; i < c->graph->nnodes; i++) c->graph->nodes[i]->written = c->graph->nodes[i];
  c->graph = graph_copy(c->graph);
}

const Pass compile_passes[] = {
    {"front", front_stage, 0, 0, 0},
    {"shape", shape_stage, 0, HasTypes, 0},
    {"simp", simp_pass, HasTypes, 0, 0},
    {"prec", prec_pass, HasTypes, HasDtypes, 0},
    {"recompute", recompute_pass, HasTypes | HasDtypes, HasDtypes, 0},
    {"layout", layout_pass, HasTypes | HasDtypes, HasOrders, 0},
    {"fuse", fuse_pass, HasDtypes | HasOrders, HasGroups, 0},
    {"sched", sched_pass, HasGroups, HasTiles, 0},
    {"order", launch_order_pass, HasTiles, HasOrderedLaunches, 0},
    {"emit", emit_pass, HasOrderedLaunches, HasSources, 0},
    {NULL, NULL, 0, 0, 0},
};

// The model's name as a C identifier: file name without folder and extension.
static const char *model_name(Compiler *c, const char *path) {
  const char *slash = strrchr(path, '/');
  char *name = arena_dup(c->arena, slash ? slash + 1 : path);
  char *dot = strrchr(name, '.');
  if (dot && dot != name) *dot = 0;
  for (char *s = name; *s; s++)
    if (!isalnum((unsigned char)*s)) *s = '_';
  return isdigit((unsigned char)*name) ? arena_printf(c->arena, "m%s", name) : name;
}

static void run_passes(Compiler *c) {
  unsigned facts = 0;
  for (const Pass *p = compile_passes; p->name; p++) {
    if ((facts & p->needs) != p->needs) die("pass %s lacks facts %x", p->name, p->needs & ~facts);
    p->run(c);
    facts = (facts & ~p->breaks) | p->gives;
    if (facts & HasTypes) graph_verify(c->graph, facts & HasGroups);
    if (c->options.stage && !strcmp(c->options.stage, p->name)) return;
  }
}

static void too_large(void *user) {
  Compiler *c = user;
  long long most = arena_most >> 20;
  if (c->error->code) return;
  c->error->code = ExitUsage; // set first: err_at below may allocate and get here again
  Loc at = front_here(c->lua);
  if (at.file) // the model file is still running
    err_at(c, at, "the model is too large here: it needs more than %lld MB", most);
  err_code(c, ExitUsage, "%s: the model is too large: compiling it needs more than %lld MB",
           c->options.model, most);
}

static int compile_once(Compiler *c, const Options *options, Error *err) {
  *c = (Compiler){.options = *options, .error = err, .templates = compile_templates};
  err->code = ExitOk;
  c->arena = arena_new(too_large, c);
  c->graph = graph_new(c, "model");
  c->entries = arena_grow(c->arena, NULL, 0, sizeof *c->entries);
  c->entries[c->nentries++] = "infer";
  if (setjmp(c->recover)) return err->code;
  c->graph->model = model_name(c, options->model);
  front_open(c);
  run_passes(c);
  return ExitOk;
}

static int64_t arena_bytes(Compiler *c) {
  Plan *plan = plan_build(c);
  int64_t bytes = (int64_t)plan->arena_bytes;
  plan_free(plan);
  return bytes;
}

static int too_much(const Options *o, int64_t least, Error *err) {
  return err_set(
      err, ExitUsage,
      "%s: the values between its kernels need at least %lld bytes, but --memory is %lld; a "
      "smaller batch needs less",
      o->model, (long long)least, (long long)o->memory);
}

// Finds the lowest recomputation level whose arena fits o->memory. `all`: the level with the
// smallest arena, which may not be the last, since recomputed values need memory too.
static int compile_within(Compiler *c, Options *o, bool more, bool all, Error *err) {
  int code = compile_once(c, o, err), best = o->level;
  if (code) return code;
  int64_t bytes = arena_bytes(c), least = bytes;
  for (o->again = true; (all || bytes > o->memory) && more && o->level < kMostAgain;) {
    compile_close(c);
    o->level++;
    if ((code = compile_once(c, o, err))) return code;
    bytes = arena_bytes(c);
    if (bytes < least) least = bytes, best = o->level;
  }
  if (o->memory && least > o->memory) return too_much(o, least, err);
  if (!all) return ExitOk;
  compile_close(c);
  o->level = best;
  return compile_once(c, o, err);
}

int compile_model(Compiler *c, const Options *options, Error *err) {
  bool all = options->recompute && !strcmp(options->recompute, "all"),
       none = options->recompute && !strcmp(options->recompute, "none");
  Options o = *options;
  if (!o.memory && !all) return compile_once(c, &o, err);
  o.stage = NULL; // the whole plan is needed to know the arena size
  int code = compile_within(c, &o, !none, all, err);
  if (code || !options->stage) return code;
  compile_close(c);
  o.stage = options->stage;
  return compile_once(c, &o, err);
}

int compile_guard(Compiler *c, int (*f)(void *user, Error *err), void *user, Error *err) {
  c->error = err;
  c->in_lua = false;
  if (setjmp(c->recover)) return err->code;
  return f(user, err);
}

void compile_close(Compiler *c) {
  if (c->lua) lua_close(c->lua);
  arena_free(c->arena);
  *c = (Compiler){0};
}
