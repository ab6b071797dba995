// attend.h: attention and what weighs rows by maps of scores: the problem, its tiles, their cost.
#ifndef NNGEN_SCHED_ATTEND_H
#define NNGEN_SCHED_ATTEND_H

#include "gen/sched/sched.h"

// ---- sched_attend.c ----------------------------------------------------------------------------

// Attention: rows of `scores` are those of `values`, on the same axes; what the second sums over
// are the columns of the first, the keys. `values` sees its left operand in dimensions of scores.
typedef struct Attending {
  Product values;
  int nproducts;
  Maps scores[kMostScores];
  Operand operand[kMostHeads]; // q and k of each product, then v
  int shared;                  // the operand that v is; that of itself: none
  int key_values;              // floats of each key that weights take in besides, at the most
  int64_t rows, keys, depth[kMostScores], width, batch;
  int size, score_issue; // bytes of an operand's element; instructions for each score
  bool softmax;          // weights are found here; else they are a map of scores
  bool draws, simple;    // its kernel draws random numbers; a score takes next to no registers
  bool takes_in;         // weights are made of more than products and floats of rows and keys,
  bool takes_matrix;     // of a number of each row and key
  int beside;            // conditions and functions of many instructions beside these numbers
  int numbers;           // values of rows, of keys and of all scores that these are made of
  bool sums, sums_rows, sums_keys; // they are summed up: along rows, along keys, and
  int64_t looped;                  // over so many batches, the innermost ones
} Attending;

Attending attend_problem(const Group *g);
bool attend_is_of_keys(const Attending *a, const Node *n); // may be one of key_values
const char *attend_kind(const Attending *a);               // in words

// ---- attend_cost.c -----------------------------------------------------------------------------

enum { kMostRegs = 255 }; // of a thread
// Threads of a block that load, behind those that compute.
typedef struct Loaders {
  int threads;              // 0: there are none, those that compute load
  int registers, of_others; // of each of them, and of each that computes
  int spare;                // of these, that are left; less than 0: they do not suffice
  int most_held;            // queries of at most so many elements stay in them
  int places;               // for tiles of queries
  bool queries;             // come as boxes, too; else those that compute load or compute them
} Loaders;
Loaders attend_loaders(const Attending *a, const Tile *t);
bool attend_unit_legal(const Attending *a, const Tile *t, const Arch *arch);
bool attend_fits(const Attending *a, const Tile *t, int lanes);
bool attend_is_wide(const Attending *a); // may it take more registers than there are?
int attend_warps(const Tile *t);       // that compute
int attend_staged(const Attending *a); // columns of outputs as they pass through shared memory
int attend_smem(const Attending *a, const Tile *t);                     // bytes
int attend_registers(const Attending *a, const Tile *t);                // of a thread
bool attend_registers_are_few(const Attending *a, const Tile *t); // for what copies would keep
int attend_most_registers(const Attending *a, const Tile *t); // with what copies keep
bool attend_by_keys(const Attending *a, const Tile *t); // are scores computed key by key?
int attend_blocks(const Attending *a, const Tile *t, const Arch *arch); // of an SM
int attend_parts(const Attending *a, const Tile *t);                    // of a tile's keys
int64_t attend_jobs(const Attending *a, const Tile *t); // tiles of rows, or of sums, of all batches
double attend_steps(const Attending *a, const Tile *t); // tiles of scores for each
double attend_part_count(const Attending *a, const Tile *t); // floats that a part leaves
int attend_rows(const Attending *a, const Tile *t); // of a tile, that there are
int attend_joined(const Tile *t); // parts of the keys that a block joins at once
Cost attend_cost(const Attending *a, const Tile *t, const Group *g, const Arch *arch);

// ---- attend_boxes.c, sched_attend.c ------------------------------------------------------------

// A tensor map of rows of operand 0 to 2, and which axis each of its dimensions is; false: there is
// none.
typedef struct AttendBox {
  PlanMap map;
  int axis[PlanMaxRank];
} AttendBox;
bool attend_box(const Attending *a, const Tile *t, int operand, AttendBox *box); // attend_boxes.c
void sched_attend(Group *g, const Arch *arch);
int attend_candidates(const Group *g, const Arch *arch, Tile *tiles, int most); // returns how many
void attend_use(Group *g, const Arch *arch, const Tile *candidate);
const char *attend_tile(const Group *g);
void attend_explain(const Group *g, const Arch *arch, FILE *file);

// ---- attend_tiles.c ----------------------------------------------------------------------------

// The conditions (first inputs of `where`) in a score that are not made of scores themselves: a
// tile for which each surely is `holds` is plain, computed without them. None: all tiles are.
enum { kMostConditions = 8 };
typedef struct Masking {
  struct {
    const Node *node;
    bool holds;
  } condition[kMostConditions];
  int count;
  bool untold; // there are such, but none tells tiles apart
} Masking;

typedef struct TileShares { // tiles of all rows and keys, as far as is known before tensors are
  double skipped, mixed, plain;
  double skipped_first, skipped_last; // of the first and the last rows
} TileShares;

Masking attend_masking(const Group *g, const Attending *a);
TileShares attend_tiles(const Group *g, const Attending *a, const Tile *t);
double attend_share(const Group *g, const Attending *a, const Tile *t); // that is not skipped

#endif
