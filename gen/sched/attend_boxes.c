// attend_boxes.c: tensor maps (TMA) of queries, keys and values, which the copy engine of sm_90
// loads into shared memory in the panels that warp-group MMAs read (lib/attend.cuh).
#include "attend.h"

// copies are multiples of kChunk bytes; a row unit has kSteps chunks
enum { kChunk = 16, kSteps = 2 };

// Bytes of a row in a panel, as in HeadRows (lib).
static int panel_bytes(int64_t row) {
  int64_t chunks = ceil_div(row, kSteps * kChunk) * kSteps;
  return (chunks % 8 == 0 ? 8 : chunks % 4 == 0 ? 4 : 2) * kChunk;
}

// The only axis of a role, or -1 if there is none or several.
static int only_axis(const Maps *m, AxisRole role) {
  int first = 0;
  while (first < m->naxes && m->axis[first].role != role) first++;
  return first < m->naxes && first == axes_innermost(m, role) ? first : -1;
}

static bool add_dimension(AttendBox *box, const Maps *m, int axis, int64_t stride, int size,
                          int count) {
  int d = box->map.rank++;
  int64_t bytes = stride * size;
  box->axis[d] = axis;
  box->map.extent[d] = m->axis[axis].size;
  box->map.stride[d] = bytes;
  box->map.box[d] = count;
  return d ? bytes > 0 && bytes % kChunk == 0 : stride == 1;
}

// A tile covers rows along one axis, and one position on all other row and batch axes.
bool attend_box(const Attending *a, const Tile *t, int i, AttendBox *box) {
  enum { kMostDims = 5 };
  const Operand *o = &a->operand[i];
  const Maps *m = i == 2 ? a->values.maps : &a->scores[0];
  AxisRole of_rows = i == 0 ? AxisM : i == 1 ? AxisN : AxisK;
  int tensor = i == 0 ? MapA : MapB, tile = i == 0 ? t->m : t->n;
  int elements = only_axis(m, i == 2 ? AxisN : AxisK), rows = axes_innermost(m, of_rows);
  if (elements < 0 || rows < 0 || !o->piece || o->bounded) return false;
  int panel = panel_bytes((i == 2 ? a->width : a->depth[0]) * a->size);
  *box = (AttendBox){.map = {.offset = o->offset * a->size, .swizzle = panel}};
  bool may = box->map.offset % kChunk == 0 &&
             add_dimension(box, m, elements, axis_stride(m, tensor, o->stride, elements), a->size,
                           panel / a->size) &&
             add_dimension(box, m, rows, axis_stride(m, tensor, o->stride, rows), a->size, tile);
  for (int x = m->naxes - 1; x >= 0 && may; x--) { // innermost first
    int64_t stride = axis_stride(m, tensor, o->stride, x);
    bool other = m->axis[x].role == of_rows && x != rows;
    if (other && m->axis[rows].size % tile) return false;
    if ((m->axis[x].role != AxisBatch && !other) || !stride) continue;
    may = box->map.rank < kMostDims && add_dimension(box, m, x, stride, a->size, 1);
  }
  return may;
}
