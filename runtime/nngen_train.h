// nngen_train.h: what a training loop needs besides nngen_runtime.h: batches copied to the device
// while it computes, results copied back meanwhile, the phases of a step.
//
// Each group is named after the file that implements it; the rules of nngen_runtime.h on errors
// and threads apply here, too.
#ifndef NNGEN_TRAIN_H
#define NNGEN_TRAIN_H

#include "nngen_runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- feed.c: copies the host does not wait for -------------------------------------------------

// Pinned host memory, for take and give of LoaderOptions; `device` is a Device. NULL if there is
// none left.
void *pinned_take(void *device, size_t bytes);
void pinned_give(void *device, void *memory);

// Asynchronous copies of values to some inputs: on a separate stream to one of two buffers on the
// device, and from there to the inputs after all earlier work.
typedef struct Feed Feed;

int feed_open(Loaded *loaded, const int *tensors, int count, Feed **feed, Error *err);
// Whole tensors as stored, one for each of feed_open's. Returns at once: work put on the device's
// stream after it sees the new values, `stored` must stay as it is until feed_wait.
int feed_put(Feed *feed, const void *const *stored, Error *err);
int feed_wait(Feed *feed, Error *err); // all that was put has left the host's memory
void feed_close(Feed *feed);

// Asynchronous copies of some tensors to the host, after each of the last steps.
typedef struct Tap Tap;

enum { TapDepth = 4 }; // most pending steps

int tap_open(Loaded *loaded, const int *tensors, int count, Tap **tap, Error *err);
// Copies the tensors as they are after all work enqueued so far. Returns at once. If TapDepth
// copies are pending, the caller must take the oldest first.
int tap_put(Tap *tap, Error *err);
int tap_pending(const Tap *tap); // copies put and not yet taken
// The oldest, waited for: all elements of the first tensor, then of the next.
int tap_take(Tap *tap, double *values, Error *err);
void tap_close(Tap *tap);

// ---- replay.c, run.c ---------------------------------------------------------------------------

int replay_enqueue(Replay *replay, Error *err);               // launches; returns at once
int run_wait(Loaded *loaded, Error *err);                     // until all that was launched is done
int run_start(Loaded *loaded, const char *entry, Error *err); // run_entry without waiting
void run_ranges(Loaded *loaded, NvtxLevel level);             // ranges in the next runs

// Copies all of `from` into `to` at a row (of the first dimension): both row-major, of one dtype.
int tensor_put_rows(Loaded *loaded, int from, int to, int64_t row, Error *err);

// ---- phases.c: the phases of a step, by its kernels' layer names -------------------------------

typedef enum Phase {
  PhaseForward, // all before the loss
  PhaseLoss,    // layers named after an output NAME of the entry ("train.NAME"): loss, accuracy
  PhaseBackward,
  PhaseOptimizer, // layers below optimizer_step; updates in epilogues are where their kernel is
  PhaseCount
} Phase;

const char *phase_name(Phase phase); // "forward", "loss", "backward", "optimizer_step"
// Of each step of the entry: phases[nsteps].
int phases_find(const Plan *plan, const char *entry, Phase *phases, Error *err);
// Launches the entry kernel by kernel, in a range of each phase (kernels of one phase in a row
// share it), in the forward pass with ranges of the layers' first names inside. Returns at once.
int phases_run(Loaded *loaded, const char *entry, Error *err);

// Named ranges for profilers, in the workloads' colours: training_step, train_step, data_unpack,
// validation, mar_at_5, reconstructions, memory, ...; no effect unless the device has NVTX on.
void range_push(Device *device, const char *name);
void range_pop(Device *device);

// ---- params.c ----------------------------------------------------------------------------------

// Takes ownership of `weights`, closed with *params; `path` is for messages.
int params_of_weights(Weights *weights, const char *path, uint64_t seed, Params **params,
                      Error *err);
// Source of a parameter's or state's values if there is a weights file: the file; the seed; the
// file if it has the tensor, else the seed. Default for states: ParamsFileIfThere.
typedef enum ParamsFrom { ParamsFile, ParamsSeed, ParamsFileIfThere } ParamsFrom;
typedef ParamsFrom (*ParamsChoice)(void *user, const PlanTensor *tensor);
void params_choose(Params *params, ParamsChoice choice, void *user);
// The current value of the model's setting `prefix`: errors suggest the one that the file needs.
void params_prefix(Params *params, const char *prefix);

#ifdef __cplusplus
}
#endif
#endif
