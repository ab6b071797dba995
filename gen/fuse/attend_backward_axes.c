// attend_backward_axes.c: axes of attention backward (attend_backward.c): which of them are
// batches; and a sum of W as a contraction without columns, so that kernels number its batches,
// rows and keys alike.
#include "fuse.h"

// Order of the axes of a sum: batches that are kept, batches that are summed, rows, keys.
enum { StepKept, StepSummed, StepRows, StepKeys, StepCount };

// Axes of a sum of W, as a contraction that sums over keys and has no columns: rows and keys are
// those of `product`; batches that the sum keeps precede those that it sums over.
Maps attend_backward_sum_axes(const Node *sum, const Node *product, const int *place) {
  static const char *const names[] = {"b0", "b1", "b2", "b3", "b4", "b5", "b6", "b7"};
  const Type *none = &sum->type, *weights = &sum->in[0]->type;
  Maps of = maps_of(product, 0),
       m = {.rank = {weights->rank, 0, sum->type.rank}, .type = {weights, none, &sum->type}};
  int step[MaxRank], rows = -1, keys = -1, rank = of.rank[MapOut];
  for (int d = 0; d < rank; d++) {
    if (of.type[MapOut]->dim[d] == 1) continue;
    if (maps_uses(&of.dim[MapOut][d], &of, AxisM)) rows = d;
    if (maps_uses(&of.dim[MapOut][d], &of, AxisN)) keys = d;
  }
  for (int d = 0; d < rank; d++)
    step[d] = d == rows                        ? StepRows
              : d == keys                      ? StepKeys
              : sum->attr.axes >> place[d] & 1 ? StepSummed
                                               : StepKept;
  for (int i = 0; i < StepCount; i++)
    for (int d = 0; d < rank; d++) {
      if (step[d] != i || of.type[MapOut]->dim[d] == 1) continue;
      AxisRole role = i == StepRows ? AxisM : i == StepKeys ? AxisK : AxisBatch;
      m.axis[m.naxes] = (Axis){names[d], role, of.type[MapOut]->dim[d]};
      m.dim[MapA][place[d]].by[m.naxes] = 1;
      m.dim[MapOut][place[d]].by[m.naxes] = !(sum->attr.axes >> place[d] & 1);
      m.naxes++;
    }
  return m;
}

// The last contraction's role of dimension d of the root.
AxisRole attend_backward_role(const Attention *a, const Maps *values, int d) {
  if (a->apart >> a->place[d] & 1) return AxisBatch;
  for (int role = 0; role < AxisRoles; role++)
    if (maps_uses(&values->dim[MapA][a->place[d]], values, (AxisRole)role)) return (AxisRole)role;
  return AxisRoles;
}

// Leading row dimensions of the last contraction that are not rows of all inner ones, for example
// because batches share its right operand, are treated as batches.
void attend_backward_apart(Attention *a, const Node *last, const Maps *values) {
  int rank = a->product[0]->type.rank;
  if (last->op->cls != OpContract || !last->op->maps->leading || values->rank[MapOut] != rank)
    return;
  for (int i = 0; i < a->nproducts; i++) {
    Maps inner = maps_of(a->product[i], 0);
    bool turned = false;
    for (int d = rank - 1; d >= 0; d--) {
      const IndexMap *map = &inner.dim[MapOut][d];
      bool left = maps_uses(map, &inner, AxisM), right = maps_uses(map, &inner, AxisN);
      AxisRole outer = attend_backward_role(a, values, d);
      if (d >= rank - 2)
        turned = turned || (outer == AxisK && left);
      else if (outer == AxisM && inner.type[MapOut]->dim[d] > 1 && !(turned ? right : left))
        a->apart |= 1u << a->place[d];
    }
  }
}
