// plan.h: the Plan, the interface between the compiler (gen) and the runtime.
//
// gen makes one Plan per model and lowering; the runtime loads it on a device and runs its entries.
// A Plan is plain data: it owns its strings and arrays, refers to nothing outside itself (kernel
// sources and the headers they include travel inside), and can be written as JSON and read back
// (runtime/plan.c), so compiling can happen in another process or on another machine.
//
// Units: sizes and offsets in bytes, shapes in elements, work in floating-point operations.
#ifndef NNGEN_PLAN_H
#define NNGEN_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

// Process exit codes, and the `code` of every error that reaches a user.
enum ExitCode {
  ExitOk = 0,
  ExitMismatch = 1,    // a result is wrong, or slower than a stored one
  ExitUsage = 2,       // the command line, or a model file, is wrong
  ExitNoDevice = 3,    // no such device, or the device failed
  ExitNoToolchain = 4, // NVRTC, a host compiler or a package is missing
  ExitBadInput = 5     // a data file (weights, image, npy, plan) is unusable
};

// What went wrong, for the user: what, where, why, and what to do next.
typedef struct Error {
  int code;           // an ExitCode; ExitOk if no error has occurred
  char message[4096]; // UTF-8, may hold several lines, no trailing newline
} Error;

// Sets *err (printf-style) and returns `code`, so that a caller can `return err_set(...)`.
int err_set(Error *err, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));

enum { PlanMaxRank = 8 };

// DtI64 is for the border: kernels compute with 32-bit integers. DtBool is a byte, 0 or 1.
typedef enum Dtype {
  DtF32, DtF16, DtBf16, DtF64, DtI32, DtU8, DtI64, DtBool, DtCount
} Dtype;

bool dtype_is_float(Dtype dtype);

size_t dtype_size(Dtype dtype);        // bytes per element
const char *dtype_name(Dtype dtype);   // "f32", "f16", "bf16", "f64", "i32", "u8", "i64", "bool"
bool dtype_parse(const char *name, Dtype *dtype); // also takes "fp32", "float32", ...

float half_to_float(uint16_t bits);    // IEEE binary16
uint16_t half_from_float(float value); // to nearest even; overflows to infinity; NaN stays NaN
float bf16_to_float(uint16_t bits);
uint16_t bf16_from_float(float value);

// Where a tensor lives. One device allocation per space.
typedef enum Space {
  SpaceStatic, // as long as the plan is loaded: parameters in use, folded weights, inputs, outputs
  SpaceArena,  // activations; offsets are reused inside an entry
  SpaceInit    // only while the entry `init` runs: parameters as the weights file has them
} Space;

// A state is a value that persists across runs; entries read it and rewrite it.
typedef enum Role { RoleInput, RoleOutput, RoleParam, RoleTemp, RoleState } Role;

// How a parameter is filled when no weights file names it. Seeded by (plan seed, parameter name).
typedef enum InitKind { InitNone, InitConstant, InitNormal, InitUniform, InitTable } InitKind;

typedef struct PlanTensor {
  char *name;  // input, output, or parameter name; for RoleTemp the value's name in the model
  Role role;
  Space space;
  Dtype dtype;
  int rank;
  int64_t shape[PlanMaxRank]; // as the model has it, e.g. N C H W
  int order[PlanMaxRank];     // dimensions from outermost to innermost in memory; dense
  int64_t offset, bytes;      // inside its space; offset is a multiple of 256
  int value;                  // id of the IR value it holds, or -1
  InitKind init;              // RoleParam and RoleState only
  double init_a, init_b;      // constant: a, or infinite; normal: mean a, std b; uniform: a to b
  char *table; // InitTable: the elements, row-major, 8 hexadecimal digits each: the bits of an f32
  char *loc;                  // "resnet18.lua:12"
} PlanTensor;

// A number that a kernel takes by value: f32, f64, i32 or i64 (up to 2^53).
typedef struct PlanScalar {
  Dtype dtype;
  double value; // exact in dtype
} PlanScalar;

// A tensor map: layout of a tensor for bulk copies of sm_90 and later, and the box of one copy. The
// kernel's parameter is `const __grid_constant__ CUtensorMap`. Dimensions innermost first.
typedef struct PlanMap {
  int64_t offset;              // bytes from the tensor's first element to the map's
  int swizzle;                 // bytes: 0 (none), 32, 64, 128
  int rank;                    // 1 to 5
  int64_t extent[PlanMaxRank]; // elements
  int64_t stride[PlanMaxRank]; // bytes from one element to the next; [0] is an element's size
  int box[PlanMaxRank];        // elements, 1 to 256
} PlanMap;

typedef struct PlanArg {
  char *name;         // the kernel's parameter name
  int tensor;         // index into Plan.tensors; -1 for a scalar
  bool written;       // the kernel writes it (else only reads)
  PlanScalar *scalar; // the parameter is this number; null: it is of a tensor
  PlanMap *map;       // the parameter is a tensor map; null: the tensor's device address
} PlanArg;

// Launch attributes besides grid, block and shared memory.
typedef struct PlanAttributes {
  int cluster[3]; // blocks per cluster, which divide the grid; 1 1 1 if no cluster
  bool early;     // it may begin before the launch before it ended (programmatic stream
                  // serialization), and waits by griddepcontrol.wait
} PlanAttributes;

typedef struct PlanKernel {
  char *name;     // the kernel's symbol, and its place in the model: resnet18__layer1_0_conv1_relu
  char *layer;    // layer name for people and NVTX: layer1.0.conv1
  char *ops;      // the ops it fuses: "conv2d+add+relu"
  char *class_name; // op class of its anchor: map, reduce, rowwise, window, contract, ...
  char *tile;     // short form of the schedule: "128x64x32 x3"
  char *source;   // CUDA C++; includes only the plan's headers
  char *names;    // its identifiers that are named after layers, blanks between: any others would
                  // do, so kernels that differ in these (and in `name`) alone are compiled once
  char *file;     // file name for dumps and compiler messages: k07_layer1_0_conv1_relu.cu
  char *loc;      // the model line of its anchor
  int grid[3], block[3];
  int smem;       // dynamic shared memory, bytes
  int resident;   // blocks that its schedule counts on per SM; 0: as many as there happen to fit
  double flops;   // per launch
  int64_t bytes_read, bytes_written; // planned DRAM traffic per launch: each tensor once
  PlanArg *args;
  int nargs;
  PlanAttributes *attributes; // or NULL
} PlanKernel;

typedef enum StepKind { StepLaunch, StepCopy, StepMemset, StepLibrary, StepHost } StepKind;

typedef struct PlanStep {
  StepKind kind;
  int kernel;         // StepLaunch: index into Plan.kernels
  int source, target; // StepCopy: tensors (source -> target, whole); StepMemset: target, zeroed
} PlanStep;

typedef struct PlanEntry {
  char *name; // init, infer, train, or as the model names it
  PlanStep *steps;
  int nsteps;
} PlanEntry;

typedef struct PlanHeader {
  char *name; // as included: "lib/prim.cuh"
  char *text;
} PlanHeader;

typedef struct Plan {
  char *model;    // "resnet18"
  char *lowering; // fused, unfused, baseline
  char *dtype;    // requested by the user: fp32, tf32, fp16, bf16
  char *arch;     // architecture that it was scheduled for: sm_90a
  int64_t static_bytes, arena_bytes, init_bytes;
  int64_t arena_bound; // lower bound of arena_bytes: the most bytes alive at one time
  PlanTensor *tensors;
  int ntensors;
  PlanKernel *kernels;
  int nkernels;
  PlanEntry *entries;
  int nentries;
  PlanHeader *headers;
  int nheaders;
} Plan;

// Writes `plan` as JSON. Errors: ExitBadInput when the stream cannot be written.
int plan_write(const Plan *plan, FILE *file, Error *err);

// Reads and validates a plan (untrusted: every index, offset and size is checked). The caller
// frees *plan with plan_free. Errors: ExitBadInput, naming the field.
int plan_read(Plan **plan, const char *text, size_t length, Error *err);

void plan_free(Plan *plan);

// True if a step of `entry` writes the tensor. Outputs written neither by the entry that ran nor by
// `init` have no value.
bool plan_writes(const Plan *plan, const PlanEntry *entry, int tensor);

// plan_check.c: checks everything the runtime relies on; called by load_plan and plan_read. Errors:
// ExitBadInput, naming the field.
int plan_check(const Plan *plan, Error *err);

// The kernel's NVRTC program is its source plus Plan.headers; see runtime/jit/jit.c.

#ifdef __cplusplus
}
#endif
#endif
