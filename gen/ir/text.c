// text.c: prints and parses the IR. One line per node, then one per output and update:
//   %7 = conv2d(%5, %6) {stride=2,2 pad=3,3,3,3} : f16(1,64,112,112)<0,2,3,1> "conv1" call=2 at
//   resnet.lua:33
// A # starts a comment. If the model declares ops, a line `rows "models/mine.lua"` before the nodes
// names the file.
#include "ir.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

// ---- writing ----------------------------------------------------------------------------------

static int field_count(const AttrField *f, const Node *n) {
  if (f->count >= 0) return f->count;
  return n->op->form == MoveReshape ? n->type.rank : n->nin ? n->in[0]->type.rank : n->type.rank;
}

static void write_attrs(const Node *n, FILE *file) {
  const char *gap = " {";
  for (int i = 0; i < attr_nfields; i++) {
    if (!(n->op->attrs >> i & 1)) continue;
    const AttrField *f = &attr_fields[i];
    const char *at = (const char *)&n->attr + f->offset;
    if (f->optional && !*(const int64_t *)at) continue;
    fprintf(file, "%s%s=", gap, f->name);
    for (int j = 0; j < field_count(f, n); j++)
      if (f->real)
        fprintf(file, j ? ",%.17g" : "%.17g", ((const double *)at)[j]);
      else
        fprintf(file, j ? ",%lld" : "%lld", (long long)((const int64_t *)at)[j]);
    gap = " ";
  }
  if (*gap == ' ' && !gap[1]) fputs("}", file);
}

static void write_type(const Type *t, FILE *file) {
  fprintf(file, " : %s(", dtype_name(t->dtype));
  for (int d = 0; d < t->rank; d++) fprintf(file, d ? ",%lld" : "%lld", (long long)t->dim[d]);
  fputs(")<", file);
  for (int d = 0; d < t->rank; d++) fprintf(file, d ? ",%d" : "%d", t->order[d]);
  fputs(">", file);
}

// `asked`: precision of the whole model, printed only where a node differs.
static void write_node(const Node *n, Precision asked, FILE *file) {
  fprintf(file, "%%%d = %s(", n->id, n->op->name);
  for (int i = 0; i < n->nin; i++) fprintf(file, i ? ", %%%d" : "%%%d", n->in[i]->id);
  fputs(")", file);
  write_attrs(n, file);
  write_type(&n->type, file);
  fprintf(file, " \"%s\" call=%d", n->name ? n->name : "", n->call);
  if (n->precision != asked) fprintf(file, " precision=%s", precision_name(n->precision));
  if (n->loc.file) fprintf(file, " at %s:%d", n->loc.file, n->loc.line);
  fputs("\n", file);
}

// " entry=train", or "" for infer.
static const char *entry_text(const Graph *g, int entry) {
  return entry ? arena_printf(g->arena, " entry=%s", g->c->entries[entry]) : "";
}

static bool has_rows(const Graph *g) {
  bool any = false;
  for (int i = 0; i < g->nnodes; i++) any = any || g->nodes[i]->op->user;
  return any;
}

void text_write(const Graph *g, FILE *file) {
  fprintf(file, "graph %s\n", g->model);
  if (has_rows(g)) fprintf(file, "rows \"%s\"\n", g->c->rows ? g->c->rows : g->c->options.model);
  Precision asked = PrecFp32;
  precision_parse(g->c->options.dtype, &asked);
  for (int i = 0; i < g->nnodes; i++) write_node(g->nodes[i], asked, file);
  for (int i = 0; i < g->noutputs; i++) {
    const Output *o = &g->outputs[i];
    fprintf(file, "output \"%s\" %%%d", o->name, o->node->id);
    bool said = dtype_is_float(o->dtype) && o->dtype != DtF32;
    if (said) fprintf(file, " as %s", dtype_name(o->dtype));
    fprintf(file, "%s\n", entry_text(g, o->entry));
  }
  for (int i = 0; i < g->nupdates; i++)
    fprintf(file, "update %%%d %%%d%s\n", g->updates[i].state->id, g->updates[i].value->id,
            entry_text(g, g->updates[i].entry));
}

// ---- reading ----------------------------------------------------------------------------------

typedef struct Reader {
  Compiler *c;
  const char *at;
  int line;
} Reader;

static void bad(Reader *r, const char *what) {
  err_code(r->c, ExitBadInput, "IR text, line %d: expected %s at '%.24s'", r->line, what, r->at);
}

static void skip(Reader *r) {
  while (*r->at == ' ') r->at++;
}

static bool take(Reader *r, const char *word) {
  skip(r);
  size_t n = strlen(word);
  if (strncmp(r->at, word, n)) return false;
  r->at += n;
  return true;
}

static void want(Reader *r, const char *word) {
  if (!take(r, word)) bad(r, word);
}

static int64_t number(Reader *r) {
  char *end;
  skip(r);
  long long v = strtoll(r->at, &end, 10);
  if (end == r->at) bad(r, "a number");
  r->at = end;
  return v;
}

static double real(Reader *r) {
  char *end;
  double v = strtod(r->at, &end);
  if (end == r->at) bad(r, "a number");
  r->at = end;
  return v;
}

// text up to one of the characters in `stop`
static const char *span_of(Reader *r, const char *stop) {
  size_t n = strcspn(r->at, stop);
  char *text = arena_printf(r->c->arena, "%.*s", (int)n, r->at);
  r->at += n;
  return text;
}

static const char *quoted(Reader *r) {
  want(r, "\"");
  const char *text = span_of(r, "\"\n");
  want(r, "\"");
  return text;
}

static Node *read_ref(Reader *r, Graph *g) {
  want(r, "%");
  int64_t id = number(r);
  if (id < 0 || id >= g->nnodes) bad(r, "an earlier node");
  return g->nodes[id];
}

static void read_attrs(Reader *r, const Op *op, Attr *attr) {
  if (!take(r, "{")) return;
  while (!take(r, "}")) {
    const char *name = span_of(r, "= }\n");
    int i = 0;
    while (i < attr_nfields && strcmp(name, attr_fields[i].name)) i++;
    if (i == attr_nfields || !(op->attrs >> i & 1)) bad(r, "an attribute of the op");
    const AttrField *f = &attr_fields[i];
    want(r, "=");
    for (int j = 0; j < (f->count < 0 ? MaxRank : f->count); j++) {
      char *to = (char *)attr + f->offset;
      if (*r->at == ' ' || *r->at == '}') break;
      if (f->real)
        ((double *)to)[j] = real(r);
      else
        ((int64_t *)to)[j] = number(r);
      if (*r->at != ',') break;
      r->at++;
    }
  }
}

static Type read_type(Reader *r) {
  Type t = {0};
  want(r, ":");
  skip(r);
  if (!dtype_parse(span_of(r, "(\n"), &t.dtype)) bad(r, "a dtype");
  want(r, "(");
  while (!take(r, ")")) {
    if (t.rank == MaxRank) bad(r, "at most 8 dimensions");
    t.dim[t.rank++] = number(r);
    take(r, ",");
  }
  want(r, "<");
  for (int d = 0; d < t.rank; d++) {
    int64_t from = number(r);
    if (from < 0 || from >= t.rank) bad(r, "a dimension");
    t.order[d] = (uint8_t)from;
    take(r, ",");
  }
  want(r, ">");
  return t;
}

static void read_node(Reader *r, Graph *g) {
  if (number(r) != g->nnodes) bad(r, "node numbers in order");
  want(r, "=");
  skip(r);
  const Op *op = op_find(r->c, span_of(r, "( \n"));
  if (!op) bad(r, "the name of an op");
  Node **in = NULL;
  int nin = 0;
  want(r, "(");
  while (!take(r, ")")) {
    in = arena_grow(g->arena, in, nin, sizeof *in);
    in[nin++] = read_ref(r, g);
    take(r, ",");
  }
  if (op->nin >= 0 && nin != op->nin) bad(r, "the number of inputs of the op");
  Attr attr = {.stride = {1, 1}, .dilation = {1, 1}, .groups = 1};
  read_attrs(r, op, &attr);
  Type t = read_type(r);
  Node *n = graph_add(g, op, nin, in, &attr, NULL);
  n->type = t;
  n->name = quoted(r);
  want(r, "call=");
  n->call = (int)number(r);
  const char *precision = take(r, "precision=") ? span_of(r, " \n") : r->c->options.dtype;
  if (!precision_parse(precision, &n->precision)) bad(r, "fp32, tf32, fp16 or bf16");
  if (take(r, "at ")) {
    n->loc.file = span_of(r, ":\n");
    want(r, ":");
    n->loc.line = (int)number(r);
  }
}

// Parses " entry=train" after an output or update; its node is computed in that entry.
static int read_entry(Reader *r, Node *n) {
  Compiler *c = r->c;
  const char *name = take(r, "entry=") ? span_of(r, " \n") : "infer";
  int entry = 0;
  while (entry < c->nentries && strcmp(c->entries[entry], name)) entry++;
  if (entry == c->nentries) {
    c->entries = arena_grow(c->arena, c->entries, c->nentries, sizeof *c->entries);
    c->entries[c->nentries++] = name;
  }
  if (n->op->cls != OpSource) n->entry = entry;
  return entry;
}

const char *text_rows(Compiler *c, const char *text) {
  Reader r = {c, text, 1};
  for (; *r.at; r.line++) {
    if (take(&r, "rows ")) return quoted(&r);
    r.at += strcspn(r.at, "\n");
    if (*r.at) r.at++;
  }
  return NULL;
}

Graph *text_read(Compiler *c, const char *text) {
  Reader r = {c, text, 1};
  want(&r, "graph ");
  Graph *g = graph_new(c, span_of(&r, "\n"));
  for (; *r.at; r.line++) {
    r.at += strcspn(r.at, "\n");
    if (*r.at) r.at++;
    if (take(&r, "%"))
      read_node(&r, g);
    else if (take(&r, "output ")) {
      const char *name = quoted(&r);
      Node *n = read_ref(&r, g);
      Dtype dtype = dtype_is_float(n->type.dtype) ? DtF32 : n->type.dtype;
      if (take(&r, "as ") &&
          (!dtype_parse(span_of(&r, " \n"), &dtype) || !dtype_is_float(dtype) ||
           !dtype_is_float(n->type.dtype)))
        bad(&r, "a float dtype, for a float output");
      graph_output(g, (Output){name, n, dtype, {0}, read_entry(&r, n)});
    } else if (take(&r, "update ")) {
      Node *state = read_ref(&r, g), *value = read_ref(&r, g);
      bool copy = state->op->cls != OpSource; // copy of a parameter
      state->updated = !copy;
      state->follows = copy;
      graph_update(g, state, value, (Loc){0}, read_entry(&r, value));
    }
  }
  graph_count_uses(g);
  return g;
}
