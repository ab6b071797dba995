// eval_contract.c: contractions: matrices of doubles are gathered by the index maps, block by
// block, and multiplied by OpenBLAS.
#include "oracle.h"

#include <cblas.h>
#include <stdlib.h>

// OpenBLAS starts its threads before main, where they spin for 2^26 clocks even if unused; this
// makes them sleep at once. OpenBLAS reads the environment in a constructor that runs later.
__attribute__((constructor(101))) static void let_threads_sleep(void) {
  setenv("OPENBLAS_THREAD_TIMEOUT", "4", 0); // 2^4 clocks
}

// Reads an operand as a matrix. Rows, columns and the batch each add to an element's offset and to
// its position along dimensions that may be padded.
typedef struct Gather {
  const Maps *maps;
  int tensor, nleaving, leaving[MaxRank];
  int64_t stride[MaxRank];
} Gather;

typedef struct Place {
  int64_t offset, at[MaxRank];
} Place;

static Gather gather_of(const Maps *m, int tensor) {
  Gather g = {.maps = m, .tensor = tensor};
  int64_t below = 1;
  for (int d = m->rank[tensor] - 1; d >= 0; below *= m->type[tensor]->dim[d--]) g.stride[d] = below;
  for (int d = 0; d < m->rank[tensor]; d++)
    if (maps_leave(m, tensor, d)) g.leaving[g.nleaving++] = d;
  return g;
}

// The contribution of position i, row-major over the axes of a role.
static Place place_of(const Gather *g, AxisRole role, int64_t i) {
  Place p = {0};
  for (int axis = g->maps->naxes - 1; axis >= 0; axis--) {
    const Axis *x = &g->maps->axis[axis];
    if (x->role != role) continue;
    int64_t at = i % x->size;
    i /= x->size;
    for (int d = 0; d < g->maps->rank[g->tensor]; d++) {
      int64_t step = g->maps->dim[g->tensor][d].by[axis] * at;
      p.offset += step * g->stride[d];
      p.at[d] += step;
    }
  }
  return p;
}

static Place *places_of(const Gather *g, AxisRole role, int64_t begin, int64_t count) {
  Place *list = base_alloc((size_t)count, sizeof *list);
  for (int64_t i = 0; i < count; i++) list[i] = place_of(g, role, begin + i);
  return list;
}

// Writes a rows x columns matrix, with 0 for elements outside the operand.
static void gather_matrix(const Gather *g, const Place *base, const Place *row, int64_t rows,
                          const Place *column, int64_t columns, const double *from, double *to) {
  for (int64_t i = 0; i < rows; i++)
    for (int64_t j = 0; j < columns; j++) {
      bool inside = true;
      for (int l = 0; l < g->nleaving; l++) {
        int d = g->leaving[l];
        int64_t at = base->at[d] + row[i].at[d] + column[j].at[d];
        inside = inside && at >= 0 && at < g->maps->type[g->tensor]->dim[d];
      }
      *to++ = inside ? from[base->offset + row[i].offset + column[j].offset] : 0;
    }
}

// The contribution of a batch and of the maps' begins.
static Place origin(const Gather *g, int64_t batch) {
  Place p = place_of(g, AxisBatch, batch);
  for (int d = 0; d < g->maps->rank[g->tensor]; d++) {
    int64_t begin = g->maps->dim[g->tensor][d].begin;
    p.offset += begin * g->stride[d];
    p.at[d] += begin;
  }
  return p;
}

// One batch of one phase, in blocks of rows and of k.
static void eval_product(const Maps *m, int64_t batch, const double *a, const double *b,
                         double *y) {
  Gather ga = gather_of(m, MapA), gb = gather_of(m, MapB), gy = gather_of(m, MapOut);
  Place at_a = origin(&ga, batch), at_b = origin(&gb, batch), at_y = origin(&gy, batch);
  int64_t M = maps_count(m, AxisM), N = maps_count(m, AxisN), K = maps_count(m, AxisK);
  int64_t deep = N > kEvalBlock ? 1 : K < kEvalBlock / N ? K : kEvalBlock / N;
  int64_t high = deep && M > kEvalBlock / deep ? kEvalBlock / deep : M;
  if (high > kEvalBlock / N && N <= kEvalBlock) high = kEvalBlock / N;
  Place *columns_y = places_of(&gy, AxisN, 0, N), *columns_b = places_of(&gb, AxisN, 0, N);
  double *left = base_alloc((size_t)(high * deep + 1), sizeof *left);
  double *right = base_alloc((size_t)(N * deep + 1), sizeof *right);
  double *sums = base_alloc((size_t)(high * N + 1), sizeof *sums);
  for (int64_t i = 0; i < M; i += high) {
    int64_t rows = M - i < high ? M - i : high;
    Place *rows_a = places_of(&ga, AxisM, i, rows), *rows_y = places_of(&gy, AxisM, i, rows);
    for (int64_t e = 0; e < rows * N; e++) sums[e] = 0;
    for (int64_t k = 0; k < K; k += deep) {
      int64_t depth = K - k < deep ? K - k : deep;
      Place *k_a = places_of(&ga, AxisK, k, depth), *k_b = places_of(&gb, AxisK, k, depth);
      gather_matrix(&ga, &at_a, rows_a, rows, k_a, depth, a, left);
      gather_matrix(&gb, &at_b, columns_b, N, k_b, depth, b, right);
      cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (int)rows, (int)N, (int)depth, 1, left,
                  (int)depth, right, (int)depth, 1, sums, (int)N);
      free(k_a);
      free(k_b);
    }
    for (int64_t r = 0; r < rows; r++)
      for (int64_t j = 0; j < N; j++)
        y[at_y.offset + rows_y[r].offset + columns_y[j].offset] = sums[r * N + j];
    free(rows_a);
    free(rows_y);
  }
  free(columns_y);
  free(columns_b);
  free(left);
  free(right);
  free(sums);
}

void eval_contract(Compiler *c, Node *n, double **value) {
  (void)c;
  for (int phase = 0; phase < maps_phases(n); phase++) {
    Maps m = maps_of(n, phase);
    if (!maps_count(&m, AxisM)) continue;
    for (int64_t i = 0; i < maps_count(&m, AxisBatch); i++)
      eval_product(&m, i, value[n->in[0]->id], value[n->in[1]->id], value[n->id]);
  }
}
