// emit_monoid.c: accumulators as CUDA text: a struct per monoid, and a struct of all accumulators
// of one sweep, each with clear(), combine() and, if shorter and elements come in order, append().
// Runs have structs too, with clear(), combine(), add_to_run() and whole().
#include "emit.h"

#include <ctype.h>
#include <string.h>

static const char *capital(Arena *arena, const char *word) {
  char *copy = arena_dup(arena, word);
  *copy = (char)toupper((unsigned char)*copy);
  return copy;
}

static void begin_join(Buffer *b, const char *function, const char *type) {
  buffer_put(b, "__device__ inline %s %s(const %s &a, const %s &b) {\n%s both;\n", type, function,
             type, type, type);
}

static bool appends(const Monoid *m) {
  for (int i = 0; i < m->count; i++)
    if (m->part[i].append) return true;
  return false;
}

static void put_join(Buffer *b, const char *type, const Monoid *m, bool behind) {
  begin_join(b, behind ? "append" : "combine", type);
  for (int i = 0; i < m->count; i++) {
    const Accumulator *a = &m->part[i];
    buffer_put(b, "both.%s = %s;\n", a->name, behind && a->append ? a->append : a->combine);
  }
  buffer_put(b, "return both;\n}\n");
}

static void put_struct(Buffer *b, const char *name, const Monoid *m, bool ordered) {
  buffer_put(b, "struct %s {\n", name);
  for (int i = 0; i < m->count; i++) buffer_put(b, "%s %s;\n", m->part[i].type, m->part[i].name);
  buffer_put(b, "};\n__device__ inline void clear(%s &a) {\n", name);
  for (int i = 0; i < m->count; i++)
    buffer_put(b, "a.%s = %s;\n", m->part[i].name, m->part[i].init);
  buffer_put(b, "}\n");
  put_join(b, name, m, false);
  if (ordered && appends(m)) put_join(b, name, m, true);
}

// Writes `text` with $1 and $i replaced.
static void put_element(Buffer *b, const char *text, const char *value, const char *place) {
  for (const char *s = text; *s; s++) {
    if (*s == '$')
      buffer_put(b, "%s", *++s == 'i' ? place : value);
    else
      buffer_put(b, "%c", *s);
  }
}

// The struct of a monoid's runs, which form a monoid too.
static void put_run_struct(Buffer *b, const char *run, const char *state, const Monoid *m) {
  Monoid runs = {.count = m->count};
  for (int i = 0; i < m->count; i++)
    runs.part[i] = (Accumulator){
        .name = m->part[i].run, .type = "float", .init = "0.f", .combine = m->part[i].join};
  put_struct(b, run, &runs, false);
  buffer_put(b, "__device__ inline %s whole(const %s &a) {\n%s both;\n", state, run, state);
  for (int i = 0; i < m->count; i++)
    buffer_put(b, "both.%s = %s;\n", m->part[i].name, m->part[i].whole);
  buffer_put(b, "return both;\n}\n");
}

// add_to_run(); without a cheaper scheme a run is the accumulator itself.
static void put_add(Buffer *b, const char *run, const Monoid *m) {
  bool own = m->part[0].run;
  const char *type = own ? "float" : m->part[0].type; // integers: the accumulator's type
  buffer_put(b, "__device__ inline void add_to_run(%s &a, %s value) {\n%s both;\n", run, type, run);
  for (int i = 0; i < m->count; i++) {
    const Accumulator *a = &m->part[i];
    buffer_put(b, "both.%s = ", own ? a->run : a->name);
    put_element(b, own ? a->add : a->element, "value", "0");
    buffer_put(b, ";\n");
  }
  buffer_put(b, own ? "a = both;\n}\n" : "a = combine(a, both);\n}\n");
}

Member *states_member(States *s, const Node *reduction) {
  const Monoid *m = op_monoid(reduction);
  for (int i = 0; i < s->count; i++)
    if (s->member[i].value == reduction->in[0] && monoid_same(s->member[i].monoid, m))
      return &s->member[i];
  return NULL;
}

void states_add(States *s, const Node *reduction) {
  if (states_member(s, reduction)) return;
  Arena *arena = s->group->graph->arena;
  s->member = arena_grow(arena, s->member, s->count, sizeof *s->member);
  Member *m = &s->member[s->count++];
  *m = (Member){.monoid = op_monoid(reduction), .value = reduction->in[0]};
  m->name = expr_name(s->group, m->monoid->name);
}

// With a single member the state is that member's struct.
const char *states_path(const States *s, const Member *m, const char *state) {
  return s->count == 1 ? state
                       : arena_printf(s->group->graph->arena, "%s.%s", state, m->name);
}

bool states_have_runs(const States *s) {
  bool found = false;
  for (int i = 0; i < s->count; i++) {
    if (monoid_wants_places(s->member[i].monoid)) return false;
    found = found || s->member[i].monoid->part[0].run;
  }
  return found;
}

// combine() of a state of several members.
static void put_member_joins(const States *s, const char *type, Buffer *b, const char *function) {
  begin_join(b, function, type);
  for (int i = 0; i < s->count; i++)
    buffer_put(b, "both.%s = %s(a.%s, b.%s);\n", s->member[i].name, function, s->member[i].name,
               s->member[i].name);
  buffer_put(b, "return both;\n}\n");
}

// The struct of several members, or of their runs.
static void put_members(const States *s, const char *name, Buffer *b) {
  buffer_put(b, "struct %s {\n", name);
  for (int i = 0; i < s->count; i++)
    buffer_put(b, "%s %s;\n", name == s->type ? s->member[i].type : s->member[i].run,
               s->member[i].name);
  buffer_put(b, "};\n__device__ inline void clear(%s &a) {\n", name);
  for (int i = 0; i < s->count; i++) buffer_put(b, "clear(a.%s);\n", s->member[i].name);
  buffer_put(b, "}\n");
  put_member_joins(s, name, b, "combine");
}

static void put_state(const States *s, Buffer *b) {
  if (s->count == 1) {
    buffer_put(b, "using %s = %s;\n", s->type, s->member[0].type);
    return;
  }
  put_members(s, s->type, b);
  for (int i = 0; i < s->count && s->ordered; i++)
    if (appends(s->member[i].monoid)) return put_member_joins(s, s->type, b, "append");
}

// The run of all members together.
static void put_run(const States *s, Buffer *b) {
  if (s->count == 1) {
    buffer_put(b, "using %s = %s;\n", s->run, s->member[0].run);
    return;
  }
  put_members(s, s->run, b);
  buffer_put(b, "__device__ inline %s whole(const %s &a) {\n%s both;\n", s->type, s->run, s->type);
  for (int i = 0; i < s->count; i++)
    buffer_put(b, s->member[i].monoid->part[0].run ? "both.%s = whole(a.%s);\n"
                                                   : "both.%s = a.%s;\n",
               s->member[i].name, s->member[i].name);
  buffer_put(b, "return both;\n}\n");
}

// Names of a kernel's monoids, shared by all sweeps.
typedef struct Known {
  const Monoid *monoid;
  const char *type, *run;
} Known;

static Known *find_known(Known *known, int count, const Monoid *m) {
  for (int i = 0; i < count; i++)
    if (monoid_same(known[i].monoid, m)) return &known[i];
  return NULL;
}

static void name_run(const Group *g, Known *k, Buffer *b) {
  bool own = k->monoid->part[0].run;
  k->run = own ? expr_name(g, arena_printf(g->graph->arena, "%sRun", k->type)) : k->type;
  if (own) put_run_struct(b, k->run, k->type, k->monoid);
  put_add(b, k->run, k->monoid);
}

void states_put(States *sweeps, int count, Buffer *b) {
  const Group *g = sweeps->group;
  Known *known = NULL;
  int nknown = 0;
  for (int i = 0; i < count; i++)
    for (int j = 0; j < sweeps[i].count; j++) {
      Member *m = &sweeps[i].member[j];
      if (!find_known(known, nknown, m->monoid)) {
        const char *type = expr_name(g, capital(g->graph->arena, m->monoid->name));
        put_struct(b, type, m->monoid, sweeps[i].ordered);
        known = arena_grow(g->graph->arena, known, nknown, sizeof *known);
        known[nknown++] = (Known){m->monoid, type, NULL};
      }
      m->type = find_known(known, nknown, m->monoid)->type;
    }
  for (int i = 0; i < count; i++)
    if (sweeps[i].count) put_state(&sweeps[i], b);
  for (int i = 0; i < count; i++) {
    for (int j = 0; j < sweeps[i].count && sweeps[i].run; j++) {
      Known *k = find_known(known, nknown, sweeps[i].member[j].monoid);
      if (!k->run) name_run(g, k, b);
      sweeps[i].member[j].run = k->run;
    }
    if (sweeps[i].count && sweeps[i].run) put_run(&sweeps[i], b);
  }
}

// Writes `text` with `by` instead of the word `a` before a dot.
static void put_renamed(Buffer *b, const char *text, const char *by) {
  for (const char *s = text; *s; s++) {
    bool begins = s == text || !(isalnum((unsigned char)s[-1]) || s[-1] == '_' || s[-1] == '.');
    if (begins && s[0] == 'a' && s[1] == '.')
      buffer_put(b, "%s", by);
    else
      buffer_put(b, "%c", *s);
  }
}

const char *states_result(States *s, const Node *reduction, const char *state) {
  Arena *arena = s->group->graph->arena;
  const Member *m = states_member(s, reduction);
  return monoid_result(arena, reduction, states_path(s, m, state));
}

const char *monoid_result(Arena *arena, const Node *reduction, const char *state) {
  Buffer b = {0};
  put_renamed(&b, reduction->op->result, state);
  return buffer_take(&b, arena);
}

void states_element(const States *s, const Member *m, const char *state, const char *value,
                    const char *place, Buffer *b) {
  const char *path = states_path(s, m, state);
  for (int i = 0; i < m->monoid->count; i++) {
    buffer_put(b, "%s.%s = ", path, m->monoid->part[i].name);
    put_element(b, m->monoid->part[i].element, value, place);
    buffer_put(b, ";\n");
  }
}

void states_add_element(const States *s, const Member *m, const char *run, const char *value,
                        Buffer *b) {
  buffer_put(b, "add_to_run(%s, %s);\n", states_path(s, m, run), value);
}
