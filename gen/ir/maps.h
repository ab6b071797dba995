// maps.h: contractions as index maps: a part of ir.h.
#ifndef NNGEN_MAPS_H
#define NNGEN_MAPS_H

#include "ir.h"

typedef enum AxisRole { AxisBatch, AxisM, AxisN, AxisK, AxisRoles } AxisRole;
enum { MapA, MapB, MapOut }; // the tensors: two operands and the result

typedef struct Axis {
  const char *name;
  AxisRole role;
  int64_t size;
} Axis;

// Index along one dimension of a tensor: begin + sum over axes i of by[i] * (position on axis i).
typedef struct IndexMap {
  int64_t begin, by[kMostAxes];
} IndexMap;

// out[batch, m, n] = sum over k of a[batch, m, k] * b[batch, n, k]. An operand's element is found
// by its index maps; outside the operand it is 0.
typedef struct Maps {
  int naxes;
  Axis axis[kMostAxes];
  int rank[3];
  const Type *type[3];
  IndexMap dim[3][MaxRank];
} Maps;

// The part of contraction n's result; PartNone for other nodes, too.
WindowPart maps_gives(const Node *n);
// The tensor that is this part of a contraction along which windows slide, and its type.
int maps_tensor(const Node *n, WindowPart part);
const Type *maps_type(const Node *n, WindowPart part);

// A divided index map (strided data gradient) splits a contraction into phases, one per residue
// modulo the stride; each is a contraction. A phase may have an empty k: its results are 0.
int maps_phases(const Node *n);
Maps maps_of(const Node *n, int phase);

int64_t maps_count(const Maps *m, AxisRole role); // product of the sizes of axes of this role
bool maps_uses(const IndexMap *map, const Maps *m, AxisRole role);
int maps_dim(const Maps *m, int tensor, AxisRole role); // last dimension with such an axis, or -1
bool maps_leave(const Maps *m, int tensor, int d);      // are there indices outside dimension d?
bool maps_axis_leaves(const Maps *m, int tensor, int axis); // ... in a dimension with this axis?
// Size of the non-batch axis of step 1 along dimension d (-1: the last), or 1.
int64_t maps_run(const Maps *m, int tensor, int d);
// Makes the row axes of result dimensions `dims` (bits) batch axes. False: not possible.
bool maps_part_rows(Maps *m, unsigned dims);
// Share of the positions of dimension d that are read, over all phases.
double maps_share_read(const Node *n, int tensor, int d);
double maps_share_inside(const Node *n); // share of multiplications with elements inside operands
double maps_multiplies(const Node *n);   // multiplications, including those with padding

#endif
