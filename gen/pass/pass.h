// pass.h: passes over the graph between simp and fuse: the dtype and the memory order of each
// value, contractions in a form that suits tiles, values that are fixed, kept or recomputed.
#ifndef NNGEN_PASS_H
#define NNGEN_PASS_H

#include "gen/simp/simp.h"

#include <stdio.h>

enum {
  kAllAgain = 8,     // Options.level: recompute before all cuts (recompute.c)
  kMostAgain = 11,   // Options.level: the highest one
  kWarp = 32,        // threads
  kMostTaps = 31,    // taps of an operand's row, a bit each in the kernel
  kMmaStep = 32,     // bytes of k per mma
  kRowBytes = 128,   // bytes of k per row of shared memory
  kGatherIssue = 15, // instructions per element that is computed as it is loaded: an estimate
  kMostNodes = 160   // nodes of a kernel
};

// One GPU the scheduler knows.
struct Arch {
  const char *name;  // sm_90a
  const char *gpu;   // the GPU whose figures these are
  int sms;           // number of SMs
  int smem;          // shared memory per SM, bytes
  int regs;          // 32-bit registers per SM
  int64_t l2;        // L2 cache, bytes
  double clock;      // highest clock, GHz
  double dram;       // bytes/s
  double l2_rate;    // bytes/s
  double fp32;       // FLOP/s
  double tensor16;   // FLOP/s, 16-bit operands
  double tf32;       // FLOP/s
  double mma_share;  // fraction of the tensor rates that mma.sync reaches
  bool wgmma;        // has wgmma, which reaches all of them
  double launch_gap; // seconds between kernels of a replayed graph
};

// ---- passes -------------------------------------------------------------------------------------

void prec_pass(Compiler *c);
void recompute_pass(Compiler *c);
void layout_pass(Compiler *c);

// Rewritten graphs.
Graph *split_columns_order(Graph *g);
Graph *merge_gemms_join(Graph *g);
Graph *fold_norms(Graph *g);
Graph *gemv_halves(Graph *g);
Graph *gemv_norms(Graph *g);
Graph *weight_copies_follow(Graph *g);
Graph *position_tables_make(Graph *g);
Graph *depthwise_wgrad_make(Graph *g);
void share_fixed(Graph *g); // in place

enum { kMostConcatParts = 8 }; // of a concat whose parts are stored in place
extern const uint8_t layout_channels_last[4];
bool layout_row_major(const Type *t);
// n itself if it has this dtype and order, else a copy (Node.subst: the last one made).
Node *layout_as(Graph *to, Node *n, Dtype dtype, const uint8_t *order);
void border_place(Graph *g); // border.c: gives outputs and updates the order they are stored in

// ---- channels.c, grouped.c, gemv.c, flatten.c: contractions rewritten by layout.c ---------------

// Pack convolution `conv` in place.
void channels_pack(Graph *to, Node *conv, Dtype dtype);
void groups_pack(Graph *to, Node *conv, Dtype dtype);
// The filter gradient of `conv`, extracted from that of the packed one, or `packed` itself.
Node *channels_unpack(Graph *to, Node *packed, const Node *conv);
Node *groups_unpack(Graph *to, Node *packed, const Node *conv);
// If product n reads a flattened image: reads it as it is in memory.
void flatten_in_place(Graph *to, Node *n, Dtype dtype);
// The replacement of n, or n itself.
Node *gemv_product(Graph *to, Node *n);
Node *gemv_filter(Graph *to, Node *n);

// ---- prec.c, prec_facts.c -----------------------------------------------------------------------

// What the policy queries about a value, apart from its op.
typedef struct PrecFacts {
  bool told;      // overflow is observable by a reader, but for two cases in prec.c
  bool told_once; // overflow is observable by a reader
  bool again;     // maps of sources only: each kernel that reads it may recompute it
  bool of_sums;   // maps of reductions, positions, literals; in training also of states, parameters
  bool of_integers;  // maps and windows of 32-bit integers and literals only
  bool ranked;       // the order of its elements matters, as for topk
  bool whole;        // it becomes integers
  bool compared;     // it is compared with its own largest or smallest element
  bool multiplied;   // only contractions read it, directly or through moves
  bool to_states;    // it is used only, through maps and moves, to update states
  const Node *state; // the state whose new value it is, and nothing else, or NULL
} PrecFacts;

PrecFacts *prec_facts(const Graph *g); // by id; needs Node.uses
void prec_explain(const Graph *g, FILE *file);
Dtype prec_operand(const Node *n); // dtype of the operands of contractions in n's kernel

const Node *prec_unmoved(const Node *n);       // n, or the value below its one-input moves
const Node *prec_compared(const Node *n);      // the value that n compares with its own reduction
bool prec_adds_up(const Node *n);              // a reduction, a scan or a scatter
bool prec_shrinks(const Node *n, double most); // small results from large inputs: times `most`

// ---- gain_values.c: seconds on the target GPU ---------------------------------------------------

double gain_dram(const Arch *arch, double bytes);
double gain_l2(const Arch *arch, double bytes);
double gain_compute(const Arch *arch, double operations);
double gain_of_copy(const Arch *arch, const Type *t);  // a kernel that copies a value
bool gain_small_read(const Arch *arch, const Type *t); // is reading it cheaper than a launch?
bool gain_scatters(const Arch *arch, const Type *t);   // uncoalesced stores cheaper than a copy?
bool gain_again(const Arch *arch, const Node *map);    // is recomputing cheaper than reading?
bool gain_again_work(const Arch *arch, const Node *map, double work); // with `work` operations?
// Is reading t from a table, `reads` elements for `reader`, cheaper than `work` operations each?
bool gain_of_table(const Arch *arch, const Type *t, const Type *reader, double reads, double work);
// Are sums of taps cheaper than a contraction?
bool gain_taps(const Arch *arch, const Node *filter);

// ---- attend_seek.c: candidates for attention ----------------------------------------------------

// Node.tail of nodes that are in no epilogue output.
enum {
  kRowTail = -1,  // per-row values of attention
  kFootTail = -2, // the final reduction of a contraction, and its maps
  kLoadTail = -3  // prologues of attention's operands
};

enum {
  kMostWeighings = 8,               // factors between exponential and probabilities
  kMostScores = 2,                  // inner contractions
  kMostHeads = 2 * kMostScores + 1, // operands
  kMostKeyValues = 4
};

// What a contraction of possible attention does.
typedef enum HeadsUse { NoHeads, MakesScores, WeighsHeads } HeadsUse;

// A step from the probabilities up to the exponential.
typedef struct Weighing {
  Node *node;
  int heavy; // its input on the way to the exponential
} Weighing;

// out = W v. Forward (attend.c): W = exp(score - shift), then `step`, with score a map of q k^T.
// Backward (attend_backward.c, nsteps -1): W is any map of inner contractions and per-row values in
// memory, 0 where `score` is -inf; a sum of W has no v.
typedef struct Attention {
  Node *product[kMostScores]; // inner contractions: q k^T, dO v^T
  Node *score;
  Node *shift;              // per-row value subtracted from the score, or NULL
  Node *power;              // the exponential; attention backward: NULL if W has none
  bool turned[kMostScores]; // the product's rows are summed over
  int nproducts;
  int noperands;
  Weighing step[kMostWeighings];
  int nsteps;
  int counted;               // the last `counted` steps are applied before row sums
  int key;                   // dimension of the scores along which rows run
  int place[MaxRank];        // dimension of W for each of the scores'
  Node *operand[kMostHeads]; // q and k of each product, or k and q if it is turned; then v
  int along[kMostHeads];     // dimension of head elements, by operand
  unsigned apart;            // row dimensions (bits) of the last contraction that are batches
} Attention;

// A search for attention.
typedef struct AttendSeek {
  Attention a;
  Node *last;             // the second contraction
  bool sums;              // is a row sum known, so that a.counted is set?
  const char *refused;    // why it is not attention, or NULL
  Node *node[kMostNodes]; // nodes of the kernel apart from both contractions
  int count;
} AttendSeek;

// Searches from s->last to the score and the first contraction.
bool attend_seek(AttendSeek *s);
bool attend_include(AttendSeek *s, Node *n); // false if the kernel would be too large
bool attend_includes(const AttendSeek *s, const Node *n);
bool attend_refuse(AttendSeek *s, const char *why);    // sets s->refused; false
Node *attend_uncopied(Node *n);                        // the node that n copies, or n
const Node *attend_product(Node *last);                // q k^T if `last` is a candidate, or NULL
HeadsUse *attend_products(const Graph *g);             // by id
bool attend_is_row(const Attention *a, const Node *n); // is it one value per row of scores?
bool attend_is_elementwise(const Attention *a, const Weighing *w); // a factor that is not per row?
bool attend_is_plain(const Maps *m); // is each dimension one axis, starting at 0?
int attend_dim(const Maps *m, int tensor,
               AxisRole role); // the only dimension with such axes, or -1
#endif
