// sectors.c: the 32-byte sectors that a kernel's accesses touch beyond the bytes it needs: reads of
// an input that was transposed, sliced along its innermost dimension, or is stored in another order
// than the kernel's elements.
//
// Method: the moves between each access and the kernel's elements are listed once (Path). If
// neighbouring elements are neighbours along every path, nothing is added. Otherwise the addresses
// of one block, in the middle, are enumerated. Rules, for memory that this model does not simulate:
// - A request of a warp moves whole sectors between L1 and registers, 128 bytes per clock.
// - L1 holds what the resident blocks of an SM touch, or only what one warp touches if that is
//   more: an SM loads a sector once per block, or once per warp.
// - L2 keeps a sector until the block that uses the rest of it, if what the blocks launched between
//   the two touch fits in half of L2; else DRAM is read, or written, again.
// - A gather reads neighbouring rows: ids are unknown.
#include "sched.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { kMostPaths = 64, kMostLinks = 256, kSector = 32, kArrayBits = 44 };

// A move between the elements of a kernel and a value, entered from input `input`.
typedef struct Link {
  const Node *move;
  int input;
  const struct Link *outer; // nearer to the elements, or NULL
} Link;

// An access of the kernel: `of`, at the positions to which the links take an element.
typedef struct Path {
  const Node *of;
  const Type *seen; // shape in which it is indexed
  const Link *link;
  int64_t stride[MaxRank], first; // in elements
  int array;                      // number of the argument
  bool strided;                   // are neighbouring elements apart?
  bool broken;                    // are some elements within a sector's worth?
} Path;

struct Sectors {
  const Group *g;
  Type type; // of the elements
  int count, nlinks;
  Path path[kMostPaths];
  Link link[kMostLinks];
};

// ---- paths -------------------------------------------------------------------------------------

static int input_number(const Group *g, const Node *n) {
  int i = 0;
  while (i < g->ninputs && g->inputs[i] != n) i++;
  return i < g->ninputs ? i : -1;
}

static void add_path(Sectors *s, const Node *n, const Type *seen, const Link *link, int array) {
  if (s->count == kMostPaths) return;
  Path *p = &s->path[s->count++];
  *p = (Path){.of = n, .seen = seen, .link = link, .array = array};
  view_memory(n, p->stride, &p->first);
}

static const Link *linked(Sectors *s, const Node *move, int input, const Link *outer) {
  for (int i = 0; i < s->nlinks; i++) {
    const Link *l = &s->link[i];
    if (l->move == move && l->input == input && l->outer == outer) return l;
  }
  if (s->nlinks == kMostLinks) return NULL;
  s->link[s->nlinks] = (Link){move, input, outer};
  return &s->link[s->nlinks++];
}

typedef struct Visit {
  const Node *n;
  const Link *link;
} Visit;

static void visit_once(Visit *list, int *count, const Node *n, const Link *link) {
  for (int i = 0; i < *count; i++)
    if (list[i].n == n && list[i].link == link) return;
  if (*count < kMostLinks) list[(*count)++] = (Visit){n, link};
}

// Lists the reads on which the root depends.
static void find_reads(Sectors *s, const Node *root) {
  Visit list[kMostLinks];
  int count = 0;
  visit_once(list, &count, root, NULL);
  for (int i = 0; i < count; i++) {
    const Node *n = list[i].n;
    const Link *link = list[i].link;
    int array = input_number(s->g, n);
    if (array >= 0) add_path(s, n, &n->type, link, array);
    if (array >= 0 || (n->op->cls != OpMap && n->op->cls != OpMove)) continue;
    for (int j = 0; j < n->nin; j++) {
      const Link *to = n->op->cls == OpMove ? linked(s, n, j, link) : link;
      bool reads = type_count(&n->in[j]->type) > 0 && (to || n->op->cls == OpMap);
      if (reads) visit_once(list, &count, n->in[j], to);
    }
  }
}

// The index of element `at` of a move in its input j; false if that is not read.
static bool follow(const Node *n, int j, const int64_t *at, int64_t *in) {
  const Type *from = &n->in[j]->type, *to = &n->type;
  const int64_t *by = n->attr.dims;
  int64_t axis = n->attr.axis, linear = 0, begin = 0;
  switch (n->op->form) {
  case MoveReshape:
    for (int d = 0; d < to->rank; d++) linear = linear * to->dim[d] + at[d];
    for (int d = from->rank - 1; d >= 0; linear /= from->dim[d--]) in[d] = linear % from->dim[d];
    return true;
  case MovePermute:
    for (int d = 0; d < to->rank; d++) in[by[d]] = at[d];
    return true;
  case MoveConcat:
    for (int i = 0; i < j; i++) begin += n->in[i]->type.dim[axis];
    memcpy(in, at, sizeof *in * (size_t)to->rank);
    in[axis] -= begin;
    return in[axis] >= 0 && in[axis] < from->dim[axis];
  case MoveGather:
  case MoveAlong:
    for (int d = 0; d < from->rank; d++) {
      int of = d;
      if (n->op->form == MoveGather) of += j ? (int)axis : d > axis ? n->in[1]->type.rank - 1 : 0;
      in[d] = of < to->rank ? at[of] % from->dim[d] : 0;
    }
    return true;
  default: // slice, pad, roll
    for (int d = 0; d < to->rank; d++) {
      in[d] = n->op->form == MoveSlice ? at[d] + by[d] : at[d] - by[d];
      if (n->op->form == MoveRoll) in[d] = (in[d] % from->dim[d] + from->dim[d]) % from->dim[d];
      if (in[d] < 0 || in[d] >= from->dim[d]) return false;
    }
    return true;
  }
}

static void broadcast(const Type *from, const Type *to, const int64_t *at, int64_t *out) {
  for (int d = 0; d < to->rank; d++) {
    int of = from->rank - to->rank + d;
    out[d] = to->dim[d] == 1 || of < 0 ? 0 : at[of];
  }
}

// The index behind these links of the element at `at`, and the shape that it indexes.
static bool behind(const Sectors *s, const Link *link, const int64_t *at, int64_t *out,
                   const Type **type) {
  int64_t before[MaxRank], moved[MaxRank];
  *type = &s->type;
  if (!link) memcpy(out, at, sizeof *out * MaxRank);
  if (!link) return true;
  if (!behind(s, link->outer, at, before, type)) return false;
  broadcast(*type, &link->move->type, before, moved);
  *type = &link->move->in[link->input]->type;
  return follow(link->move, link->input, moved, out);
}

// The element of its array that path p accesses for the i-th element in memory order; -1: none.
static int64_t element_of(const Sectors *s, const Path *p, int64_t i) {
  int64_t at[MaxRank] = {0}, moved[MaxRank], in[MaxRank], place = p->first;
  const Type *t = &s->type, *type;
  for (int k = t->rank - 1; k >= 0; i /= t->dim[t->order[k--]])
    at[t->order[k]] = i % t->dim[t->order[k]];
  if (!behind(s, p->link, at, moved, &type)) return -1;
  broadcast(type, p->seen, moved, in);
  for (int d = 0; d < p->seen->rank; d++) place += in[d] * p->stride[d];
  return place;
}

static int64_t size_of(const Path *p) {
  return (int64_t)dtype_size(p->of->type.dtype);
}

// Distance in the array of elements i and i + step; 0: one of them is not accessed.
static int64_t distance(const Sectors *s, const Path *p, int64_t i, int64_t step) {
  int64_t a = element_of(s, p, i), b = element_of(s, p, i + step);
  return a < 0 || b < 0 ? 0 : llabs(b - a);
}

// ---- the accesses of a group -------------------------------------------------------------------

static int64_t middle(const Type *t) { // an element where no lane of a vector crosses a dimension
  int64_t row = sched_innermost(t), count = type_count(t);
  return count / 2 / row * row;
}

static void find_paths(Sectors *s) {
  const Group *g = s->g;
  for (int i = 0; i < g->nnodes; i++) { // reductions visit every element
    const Node *n = g->nodes[i];
    bool reduces = n->op->cls == OpReduce && type_same_shape(&n->in[0]->type, &s->type);
    if (reduces) find_reads(s, n->in[0]);
  }
  for (int i = 0; i < g->noutputs; i++) {
    const Node *n = g->outputs[i], *stored = group_stored(g, n);
    if (!type_same_shape(&stored->type, &s->type)) continue;
    find_reads(s, stored);
    add_path(s, n, &stored->type, NULL, g->ninputs + i);
    if (stored != n && s->count) type_strides(&stored->type, s->path[s->count - 1].stride);
  }
}

Sectors *sectors_of(const Group *g, const Type *elements) {
  if (type_count(elements) < 2) return NULL;
  Sectors *s = base_alloc(1, sizeof *s);
  int64_t at = middle(elements), rest = type_count(elements) - at;
  bool broken = false;
  s->g = g, s->type = *elements;
  find_paths(s);
  for (int i = 0; i < s->count; i++) {
    Path *p = &s->path[i];
    p->strided = rest > 1 && distance(s, p, at, 1) > 1;
    for (int64_t k = 1; k < rest && k < kSector / size_of(p); k++)
      p->broken = p->broken || distance(s, p, at, k) > k;
    broken = broken || p->broken;
  }
  if (broken) return s;
  free(s);
  return NULL;
}

bool sectors_may_fill(const Sectors *s, int64_t columns) {
  int64_t at = middle(&s->type) / columns * columns;
  bool found = false;
  for (int i = 0; i < s->count && columns < type_count(&s->type); i++)
    found = found || (s->path[i].broken && distance(s, &s->path[i], at, columns) == 1);
  return found;
}

// ---- the sectors of a block --------------------------------------------------------------------

typedef struct Touched {
  int64_t *byte; // addresses; the array's number in the highest bits
  int count;
} Touched;

static int by_value(const void *a, const void *b) {
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

// How many runs of `unit` bytes are among the sorted addresses?
static double count_units(const int64_t *byte, int count, int64_t unit) {
  double units = 0;
  for (int i = 0; i < count; i++) units += !i || byte[i] / unit != byte[i - 1] / unit;
  return units;
}

// The element of lane j of a thread; -1: outside.
static int64_t place_of(const Sectors *s, const Spread *x, int64_t block, int thread, int j) {
  int64_t across = ceil_div(x->columns, (int64_t)x->across * x->lanes);
  int64_t row = block / across * x->rows + thread / x->across;
  int64_t column = (block % across * x->across + thread % x->across) * x->lanes + j;
  bool outside = row * x->columns >= type_count(&s->type) || column >= x->columns;
  return outside ? -1 : row * x->columns + column;
}

static int64_t block_of(const Spread *x, int64_t i) {
  int64_t across = ceil_div(x->columns, (int64_t)x->across * x->lanes);
  return i / x->columns / x->rows * across + i % x->columns / ((int64_t)x->across * x->lanes);
}

// Sorts the addresses from `begin` on; returns their sectors in bytes.
static double sector_bytes(Touched *t, int begin) {
  qsort(t->byte + begin, (size_t)(t->count - begin), sizeof *t->byte, by_value);
  return count_units(t->byte + begin, t->count - begin, kSector) * kSector;
}

// Appends what a warp accesses along path p; returns the bytes of its requests' sectors. Elements
// of a thread that are apart are a request each.
static double touch_path(const Sectors *s, const Path *p, const Spread *x, int64_t block, int warp,
                         Touched *to) {
  double bytes = 0;
  int all = to->count;
  for (int j = 0; j < x->lanes; j++) {
    int begin = to->count;
    for (int thread = warp * kWarp; thread < (warp + 1) * kWarp; thread++) {
      int64_t place = thread < x->rows * x->across ? place_of(s, x, block, thread, j) : -1;
      int64_t element = place < 0 ? -1 : element_of(s, p, place);
      if (element >= 0)
        to->byte[to->count++] = (int64_t)p->array << kArrayBits | element * size_of(p);
    }
    if (p->strided) bytes += sector_bytes(to, begin);
  }
  return p->strided ? bytes : sector_bytes(to, all);
}

// Bytes of distinct elements among sorted addresses.
static double bytes_needed(const Sectors *s, const Touched *t) {
  double bytes = 0;
  for (int i = 0; i < t->count; i++) {
    int array = (int)(t->byte[i] >> kArrayBits), ninputs = s->g->ninputs;
    const Node *n = array < ninputs ? s->g->inputs[array] : s->g->outputs[array - ninputs];
    if (!i || t->byte[i] != t->byte[i - 1]) bytes += (double)dtype_size(n->type.dtype);
  }
  return bytes;
}

// Blocks launched between one that touches a sector and the next that does, the most of all paths;
// INFINITY: no element of the kernel uses the rest of it.
static double blocks_between(const Sectors *s, const Spread *x) {
  double most = 0;
  int64_t at = middle(&s->type), step = 1;
  for (int i = 0; i < s->count; i++) {
    const Path *p = &s->path[i];
    double least = INFINITY;
    step = 1;
    for (int k = s->type.rank - 1; p->broken && k >= 0; step *= s->type.dim[s->type.order[k--]]) {
      if (s->type.dim[s->type.order[k]] < 2 || at + step >= type_count(&s->type)) continue;
      if (distance(s, p, at, step) == 1)
        least = fmin(least, (double)(block_of(x, at + step * x->rows) - block_of(x, at)));
    }
    if (p->broken) most = fmax(most, least);
  }
  return most;
}

Excess sectors_excess(const Sectors *s, const Spread *x, double per_sm, const Arch *arch) {
  Excess e = {0};
  if (!s) return e;
  int warps = (int)ceil_div((int64_t)x->rows * x->across, kWarp);
  size_t most = (size_t)(warps * kWarp * x->lanes * s->count);
  Touched all = {base_alloc(most, sizeof *all.byte), 0};
  int64_t block = block_of(x, middle(&s->type));
  double by_warps = 0, requested = 0;
  for (int w = 0; w < warps; w++) {
    int begin = all.count;
    for (int i = 0; i < s->count; i++) requested += touch_path(s, &s->path[i], x, block, w, &all);
    by_warps += sector_bytes(&all, begin);
  }
  double by_block = sector_bytes(&all, 0), needed = bytes_needed(s, &all);
  double blocks = (double)type_count(&s->type) / ((double)x->rows * x->across * x->lanes);
  double moved = by_block * per_sm <= arch->smem ? by_block : by_warps;
  for (int i = 0; i < s->count; i++)
    if (s->path[i].strided) e.accesses += (double)type_count(&s->type) * (1 - 1. / x->lanes);
  e.l1 = requested * blocks;
  e.l2 = fmax(0, moved - needed) * blocks;
  bool lost = blocks_between(s, x) * moved > (double)arch->l2 / 2;
  e.dram = lost ? fmax(0, by_block - needed) * blocks : 0;
  free(all.byte);
  return e;
}
