// oracle.h: evaluates a graph in double on the CPU and compares results with it. Independent of the
// runtime: a callback reads values.
#ifndef NNGEN_ORACLE_H
#define NNGEN_ORACLE_H

#include "gen/emit/emit.h"

// ---- eval.c ------------------------------------------------------------------------------------
// Evaluates g in double, row-major. value[id] is set (malloc) for inputs and parameters by the
// caller, and for the outputs on return; free with eval_free.
// after (may be null): called for each computed value, which it may change.
typedef void EvalAfter(void *user, const Node *n, double *value);
void eval_graph(Graph *g, double **value, EvalAfter *after, void *user);
void eval_node(Compiler *c, Node *node, double **value);
void eval_free(Graph *g, double **value);
void eval_ids(Compiler *c, const Node *gather, double **value); // err_at, if its table has not one

// ---- eval_program.c
enum { kChunk = 512, kMostOperands = kMostAccumulators + 2 }; // elements at a time; of a program
// What a program makes of n elements of its inputs; whole: they are integers.
void eval_program(const Program *p, bool whole, const double *const *in, double *out, int n);
// The same of an op whose `ref` cannot be traced.
void eval_lua(Compiler *c, const Op *op, const double *const *in, double *out, int n);
// What a dtype holds of a whole number: its low 32 bits, of u8 its low 8.
double eval_held(Dtype dtype, double x);

// ---- eval_contract.c
void eval_contract(Compiler *c, Node *n, double **value);
enum { kEvalBlock = 1 << 22 }; // most elements of a matrix gathered at once

// ---- check.c -----------------------------------------------------------------------------------
// Reads the value of node n as the device has it, row-major, into values[type_count]. False: it
// cannot be read (the caller knows why).
typedef bool (*CheckRead)(void *user, const Node *n, double *values);

typedef struct CheckResult {
  bool passed, failed_read;
  double rounding;  // passed beyond the gate: an error that rounding alone explains, relative
  const Node *node; // the output that was compared
  double relative;  // L2 error / L2 norm
  double gate;      // the largest relative error allowed
  double max_error; // largest absolute error
  int64_t bad;      // elements outside their bound, or not finite
  int64_t unlike;   // finite elements where the oracle's are not, or the reverse
  int64_t infinite; // elements that the dtype does not hold, and that are infinite
  int64_t worst;    // index of the first of them, row-major; -1: none
  int64_t differ;   // of integers and bools, which are compared exactly
  double want, got; // there
} CheckResult;

int64_t check_terms(const Node *n); // of the longest sum of a product
// The error of a term of product n, relative to it, by operands that its kernel rounds to 16 bits.
double check_rounded_operands(const Node *n);
// The gate of a whole model's outputs: fp32 1e-5, tf32 1e-3, fp16 2e-3, bf16 1e-2.
double check_model_gate(const char *dtype);

// An error of L2 norm sqrt(error), relative to a value of `count` elements of L2 norm sqrt(norm).
double check_relative(double error, double norm, int64_t count);

// Compares `got` with `want`; `bound` (may be null) holds the largest error of each element, `most`
// is the largest number that a device's value holds: infinity stands for those beyond it.
CheckResult check_compare(const double *want, const double *got, const double *bound, int64_t count,
                          double gate, double most);

// The same for integers and bools, which are equal. relative: the share that differs, which passes
// where the gate is infinite.
CheckResult check_equal(const double *want, const double *got, int64_t count, double gate);

// Either, by n's dtype. gate: the relative error of floats; 0 or infinity of others. held: the
// narrowest dtype that floats are held in.
CheckResult check_values(const Node *n, const double *want, const double *got, const double *bound,
                         double gate, Dtype held);

// An output of the model as written, or what a state holds then, whose value has been evaluated.
// dtype: as of --dtype; stored: what the device stores it in.
CheckResult check_model_output(Graph *g, const Node *node, double **value, const double *got,
                               const char *dtype, Dtype stored);

// Of the table of templates: the error a product may have beside rounding its outputs; may the
// element-wise bound be carried from the anchor through to the outputs?
double check_contract_gate(const Group *g);
bool check_contract_bounded(const Group *g);

// Bytes of host memory that checking takes, roughly.
int64_t check_bytes(const Graph *g);

// Evaluates the group in double on the inputs the device has, and compares all it wrote.
CheckResult check_group(Compiler *c, const Group *g, CheckRead read, void *user);

// The same in two steps, for several kernels of one group: `check_want` evaluates (null: an input
// cannot be read), each `check_against` compares. Freed with check_free.
typedef struct CheckWant CheckWant;
CheckWant *check_want(Compiler *c, const Group *g, CheckRead read, void *user);
CheckResult check_against(const CheckWant *want, CheckRead read, void *user);
void check_free(CheckWant *want);

// Evaluates the model as written; (*value)[id] holds its outputs. `read` gives inputs and
// parameters. Free with eval_free(c->original, value) and free(value).
bool check_reference(Compiler *c, CheckRead read, void *user, double ***value);

// ---- ids.c
// Has the entry, of the model as written, gathers whose ids are to be checked before a run?
bool ids_wanted(Graph *original, int entry);
// Checks them: err_at names the first that is outside its table. False: a source cannot be read.
bool ids_check(Compiler *c, int entry, CheckRead read, void *user);

// ---- rounding.c: how far rounding alone may take each element -----------------------------------
// Would got, n's elements as the device has them, pass check_values less what comes of values
// before n being off by some units of roundoff? 0: no; else the relative error that is allowed so.
// value: in double, n's and those of the inputs of group g; g null: of the sources of the graph.
double rounding_explains(Graph *graph, const Group *g, double *const *value, const Node *n,
                         double unit, const double *got, const double *bound, double gate);

// ---- hidden.c: attention skips what no query sees -----------------------------------------------
// Where got, n's elements as the device has them, is finite and value[n->id] is not: there the
// value becomes what it is if 0 times anything is 0. g, value: as above.
void hidden_allow(Graph *graph, const Group *g, double **value, const Node *n, const double *got);

#endif
