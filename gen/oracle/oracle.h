// oracle.h: evaluates a graph in double on the CPU and compares results with it. Independent of the
// runtime: values of the device are read by a callback.
#ifndef NNGEN_ORACLE_H
#define NNGEN_ORACLE_H

#include "gen/emit/emit.h"

// Everywhere below: value[id] is the value of node id in double, row-major, from malloc, or NULL.

// ---- eval.c ------------------------------------------------------------------------------------

// `after` (or NULL) is called for each computed value, which it may change.
typedef void EvalAfter(void *user, const Node *n, double *value);
// Evaluates g. The caller sets inputs and parameters; on return the outputs are set.
void eval_graph(Graph *g, double **value, EvalAfter *after, void *user);
void eval_node(Compiler *c, Node *node, double **value);
void eval_free(Graph *g, double **value);
void eval_ids(Compiler *c, const Node *gather, double **value); // err_at if an id is out of range

// ---- eval_program.c ----------------------------------------------------------------------------

enum {
  kChunk = 512,                         // elements evaluated at a time
  kMostOperands = kMostAccumulators + 2 // inputs of a program
};
// Evaluates a traced `ref` on n elements of its inputs. whole: they are integers.
void eval_program(const Program *p, bool whole, const double *const *in, double *out, int n);
// Evaluates an op whose `ref` cannot be traced, by calling Lua.
void eval_lua(Compiler *c, const Op *op, const double *const *in, double *out, int n);
// The whole number x wrapped to 32 bits, for u8 to 8 bits.
double eval_held(Dtype dtype, double x);

// ---- eval_contract.c ---------------------------------------------------------------------------

enum { kEvalBlock = 1 << 22 }; // maximum elements of a matrix gathered at once
void eval_contract(Compiler *c, Node *n, double **value);

// ---- check.c -----------------------------------------------------------------------------------

// Reads node n's value on the device, row-major, into values[type_count]. False: it cannot be read
// (the callback knows why).
typedef bool (*CheckRead)(void *user, const Node *n, double *values);

typedef struct CheckResult {
  bool passed, failed_read;
  const Node *node; // the output that was compared
  double relative;  // L2 error / L2 norm; integers: share of differing elements
  double gate;      // maximum allowed relative error
  double rounding;  // passed beyond the gate: relative error explained by rounding
  double max_error; // largest absolute error
  int64_t bad;      // elements outside their bound, or not finite
  int64_t unlike;   // elements finite on one side only
  int64_t infinite; // infinite elements whose value exceeds the dtype's range
  int64_t differ;   // integers and bools: elements that differ
  int64_t worst;    // row-major index of the first bad element, or -1
  double want, got; // its values
} CheckResult;

int64_t check_terms(const Node *n); // terms of the longest sum of contraction n
// Relative error of a term of contraction n due to operands that its kernel rounds to 16 bits.
double check_rounded_operands(const Node *n);
// Gate for outputs of a whole model: fp32 1e-5, tf32 1e-3, fp16 2e-3, bf16 1e-2.
double check_model_gate(const char *dtype);
// Relative error, from the squared L2 norms of the error and of a value of `count` elements.
double check_relative(double error, double norm, int64_t count);

// Compares floats. bound: maximum error of each element, or NULL. most: largest finite number of
// the device's dtype; infinity is accepted for larger values.
CheckResult check_compare(const double *want, const double *got, const double *bound, int64_t count,
                          double gate, double most);
// Compares integers and bools exactly; an infinite gate passes any.
CheckResult check_equal(const double *want, const double *got, int64_t count, double gate);
// One of the two, by n's dtype. held: the narrowest dtype in which floats are stored.
CheckResult check_values(const Node *n, const double *want, const double *got, const double *bound,
                         double gate, Dtype held);
// Compares an output, or the updated state `node`, of the model as written, whose value has been
// evaluated. dtype: of --dtype; stored: the device's dtype.
CheckResult check_model_output(Graph *g, const Node *node, double **value, const double *got,
                               const char *dtype, Dtype stored);

// Template callbacks: the error of a contraction apart from rounding its outputs; does the
// element-wise bound carry over from the contraction to the outputs?
double check_contract_gate(const Group *g);
bool check_contract_bounded(const Group *g);

int64_t check_bytes(const Graph *g); // estimate of host memory needed for checking

// Evaluates the group in double on the inputs that the device has; compares all it wrote.
CheckResult check_group(Compiler *c, const Group *g, CheckRead read, void *user);
// The same in two steps, to compare several kernels of one group: check_want evaluates (NULL: an
// input cannot be read), each check_against compares.
typedef struct CheckWant CheckWant;
CheckWant *check_want(Compiler *c, const Group *g, CheckRead read, void *user);
CheckResult check_against(const CheckWant *want, CheckRead read, void *user);
void check_free(CheckWant *want);

// Evaluates the model as written; `read` provides inputs and parameters. (*value)[id] holds the
// outputs; free with eval_free(c->original, *value) and free(*value).
bool check_reference(Compiler *c, CheckRead read, void *user, double ***value);

// ---- ids.c: ids of gathers, checked before a run -----------------------------------------------

bool ids_wanted(Graph *original, int entry); // does the entry have gathers to be checked?
// By node id: must the ids of this gather be checked before a run?
const bool *ids_gathers(Graph *original, int entry);
// err_at names the first id out of range. False: a source cannot be read.
bool ids_check(Compiler *c, int entry, CheckRead read, void *user);

// ---- id_ranges.c: ids over many runs -----------------------------------------------------------

// True if all ids stay inside their tables for `runs` further runs of the entry, whatever these
// compute: then they need no check between runs. False: not shown, or a source cannot be read.
bool ids_stay(Compiler *c, int entry, int64_t runs, CheckRead read, void *user);

// ---- rounding.c: how far rounding alone may move each element ----------------------------------

// Would `got`, node n on the device, pass check_values if values computed before n were off by a
// few units of roundoff `unit`? 0: no; else the relative error allowed for it. value: of n and of
// the inputs of group g; if g is NULL, of the sources of the graph.
double rounding_explains(Graph *graph, const Group *g, double *const *value, const Node *n,
                         double unit, const double *got, const double *bound, double gate);

// ---- hidden.c: attention skips keys that no query sees -----------------------------------------

// Where got (node n on the device) is finite and value[n->id] is not, replaces the latter by its
// value under the rule 0 * x = 0. g, value: as in rounding_explains.
void hidden_allow(Graph *graph, const Group *g, double **value, const Node *n, const double *got);

#endif
