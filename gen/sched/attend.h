// attend.h: attention forward, its backward kernels (products with recomputed probabilities), and
// sums of attention gradients (gradients of biases): the problem, its tiles, their cost.
#ifndef NNGEN_SCHED_ATTEND_H
#define NNGEN_SCHED_ATTEND_H

#include "gen/sched/sched.h"

// ---- attend_problem.c --------------------------------------------------------------------------

// Rows of `scores` are those of `values`, on the same axes; `values` sums over the keys, the
// columns of the scores. Its left operand (the probabilities) is indexed by dimensions of scores.
typedef struct Attending {
  Product values;
  int nproducts;               // score products: QK^T, in backward also dO V^T
  Maps scores[kMostScores];    // of each
  Operand operand[kMostHeads]; // q and k of each product, then v
  int shared;                  // the operand that v equals; v's own index if none
  int64_t rows, keys;          // per batch
  int64_t depth[kMostScores];  // elements of a head in each score product
  int64_t width;               // columns of the values
  int64_t batch;
  int size;          // bytes of an operand's element
  int score_issue;   // instructions per score, without products
  int key_values;    // f32 values per key that probabilities read besides, at most
  bool softmax;      // forward: the softmax is computed here; else probabilities are a map
  bool draws;        // draws random numbers (dropout)
  bool simple;       // the score function needs almost no registers
  bool takes_in;     // probabilities read more than products and floats of rows and keys,
  bool takes_matrix; // for example a value per row and key (a bias)
  int beside;        // conditions and expensive functions next to the random numbers
  int numbers;       // values of rows, of keys and scalars that probabilities read
  bool sums;         // the kernel sums probabilities,
  bool sums_rows;    // along rows,
  bool sums_keys;    // along keys,
  int64_t looped;    // and over this many (innermost) batches
} Attending;

Attending attend_problem(const Group *g);
bool attend_is_of_keys(const Attending *a, const Node *n); // may n be one of key_values?
const char *attend_kind(const Attending *a);               // as text

// ---- attend_cost.c: threads and memory of a tile -----------------------------------------------

enum { kMostRegs = 255 }; // per thread

// Producer threads of a block, after the threads that compute (warp specialisation).
typedef struct Loaders {
  int threads;   // 0: none; the computing threads load
  int registers; // per producer thread
  int of_others; // per computing thread
  int spare;     // of these, unused; negative if they do not suffice
  int most_held; // queries of at most this many elements stay in registers
  int places;    // buffers for tiles of queries
  bool queries;  // queries are loaded as boxes too; else computing threads load or compute them
} Loaders;
Loaders attend_loaders(const Attending *a, const Tile *t);

bool attend_unit_legal(const Attending *a, const Tile *t, const Arch *arch);
bool attend_fits(const Attending *a, const Tile *t, int lanes);
bool attend_is_wide(const Attending *a); // may it exceed the registers of a thread?
int attend_warps(const Tile *t);         // computing warps
int attend_staged(const Attending *a);   // columns of outputs staged through shared memory
int attend_smem(const Attending *a, const Tile *t);               // bytes
int attend_registers(const Attending *a, const Tile *t);          // per thread
bool attend_registers_are_few(const Attending *a, const Tile *t); // too few to keep copy addresses
int attend_most_registers(const Attending *a, const Tile *t);     // with copy addresses kept
bool attend_by_keys(const Attending *a, const Tile *t);           // are scores computed key by key?
int attend_blocks(const Attending *a, const Tile *t, const Arch *arch); // per SM

// ---- attend_cost.c: work and time --------------------------------------------------------------

int attend_parts(const Attending *a, const Tile *t);         // parts of a tile's keys, pipelined
int64_t attend_jobs(const Attending *a, const Tile *t);      // output tiles, over all batches
double attend_steps(const Attending *a, const Tile *t);      // tiles of scores per output tile
double attend_part_count(const Attending *a, const Tile *t); // floats that a split writes
int attend_rows(const Attending *a, const Tile *t); // rows of a tile, at most those that exist
int attend_joined(const Tile *t);                   // splits that a block combines at once
Cost attend_cost(const Attending *a, const Tile *t, const Group *g, const Arch *arch);

// ---- attend_boxes.c ----------------------------------------------------------------------------

// A tensor map of rows of operand 0 to 2, and the axis of each of its dimensions.
typedef struct AttendBox {
  PlanMap map;
  int axis[PlanMaxRank];
} AttendBox;
bool attend_box(const Attending *a, const Tile *t, int operand, AttendBox *box); // false: none

// ---- attend_tiles.c ----------------------------------------------------------------------------

// Conditions (first inputs of `where`) of a score that do not depend on products. A tile is plain,
// and computed without them, if each surely equals `holds`. Without conditions all tiles are.
enum { kMostConditions = 8 };
typedef struct Masking {
  struct {
    const Node *node;
    bool holds;
  } condition[kMostConditions];
  int count;
  bool untold; // there are conditions, but none distinguishes tiles
} Masking;

// Number of tiles of scores by class, as far as known at compile time.
typedef struct TileShares {
  double skipped, mixed, plain;
  double skipped_first; // skipped in the first row of tiles
  double skipped_last;  // skipped in the last row of tiles
} TileShares;

Masking attend_masking(const Group *g, const Attending *a);
double attend_masked(const Attention *a); // the score that weighs nothing
TileShares attend_tiles(const Group *g, const Attending *a, const Tile *t);
double attend_share(const Group *g, const Attending *a, const Tile *t); // share not skipped

// ---- sched_attend.c ----------------------------------------------------------------------------

void sched_attend(Group *g, const Arch *arch);
int attend_candidates(const Group *g, const Arch *arch, Tile *tiles, int most); // returns how many
void attend_use(Group *g, const Arch *arch, const Tile *candidate);
const char *attend_tile(const Group *g);
void attend_explain(const Group *g, const Arch *arch, FILE *file);

#endif
