// exec.h: a plan on a device, by file.
#ifndef NNGEN_RUNTIME_EXEC_H
#define NNGEN_RUNTIME_EXEC_H

#include "jit/jit.h"
#include "nngen_train.h"
#include "sim/names.h"

// ---- load.c -----------------------------------------------------------------------------------

struct Loaded {
  Device *device;
  const Plan *plan;
  JitReport report;
  CUmodule *modules;     // one per kernel; NULL where libcusim shares another's
  CUfunction *functions; // one per kernel
  CUdeviceptr spaces[3]; // by Space; 0 when it has no bytes, or is freed
  bool keep_init;        // SpaceInit stays after `init`
  union ParamWord *words; // kernel arguments that are pointers or scalars, all kernels in a row
  struct ParamMap *maps;  // the arguments that are tensor maps
  void **params;          // the address of each argument, for cuLaunchKernel
  int *first_param;       // of each kernel
  CUevent begin, end;
  CusimNameLaunch name_launch; // of libcusim; null on a GPU
  NvtxLevel nvtx_level;
  NvtxRanges *ranges; // kernels, then entries; made at the first run with ranges
  uint64_t runs;      // payload of the model range
};

void load_refuse_renamed(bool refuse); // tests: as if the driver refused images with a new name
int load_space(Loaded *loaded, Space space, Error *err); // allocates its memory, binds arguments
void load_free_space(Loaded *loaded, Space space);

// ---- bind.c -----------------------------------------------------------------------------------

CUdeviceptr load_pointer(const Loaded *loaded, int tensor);
bool bind_allocate(Loaded *loaded); // room for all arguments; scalars get their values
void bind_free(Loaded *loaded);
void bind_pointers(Loaded *loaded, Space space); // after its memory was allocated or freed
int bind_maps(Loaded *loaded, Space space, Error *err); // after its memory was allocated

// ---- tensor.c ---------------------------------------------------------------------------------

void tensor_shape_text(const PlanTensor *tensor, char *text, size_t size); // "64x3x7x7"

// ---- run.c ------------------------------------------------------------------------------------

int run_find_entry(const Loaded *loaded, const char *name, int *entry, Error *err);
int run_enqueue(Loaded *loaded, int entry, Error *err); // puts every step on the stream
int run_enqueue_step(Loaded *loaded, const PlanStep *step, Error *err);
void run_push(Loaded *loaded, int entry); // the model range, when ranges are on
void run_pop(Loaded *loaded);

#endif
