// pass.h: graph to graph: the dtype and the memory order of each value, products in the form that
// tiles suit, what is fixed, kept or computed again.
#ifndef NNGEN_PASS_H
#define NNGEN_PASS_H

#include "gen/simp/simp.h"

#include <stdio.h>

enum {                            // what schedules and kernels are measured in
  kAllAgain = 8, kMostAgain = 11, // Options.level: recompute.c
  kWarp = 32, kMostTaps = 31,     // taps of a row of a product, a bit each in the kernel
  kMmaStep = 32, kRowBytes = 128, // bytes of k in one mma, in a row of shared memory
  kGatherIssue = 15, // instructions of an element that is computed where it is loaded: an estimate
  kMostNodes = 160   // of a kernel
};

// One GPU the scheduler knows. Rates are per second.
struct Arch {
  const char *name;            // sm_90a
  const char *gpu;             // whose figures these are
  int sms, smem, regs;         // per SM: shared memory bytes, 32-bit registers
  int64_t l2;                  // bytes
  double clock;                // GHz, the highest
  double dram, l2_rate;        // bytes
  double fp32, tensor16, tf32; // floating-point operations
  double mma_share;            // of the tensor rates that mma.sync reaches
  bool wgmma;                  // warp groups reach all of them
  double launch_gap;           // seconds between kernels of a replayed graph
};

void prec_pass(Compiler *), recompute_pass(Compiler *), layout_pass(Compiler *),
    share_fixed(Graph *), channels_pack(Graph *to, Node *conv, Dtype),
    groups_pack(Graph *to, Node *conv, Dtype);
bool layout_row_major(const Type *t);
Node *channels_unpack(Graph *to, Node *packed, const Node *conv), // what takes its place, or itself
    *groups_unpack(Graph *to, Node *packed, const Node *conv), *vector_product(Graph *to, Node *),
    *vector_filter(Graph *to, Node *);
Graph *tables_make(Graph *g), *taps_make(Graph *g), *beside_join(Graph *g), *norms_follow(Graph *g),
    *copies_follow(Graph *g);

// ---- prec.c, prec_facts.c -----------------------------------------------------------------------
void prec_explain(const Graph *, FILE *file);
Dtype prec_operand(const Node *n); // what products in its kernel read
// What the policy asks of a value beside its own op: what it is made of, and where it leads.
typedef struct PrecFacts {
  bool told;      // readers tell an infinity of it from a large number, and no product reads it
  bool told_once; // one reader does
  bool again;     // maps of sources alone: each kernel that reads it may compute it
  bool of_sums;   // maps of sums, positions, numbers and, in training, states and parameters alone
  bool of_integers;  // maps and windows of 32-bit integers and numbers alone
  bool ranked;       // the order of its elements counts, as for topk
  bool compared;     // with its own largest or smallest element
  bool multiplied;   // products alone read it, through moves
  bool to_states;    // all of it leads, through maps and moves, to new values of states
  const Node *state; // whose new value it is, and nothing else; null: of none
} PrecFacts;

PrecFacts *prec_facts(const Graph *g); // by id; needs Node.uses

// Of one op, beside what it reads.
const Node *prec_unmoved(const Node *n);       // n, or what moves of one value have it from
const Node *prec_compared(const Node *n);      // whose elements n compares with what they reduce to
bool prec_adds_up(const Node *n);              // elements to one: a reduction, a scan, a scatter
bool prec_shrinks(const Node *n, double most); // makes little of much: it multiplies by `most`
// ---- gain_values.c: seconds on the GPU at hand --------------------------------------------------
double gain_dram(const Arch *, double bytes), gain_l2(const Arch *, double bytes),
    gain_compute(const Arch *, double operations);
double gain_of_copy(const Arch *arch, const Type *t); // of a kernel that copies a value
// Is reading it less than a launch? Are its elements stored singly faster than copied?
bool gain_small_read(const Arch *, const Type *), gain_scatters(const Arch *, const Type *);
// Is computing a map cheaper than reading it? And of `work` operations?
bool gain_again(const Arch *, const Node *map), gain_again_work(const Arch *, const Node *, double);
// Is reading t from a table, `reads` times for `reader`, cheaper than `work` operations each time?
bool gain_of_table(const Arch *arch, const Type *t, const Type *reader, double reads, double work);
bool gain_taps(const Arch *, const Node *filter); // are taps summed faster than multiplied?

// ---- attend_seek.c: scores that a product weighs by ---------------------------------------------

// Attention: what a row of weights becomes of the values, out = weight v. attend.c: weight is
// exp(score - shift) after `step`, and score a map of q k^T. weigh.c: it is any map of products and
// of rows in memory (nsteps -1), `score` one that makes it 0 at -inf; a sum of weights has no v.
enum { kRowTail = -1, kFootTail = -2, kLoadTail = -3 }; // Node.tail of rows, columns, loads
typedef enum HeadsUse { NoHeads, MakesScores, WeighsHeads } HeadsUse; // what products do
enum { kMostWeighings = 8, kMostScores = 2, kMostHeads = 2 * kMostScores + 1, kMostKeyValues = 4 };
typedef struct Weighing { // from the weights down to the power
  Node *node;
  int heavy; // the input that the power is in
} Weighing;
typedef struct Attention {
  Node *product[kMostScores], *score, *shift, *power; // shift null: nothing is subtracted
  bool turned[kMostScores];                           // the product's rows are what is summed over
  int nproducts, noperands;
  Weighing step[kMostWeighings];
  int nsteps, counted, key; // the last `counted` steps precede sums; key: along which rows run
  int place[MaxRank];        // the dimension of the weights that each of the scores' is
  Node *operand[kMostHeads]; // q and k of each product, or k and q where it is turned; then v
  int along[kMostHeads];     // the dimension of each that a head's elements are along
  unsigned apart;            // dimensions of the last product's rows (bits) that are batches
} Attention;
typedef struct AttendSeek { // attention that is looked for
  Attention a;
  Node *last;             // the second product
  bool sums;              // is any sum known, so that a.counted is?
  const char *refused;    // null: it is attention, as far as is known
  Node *node[kMostNodes]; // what would be in the kernel besides both products
  int count;
} AttendSeek;
bool attend_seek(AttendSeek *s); // from the last product to the score, and to the first product
bool attend_include(AttendSeek *s, Node *n), attend_includes(const AttendSeek *s, const Node *n),
    attend_refuse(AttendSeek *s, const char *why); // false
Node *attend_uncopied(Node *n); // what n copies
const Node *attend_product(Node *last); // that makes the scores; null: it weighs nothing by them
HeadsUse *attend_products(const Graph *g);            // by id: of what may become attention
bool attend_is_row(const Attention *a, const Node *n), // is it one value for a row of scores?
    attend_is_elementwise(const Attention *a, const Weighing *w); // does it go by elements?
bool attend_is_plain(const Maps *m); // is each dimension one axis of its own, counted from 0?
int attend_dim(const Maps *m, int tensor, AxisRole role); // the only one with such axes; -1
#endif
