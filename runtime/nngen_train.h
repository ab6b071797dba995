// nngen_train.h: what a loop of training asks of the runtime beside nngen_runtime.h: batches that
// go to the device while it computes, results that come back meanwhile, the phases of a step.
//
// Each group carries the name of the file that implements it; what nngen_runtime.h says of errors
// and threads holds here, too.
#ifndef NNGEN_TRAIN_H
#define NNGEN_TRAIN_H

#include "nngen_runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- feed.c: copies the host does not wait for -------------------------------------------------

// Host memory that the device copies from and to by itself; take and give of LoaderOptions,
// `device` a Device. NULL: there is none.
void *pinned_take(void *device, size_t bytes);
void pinned_give(void *device, void *memory);

// Values being copied to some inputs. They are copied, on a stream of their own, to one of two
// buffers on the device, and moved from there to the inputs once all work before is done.
typedef struct Feed Feed;

int feed_open(Loaded *loaded, const int *tensors, int count, Feed **feed, Error *err);
// Whole tensors as stored, one for each of feed_open's. Returns at once: work put on the device's
// stream after it sees the new values, `stored` must stay as it is until feed_wait.
int feed_put(Feed *feed, const void *const *stored, Error *err);
int feed_wait(Feed *feed, Error *err); // all that was put has left the host's memory
void feed_close(Feed *feed);

// Values being copied to the host: those of some tensors after each of the last steps.
typedef struct Tap Tap;

enum { TapDepth = 4 }; // most pending steps

int tap_open(Loaded *loaded, const int *tensors, int count, Tap **tap, Error *err);
// The tensors as they are after all work put on the stream so far. Returns at once. The caller
// takes the oldest first when TapDepth are pending.
int tap_put(Tap *tap, Error *err);
int tap_pending(const Tap *tap); // put, and not taken
// The oldest, waited for: all elements of the first tensor, then of the next.
int tap_take(Tap *tap, double *values, Error *err);
void tap_close(Tap *tap);

// ---- replay.c, run.c ---------------------------------------------------------------------------

int replay_enqueue(Replay *replay, Error *err);               // launches; returns at once
int run_wait(Loaded *loaded, Error *err);                     // until all that was launched is done
int run_start(Loaded *loaded, const char *entry, Error *err); // run_entry without waiting
void run_ranges(Loaded *loaded, NvtxLevel level);             // of entries and layers, from now on

// Copies all of `from` into `to` at a row (of the first dimension): both row-major, of one dtype.
int tensor_put_rows(Loaded *loaded, int from, int to, int64_t row, Error *err);

// ---- phases.c: what the kernels of a step do, by their layers' names ---------------------------

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

// Ranges for profilers by name, in the workloads' colours: training_step, train_step, data_unpack,
// validation, mar_at_5, reconstructions, memory, ...; nothing where the device was opened without.
void range_push(Device *device, const char *name);
void range_pop(Device *device);

// ---- params.c ----------------------------------------------------------------------------------

// Takes `weights` over, closed with *params; `path` is for messages.
int params_of_weights(Weights *weights, const char *path, uint64_t seed, Params **params,
                      Error *err);
// Where a parameter or state has its values from, where there is a file: from it, from the seed, or
// from the file if that has it. Without a choice: states from the file if that has them.
typedef enum ParamsFrom { ParamsFile, ParamsSeed, ParamsFileIfThere } ParamsFrom;
typedef ParamsFrom (*ParamsChoice)(void *user, const PlanTensor *tensor);
void params_choose(Params *params, ParamsChoice choice, void *user);
// The model has a setting `prefix`, which is this one now: errors say which one the file wants.
void params_prefix(Params *params, const char *prefix);

#ifdef __cplusplus
}
#endif
#endif
