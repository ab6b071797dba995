// span.c: interval arithmetic over the maps of a score: their range over a tile of rows and keys
// (lib/span.cuh does the same in kernels, with the tensors' values).
#include "sched.h"

#include <math.h>

enum { kMostWork = 4000 }; // nodes visited per query

static const double kMost = 1e300; // finite, but unknown

Span span_any(void) {
  return (Span){-kMost, kMost};
}

bool span_is_open(Span s) {
  enum { kLarge = 1000000000 }; // beyond its square nothing is assumed
  return s.lo < -(double)kLarge * kLarge && s.hi > (double)kLarge * kLarge;
}

static Span bounds(double lo, double hi) { // inf - inf: no information
  return isnan(lo) || isnan(hi) ? span_any() : (Span){lo, hi};
}

static Span of_four(double p, double q, double r, double s) {
  if (isnan(p) || isnan(q) || isnan(r) || isnan(s)) return span_any();
  return (Span){fmin(fmin(p, q), fmin(r, s)), fmax(fmax(p, q), fmax(r, s))};
}

static Span truth(bool surely, bool maybe) {
  return (Span){surely, maybe};
}

bool span_true(Span s) {
  return s.lo > 0 || s.hi < 0;
}
bool span_false(Span s) {
  return s.lo == 0 && s.hi == 0;
}

static Span mod(Span a, Span b) {
  double most = fmax(fabs(b.lo), fabs(b.hi));
  if (b.lo != b.hi || b.lo == 0) return bounds(-most, most);
  double first = floor(a.lo / b.lo);
  if (first == floor(a.hi / b.lo)) return bounds(a.lo - first * b.lo, a.hi - first * b.lo);
  return (Span){fmin(b.lo, 0), fmax(b.lo, 0)};
}

static Span compute(Code code, Span a, Span b, Span c) {
  switch (code) {
  case CodeAdd:
    return bounds(a.lo + b.lo, a.hi + b.hi);
  case CodeSub:
    return bounds(a.lo - b.hi, a.hi - b.lo);
  case CodeMul:
    return of_four(a.lo * b.lo, a.lo * b.hi, a.hi * b.lo, a.hi * b.hi);
  case CodeDiv:
    if (b.lo <= 0 && b.hi >= 0) return span_any();
    return of_four(a.lo / b.lo, a.lo / b.hi, a.hi / b.lo, a.hi / b.hi);
  case CodeMod:
    return mod(a, b);
  case CodeNeg:
    return (Span){-a.hi, -a.lo};
  case CodeCopy:
    return a;
  case CodeFloor:
    return (Span){floor(a.lo), floor(a.hi)};
  case CodeAbs:
    return (Span){a.lo > 0 ? a.lo : a.hi < 0 ? -a.hi : 0, fmax(-a.lo, a.hi)};
  case CodeMax:
    return (Span){fmax(a.lo, b.lo), fmax(a.hi, b.hi)};
  case CodeMin:
    return (Span){fmin(a.lo, b.lo), fmin(a.hi, b.hi)};
  case CodeLt:
    return truth(a.hi < b.lo, a.lo < b.hi);
  case CodeLe:
    return truth(a.hi <= b.lo, a.lo <= b.hi);
  case CodeEq:
    return truth(a.lo == a.hi && b.lo == b.hi && a.lo == b.lo, a.lo <= b.hi && b.lo <= a.hi);
  case CodeWhere:
    if (span_true(a)) return b;
    if (span_false(a)) return c;
    return (Span){fmin(b.lo, c.lo), fmax(b.hi, c.hi)};
  default:
    return span_any();
  }
}

bool span_has_code(Code code) {
  switch (code) {
  case CodePow:
  case CodeExp:
  case CodeLog:
  case CodeSqrt:
  case CodeSin:
  case CodeCos:
  case CodeTanh:
  case CodeErf:
  case CodeErfc:
  case CodeLog1p:
  case CodeExpm1:
  case CodeAtan:
  case CodeAtan2:
    return false;
  default:
    return true;
  }
}

bool span_rounds(Code code) {
  return code == CodeAdd || code == CodeSub || code == CodeMul || code == CodeDiv ||
         code == CodeMod;
}

static bool is_whole(Span s) {
  enum { kExact = 1 << 24 }; // floats represent all integers up to here
  return s.lo == floor(s.lo) && s.hi == floor(s.hi) && s.lo >= -kExact && s.hi <= kExact;
}

// The exact range s as computed in floats: integers beyond float precision are rounded.
static Span near(Span s, Span a, Span b) {
  const double share = 0x1p-21; // relative error of some roundings
  if (is_whole(s) && is_whole(a) && is_whole(b)) return s;
  if (!isinf(s.lo)) s.lo -= fabs(s.lo) * share;
  if (!isinf(s.hi)) s.hi += fabs(s.hi) * share;
  return s;
}

bool span_of_floats(const Node *n) {
  bool floats = dtype_is_float(n->type.dtype);
  for (int i = 0; i < n->nin; i++) floats = floats || dtype_is_float(n->in[i]->type.dtype);
  return floats;
}

double span_number(double value, bool floats) {
  return floats ? (double)(float)value : value;
}

Span span_run(const Program *p, const Span *in, bool floats) {
  Span value[kMostCodes + MaxInputs];
  for (int i = 0; i < p->nin; i++) value[i] = in[i];
  for (int i = 0; i < p->nsteps; i++) {
    const Step *s = &p->steps[i];
    Span *to = &value[p->nin + i];
    double number = span_number(s->value, floats);
    if (s->code == CodeConst)
      *to = (Span){number, number};
    else
      *to = compute(s->code, value[s->in[0]], value[s->in[1]], value[s->in[2]]);
    if (floats && span_rounds(s->code)) *to = near(*to, value[s->in[0]], value[s->in[1]]);
  }
  return value[p->nin + p->nsteps - 1];
}

bool span_holds(Dtype to, double *least, double *most) {
  bool byte = to == DtU8, whole = byte || type_compute(to) == DtI32;
  *least = byte ? 0 : INT32_MIN, *most = byte ? 255 : INT32_MAX;
  return whole && to != DtBool;
}

Span span_converted(Dtype from, Dtype to, Span s) {
  double least, most;
  if (from == to) return s;
  if (to == DtBool) return truth(span_true(s), !span_false(s));
  if (to == DtF32) return near(s, s, s);
  if (!span_holds(to, &least, &most)) return span_any(); // 16-bit floats round integers
  Span cut = {trunc(s.lo), trunc(s.hi)};
  return cut.lo >= least && cut.hi <= most ? cut : (Span){least, most};
}

bool span_follow(const Node *move, int *from) {
  const Type *in = &move->in[0]->type, *out = &move->type;
  if (move->op->cls != OpMove || move->nin != 1) return false;
  if (move->op->form == MoveSlice)
    for (int d = 0; d < in->rank; d++) from[d] = d;
  if (move->op->form == MovePermute)
    for (int d = 0; d < in->rank; d++) from[move->attr.dims[d]] = d;
  if (move->op->form != MoveReshape) return move->op->form <= MoveSlice;
  int o = 0; // dimensions other than those of size 1 must match
  for (int d = 0; d < in->rank; d++) {
    from[d] = -1;
    if (in->dim[d] == 1) continue;
    while (o < out->rank && out->dim[o] == 1) o++;
    if (o == out->rank || out->dim[o] != in->dim[d]) return false;
    from[d] = o++;
  }
  return true;
}

// A stored value: its dtype or the size of a table bounds it.
static Span in_memory(const Node *n) {
  if (n->type.dtype == DtBool) return (Span){0, 1};
  if (n->type.dtype == DtU8) return (Span){0, 255};
  if (n->op->cls == OpSource && n->op->form == SourceInput && n->attr.below)
    return (Span){0, (double)n->attr.below - 1};
  return span_any();
}

typedef struct Walk {
  const Group *g;
  int work;
  bool wraps; // the last map computed may overflow
} Walk;

static Span span_at(Walk *w, const Node *n, const Span *at);

// Source range of a roll: one piece, or everything if it wraps around.
static Span rolled_back(const Node *n, int d, Span at) {
  double size = (double)n->type.dim[d], by = (double)n->attr.dims[d];
  if (at.lo >= by) return (Span){at.lo - by, at.hi - by};
  if (at.hi < by) return (Span){at.lo - by + size, at.hi - by + size};
  return (Span){0, size - 1};
}

static Span of_move(Walk *w, const Node *n, const Span *at) {
  Span in[MaxRank];
  int from[MaxRank];
  if (n->op->form == MoveRoll) {
    for (int d = 0; d < n->type.rank; d++) in[d] = rolled_back(n, d, at[d]);
    return span_at(w, n->in[0], in);
  }
  if (!span_follow(n, from)) return in_memory(n);
  for (int d = 0; d < n->in[0]->type.rank; d++) {
    double shift = n->op->form == MoveSlice ? (double)n->attr.dims[d] : 0;
    in[d] = from[d] < 0 ? (Span){0, 0} : (Span){at[from[d]].lo + shift, at[from[d]].hi + shift};
  }
  return span_at(w, n->in[0], in);
}

static Span of_map(Walk *w, const Node *n, const Span *at) {
  Span in[MaxInputs];
  const Traced *k = program_of(n->group->graph->c, n->op);
  if (!k->ok || ++w->work > kMostWork) return in_memory(n);
  for (int i = 0; i < n->nin; i++) {
    const Type *t = &n->in[i]->type;
    Span of[MaxRank];
    for (int d = 0; d < t->rank; d++)
      of[d] = t->dim[d] == 1 ? (Span){0, 0} : at[d + n->type.rank - t->rank];
    in[i] = span_at(w, n->in[i], of);
  }
  Span s = span_run(&k->program, in, span_of_floats(n));
  bool converts = n->op->typing == TypeConvert;
  bool whole = type_compute(n->type.dtype) == DtI32;
  w->wraps = whole && !(s.lo >= INT32_MIN && s.hi <= INT32_MAX);
  if (w->wraps) return in_memory(n);
  return converts ? span_converted(n->in[0]->type.dtype, (Dtype)n->attr.dtype, s) : s;
}

static Span span_at(Walk *w, const Node *n, const Span *at) {
  if (n->op->cls == OpSource && n->op->form == SourceConst) {
    double value = span_number(n->attr.value, span_of_floats(n));
    return (Span){value, value};
  }
  if (n->op->cls == OpSource && n->op->form == SourceIndex) return at[n->attr.axis];
  if (n->group != w->g) return in_memory(n);
  return n->op->cls == OpMap    ? of_map(w, n, at)
         : n->op->cls == OpMove ? of_move(w, n, at)
                                : span_any();
}

Span span_of(const Group *g, const Node *n, const Span *at) {
  Walk w = {.g = g};
  return span_at(&w, n, at);
}

bool span_wraps(const Group *g, const Node *n) {
  if (type_compute(n->type.dtype) != DtI32) return false;
  Walk w = {.g = g, .wraps = true};
  Span at[MaxRank];
  for (int d = 0; d < n->type.rank; d++) at[d] = (Span){0, (double)n->type.dim[d] - 1};
  of_map(&w, n, at);
  return w.wraps;
}
