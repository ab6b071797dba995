// maps.c: contractions as index maps. The MapRow of an op (op.h) names the axes of each dimension
// of the operands and the result; here the sizes and strides of one node are filled in.
#include "ir.h"

#include <stdlib.h>
#include <string.h>

// ---- the sizes of axes ------------------------------------------------------------------------

static int64_t attr_value(const Node *n, const MapTerm *t) {
  const AttrField *f = &attr_fields[t->attr];
  return ((const int64_t *)(const void *)((const char *)&n->attr + f->offset))[t->element];
}

static const Type *tensor_type(const Node *n, int tensor) {
  return tensor == MapOut ? &n->type : &n->in[tensor]->type;
}

WindowPart maps_gives(const Node *n) {
  return n->op->cls == OpContract ? n->op->maps->part[MapOut] : PartNone;
}

int maps_tensor(const Node *n, WindowPart part) {
  const WindowPart *parts = n->op->maps->part;
  return parts[MapA] == part ? MapA : parts[MapB] == part ? MapB : MapOut;
}

const Type *maps_type(const Node *n, WindowPart part) {
  return tensor_type(n, maps_tensor(n, part));
}

// Index in the node's tensor of dimension d of the row's tensor (rows omit leading dimensions).
static int real_dim(const Maps *m, const MapRow *row, int tensor, int d) {
  return m->rank[tensor] - row->rank[tensor] + d;
}

// Infers axis sizes from a dimension indexed by one axis, or by two joined ones. True if a size
// became known.
static bool learn_sizes(Maps *m, const MapRow *row, int tensor, int d) {
  const MapDim *dim = &row->dim[tensor][d];
  int64_t size = m->type[tensor]->dim[real_dim(m, row, tensor, d)];
  int64_t *outer = &m->axis[dim->term[0].axis].size, *inner = NULL;
  if (dim->term[0].attr >= 0 || dim->nterms != 1 + dim->joined) return false;
  if (!dim->joined && !*outer) return *outer = size, true;
  if (!dim->joined) return false;
  inner = &m->axis[dim->term[1].axis].size;
  if (*outer && !*inner) return *inner = size / *outer, true;
  if (*inner && !*outer) return *outer = size / *inner, true;
  return false;
}

static void find_sizes(Maps *m, const MapRow *row) {
  for (bool news = true; news;) {
    news = false;
    for (int t = 0; t < 3; t++)
      for (int d = 0; d < row->rank[t]; d++) news = learn_sizes(m, row, t, d) || news;
  }
}

// ---- maps -------------------------------------------------------------------------------------

static void fill_dim(Maps *m, const Node *n, int tensor, int d) {
  const MapDim *dim = &n->op->maps->dim[tensor][d];
  IndexMap *map = &m->dim[tensor][real_dim(m, n->op->maps, tensor, d)];
  for (int i = 0; i < dim->nterms; i++) {
    const MapTerm *t = &dim->term[i];
    int64_t by = t->sign * (t->attr >= 0 ? attr_value(n, t) : 1);
    if (dim->joined && i == 0) by = m->axis[dim->term[1].axis].size;
    *(t->axis >= 0 ? &map->by[t->axis] : &map->begin) += by;
  }
}

const char *maps_leading_name(int d) {
  static const char *const names[] = {"b0", "b1", "b2", "b3", "b4", "b5", "b6", "b7"};
  return d < (int)LENGTH(names) ? names[d] : NULL;
}

// Adds a batch axis per leading dimension; operands of size 1 there are broadcast.
static void add_leading(Maps *m, const MapRow *row) {
  int count = m->rank[MapOut] - row->rank[MapOut];
  for (int d = 0; d < count; d++) {
    if (m->type[MapOut]->dim[d] == 1) continue;
    m->axis[m->naxes] = (Axis){.name = maps_leading_name(d), .size = m->type[MapOut]->dim[d]};
    for (int t = 0; t < 3; t++) {
      int of = d - (m->rank[MapOut] - m->rank[t]);
      if (of >= 0 && m->type[t]->dim[of] > 1) m->dim[t][of].by[m->naxes] = 1;
    }
    m->naxes++;
  }
}

static bool tensor_has(const Maps *m, int tensor, int axis) {
  for (int d = 0; d < m->rank[tensor]; d++)
    if (m->dim[tensor][d].by[axis]) return true;
  return false;
}

static AxisRole role_of(const Maps *m, int axis) {
  bool a = tensor_has(m, MapA, axis), b = tensor_has(m, MapB, axis);
  if (!tensor_has(m, MapOut, axis)) return AxisK;
  return a && b ? AxisBatch : a ? AxisM : AxisN;
}

// ---- phases -----------------------------------------------------------------------------------

// A divided index map: over `over`, of row axis `row` (step 1) and reduced axis `reduced`.
typedef struct Division {
  int tensor, dim, row, reduced;
  int64_t over;
} Division;

static int find_divisions(const Maps *m, const Node *n, Division *list) {
  const MapRow *row = n->op->maps;
  int count = 0;
  for (int t = 0; t < 2; t++)
    for (int d = 0; d < row->rank[t]; d++) {
      const MapDim *dim = &row->dim[t][d];
      if (dim->over.attr < 0) continue;
      Division v = {.tensor = t, .dim = real_dim(m, row, t, d), .over = attr_value(n, &dim->over)};
      for (int i = 0; i < dim->nterms; i++) {
        int axis = dim->term[i].axis;
        if (axis >= 0) *(m->axis[axis].role == AxisK ? &v.reduced : &v.row) = axis;
      }
      list[count++] = v;
    }
  return count;
}

int maps_phases(const Node *n) {
  const MapRow *row = n->op->maps;
  int count = 1;
  for (int t = 0; t < 2; t++)
    for (int d = 0; d < row->rank[t]; d++)
      if (row->dim[t][d].over.attr >= 0) count *= (int)attr_value(n, &row->dim[t][d].over);
  return count;
}

// Restricts axis i to begin, begin + step, ... (`size` positions).
static void narrow_axis(Maps *m, int i, int64_t begin, int64_t step, int64_t size) {
  for (int t = 0; t < 3; t++)
    for (int d = 0; d < m->rank[t]; d++) {
      m->dim[t][d].begin += m->dim[t][d].by[i] * begin;
      m->dim[t][d].by[i] *= step;
    }
  m->axis[i].size = size;
}

// Selects rows congruent to `phase` modulo v->over, and the reduced positions for which the
// division is exact.
static void take_phase(Maps *m, const Division *v, int64_t phase) {
  IndexMap *map = &m->dim[v->tensor][v->dim];
  int64_t rows = m->axis[v->row].size, reduced = m->axis[v->reduced].size, first = 0, step = 1;
  narrow_axis(m, v->row, phase, v->over, rows > phase ? (rows - phase - 1) / v->over + 1 : 0);
  while (first < reduced && (map->begin + map->by[v->reduced] * first) % v->over) first++;
  while (map->by[v->reduced] * step % v->over) step++;
  narrow_axis(m, v->reduced, first, step, first < reduced ? (reduced - first - 1) / step + 1 : 0);
  map->begin /= v->over;
  for (int i = 0; i < m->naxes; i++) map->by[i] /= v->over;
}

Maps maps_of(const Node *n, int phase) {
  const MapRow *row = n->op->maps;
  Maps m = {.naxes = row->naxes};
  for (int i = 0; i < row->naxes; i++) m.axis[i].name = row->axis[i];
  for (int t = 0; t < 3; t++) m.type[t] = tensor_type(n, t), m.rank[t] = m.type[t]->rank;
  find_sizes(&m, row);
  for (int t = 0; t < 3; t++)
    for (int d = 0; d < row->rank[t]; d++) fill_dim(&m, n, t, d);
  if (row->leading) add_leading(&m, row);
  for (int i = 0; i < m.naxes; i++) m.axis[i].role = role_of(&m, i);
  Division list[2 * kMostMapDims];
  int count = find_divisions(&m, n, list);
  for (int i = count - 1; i >= 0; i--) {
    take_phase(&m, &list[i], phase % list[i].over);
    phase /= (int)list[i].over;
  }
  return m;
}

// ---- queries ---------------------------------------------------------------------------

int64_t maps_count(const Maps *m, AxisRole role) {
  int64_t count = 1;
  for (int i = 0; i < m->naxes; i++)
    if (m->axis[i].role == role) count *= m->axis[i].size;
  return count;
}

bool maps_leave(const Maps *m, int tensor, int d) {
  const IndexMap *map = &m->dim[tensor][d];
  int64_t least = map->begin, most = map->begin;
  for (int i = 0; i < m->naxes; i++) {
    int64_t reach = map->by[i] * (m->axis[i].size - 1);
    *(reach < 0 ? &least : &most) += reach;
  }
  return least < 0 || most >= m->type[tensor]->dim[d];
}

bool maps_uses(const IndexMap *map, const Maps *m, AxisRole role) {
  for (int i = 0; i < m->naxes; i++)
    if (map->by[i] && m->axis[i].role == role) return true;
  return false;
}

int maps_dim(const Maps *m, int tensor, AxisRole role) {
  int d = m->rank[tensor] - 1;
  while (d >= 0 && !maps_uses(&m->dim[tensor][d], m, role)) d--;
  return d;
}

int64_t maps_run(const Maps *m, int tensor, int d) {
  const IndexMap *map = &m->dim[tensor][d < 0 ? m->rank[tensor] - 1 : d];
  for (int i = 0; i < m->naxes; i++)
    if (map->by[i] == 1 && m->axis[i].role != AxisBatch) return m->axis[i].size;
  return 1;
}

bool maps_axis_leaves(const Maps *m, int tensor, int axis) {
  for (int d = 0; d < m->rank[tensor]; d++)
    if (m->dim[tensor][d].by[axis] && maps_leave(m, tensor, d)) return true;
  return false;
}

// The row axis that dimension d of the result runs over, or -1 if there is none or if its positions
// differ in padding.
static int row_axis(const Maps *m, int d) {
  const IndexMap *map = &m->dim[MapOut][d];
  int found = -1;
  for (int i = 0; i < m->naxes; i++)
    if (map->by[i]) found = found == -1 && map->by[i] == 1 && m->axis[i].role == AxisM ? i : -2;
  return found < 0 || map->begin || maps_axis_leaves(m, MapA, found) ? -1 : found;
}

bool maps_part_rows(Maps *m, unsigned dims) {
  for (int d = 0; d < m->rank[MapOut]; d++)
    if (dims >> d & 1 && row_axis(m, d) < 0) return false;
  for (int d = 0; d < m->rank[MapOut]; d++)
    if (dims >> d & 1) m->axis[row_axis(m, d)].role = AxisBatch;
  return true;
}

// Calls count(user, position) for each combination of the axes in `map`.
static void each_position(const Maps *m, const IndexMap *map, int axis, int64_t at,
                          void (*count)(void *user, int64_t position), void *user) {
  while (axis < m->naxes && !map->by[axis]) axis++;
  if (axis == m->naxes) {
    count(user, at);
    return;
  }
  for (int64_t i = 0; i < m->axis[axis].size; i++)
    each_position(m, map, axis + 1, at + i * map->by[axis], count, user);
}

typedef struct Reached { // statistics of the positions along one dimension
  int64_t size, tried, inside, distinct;
  bool *hit;
} Reached;

static void reach(void *user, int64_t position) {
  Reached *r = user;
  bool inside = position >= 0 && position < r->size;
  r->tried++;
  r->inside += inside;
  if (!inside || r->hit[position]) return;
  r->hit[position] = true;
  r->distinct++;
}

// True if one axis covers the whole dimension, which is then read completely.
static bool is_plain(const Maps *m, const IndexMap *map, int64_t size) {
  for (int i = 0; i < m->naxes; i++)
    if (map->by[i] == 1 && m->axis[i].size == size && !map->begin) return true;
  return false;
}

double maps_share_read(const Node *n, int tensor, int d) {
  Reached r = {.size = tensor_type(n, tensor)->dim[d]};
  r.hit = base_alloc((size_t)r.size, sizeof *r.hit);
  for (int phase = 0; phase < maps_phases(n); phase++) {
    Maps m = maps_of(n, phase);
    if (is_plain(&m, &m.dim[tensor][d], r.size)) r.distinct = r.size;
    if (r.distinct < r.size)
      each_position(&m, &m.dim[tensor][d], 0, m.dim[tensor][d].begin, reach, &r);
  }
  free(r.hit);
  return (double)r.distinct / (double)r.size;
}

double maps_multiplies(const Node *n) {
  double sum = 0;
  for (int phase = 0; phase < maps_phases(n); phase++) {
    Maps m = maps_of(n, phase);
    double product = 1;
    for (int i = 0; i < m.naxes; i++) product *= (double)m.axis[i].size;
    sum += product;
  }
  return sum;
}

double maps_share_inside(const Node *n) {
  double inside = 0;
  for (int phase = 0; phase < maps_phases(n); phase++) {
    Maps m = maps_of(n, phase);
    double product = 1;
    for (int i = 0; i < m.naxes; i++) product *= (double)m.axis[i].size;
    for (int t = 0; t < 2; t++)
      for (int d = 0; d < m.rank[t]; d++) {
        if (product == 0 || !maps_leave(&m, t, d)) continue;
        Reached r = {.size = m.type[t]->dim[d]};
        r.hit = base_alloc((size_t)r.size, sizeof *r.hit);
        each_position(&m, &m.dim[t][d], 0, m.dim[t][d].begin, reach, &r);
        free(r.hit);
        product *= (double)r.inside / (double)r.tried;
      }
    inside += product;
  }
  return inside / maps_multiplies(n);
}
