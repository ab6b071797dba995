// train.h: the verb `train`: runs the entries train and eval of a model on a data set, with
// checkpoints and logs in an output folder.
#ifndef NNGEN_TRAIN_VERB_H
#define NNGEN_TRAIN_VERB_H

#include "gen/cli/cli.h"
#include "nngen_train.h"

// ---- train.c: `nngen train`: compiles, opens data and folder, loads ----------------------------
enum { kMostMetrics = 16 };

typedef struct Metrics { // scalar outputs of an entry, as "train.loss"
  int count;
  int tensor[kMostMetrics];
  const char *name[kMostMetrics];   // without the entry's name: "loss"
  double value[kMostMetrics];       // of the last step whose results were read
  double sum[kMostMetrics], weight; // over an epoch
  double missed[kMostMetrics];      // weight of skipped steps without such a number
  bool fresh[kMostMetrics];         // `value` is of the last step, not of an earlier one
  Tap *tap;                         // copies them to the host; null: not open
} Metrics;

typedef struct Saving Saving; // a checkpoint in memory

typedef struct Train {
  const Cli *cli;
  Compiler compiler;
  Plan *plan;
  Tuning *tuning;
  Device *device;
  Arch arch;
  Loaded *loaded;
  Params *params;                             // the initial values in this process
  Replay *replay, *replay_eval, *replay_near; // captured graphs: train, eval, neighbours
  Dataset *data, *test;                       // null: the model generates its data
  Loader *loader;
  Feed *feed; // null: no data
  RunLog *log;
  int images, labels, valid, step, steps, embedding, picture; // tensors of the plan, or -1
  int32_t valid_now;                                          // goes to `valid`
  int64_t batch, per_epoch, total; // examples in a step; steps in an epoch, in all
  int64_t first, done, read;       // steps before this process; launched so far; read so far
  int64_t accumulate;              // steps whose gradients make an update
  bool scaled;                     // the loss, for gradients in f16
  int64_t saved;                   // step of the last checkpoint of this process, or -1
  int64_t most_steps;              // --steps; 0: all epochs
  int64_t seed, save_every, log_every, patience, workers, warmup_iters, bad_epochs;
  const char *folder, *model;
  ParamsReport filled; // parameters and states, as loaded
  int lock; // descriptor of the lock file, or -1
  Metrics metrics, eval, near;
  char examples[32]; // number of examples in the test set, as a setting
  char sample[17];   // checksum of some training pictures and labels, in hexadecimal, or ""
  double drawn;      // when the line of steps was written last, by train_now
  double begin,
      aside; // start of the first step, by train_now; seconds since then spent outside steps
  double best, stored; // best accuracy (or lowest loss, negative) of eval; that of _best
  double first_loss;   // of this run, at least 1; 0 before it
  bool has_best, has_stored, wrote_best, warned_log, warned_best, warned_loss;
  Saving *unwritten; // the best, as long as it cannot be written; null: it is
  char bad[256];     // a non-finite value that ends the run, or ""
  int64_t skipped;   // updates in a row whose gradients are not finite
  int64_t lost;      // consecutive skipped steps whose loss is not finite either
  bool silent;       // a run of a sweep: writes and prints nothing
} Train;

typedef struct FusionLeft { // of a step, by the cost model
  int kernels;
  double bytes, between; // of DRAM traffic; of it between kernels
  double seconds, gain;  // of all kernels; the most of it that fusion could still save
} FusionLeft;

// Results of one run; times are milliseconds per step.
typedef struct TrainSummary {
  double rate, ms_step;            // examples/s and wall time of a step in the run
  double ms, ms_phase[PhaseCount]; // of kernels, by events
  int64_t bytes;                   // of device memory
  double loss, accuracy;           // NaN if absent
  FusionLeft fusion;
} TrainSummary;

double train_now(void);                      // seconds
int train_write_steps(Train *t, Error *err); // how many, to the device: schedules read it
double train_mean(const Metrics *m, int i);  // over the epoch; NaN: no step had this number
void train_forget(Metrics *m);               // begins another epoch
int train_one(const Cli *cli, TrainSummary *summary, Error *err); // summary null: prints
int train_sweep(const Cli *cli, Error *err);                      // train_sweep.c: --sweep

// train_inputs.c: checks that a data set provides the inputs: images, labels and valid.
int train_find_input(const Train *t, const char *name); // or -1
int train_classes(const Train *t);                      // that the labels are of; 0: any
int train_need_inputs(const Train *t, Error *err);

// train_run.c: the loop over steps, evaluations and checkpoints.
int train_run(Train *t, Error *err);
int train_open_loader(Train *t, int64_t first, Error *err);
int train_next_batch(Train *t, Error *err); // to the device
int train_put_batch(Train *t, const Batch *batch, Error *err);
int train_signal(void); // the signal received, or 0
void train_watch_early(void); // until train_run(), a signal ends the process

// train_eval.c: an evaluation on the test split; one interrupted by a signal is discarded.
int train_evaluate(Train *t, int64_t epoch, Error *err);

// train_bad.c: is the loss, or are gradients or weights, not finite? Sets t->bad; then finds the
// first such value of step t->read.
void train_check_step(Train *t, const double *now); // the metrics of step t->read
bool train_is_lost(const Train *t, const double *now);
int train_check_weights(Train *t, Error *err);
int train_find_bad(Train *t, Error *err);

// train_save.c: resuming from FOLDER/MODEL_last.safetensors is bit-identical; _best is the
// checkpoint of the best evaluation, _final_weights has only parameters.
int train_open_folder(Train *t, Error *err); // and locks it
void train_unlock(Train *t);
int train_save(Train *t, const char *kind, bool weights_alone, Error *err);
int train_keep_best(Train *t, Error *err);  // the states as they are now, in memory
int train_write_best(Train *t, Error *err); // the stored best checkpoint, if any
void train_drop_best(Train *t);
int train_say_kept(const Train *t, Error *err); // appends this run's checkpoints to the error
bool train_is_weight(const Train *t, const char *name);
bool train_is_kept(const char *name); // in a checkpoint
bool train_has_file(const char *path);
void train_path(const Train *t, const char *kind, char *path, size_t size); // of "last", say
int64_t train_pictures(const Train *t); // for training; 0: the model generates its data
int train_open_log(Train *t, int64_t step, Error *err); // a resumed one keeps lines up to the step

// train_begin.c: parameters and states from --resume, --init with --reset, or the seed.
int train_open_params(Train *t, Error *err);
// True if a pattern of the comma-separated list matches the name or a layer that contains it.
bool train_fits(const char *patterns, const char *name);

void train_fusion(const Train *t, FusionLeft *f); // train_fusion.c

// train_report.c, train_summary.c: progress lines and the summary.
void train_report_begin(const Train *t);
double train_rate(const Train *t); // examples/s of this process, evaluations left out
void train_report_step(Train *t);
void train_report_epoch(Train *t, int64_t epoch, bool evaluated);
void train_report_last(const Train *t, double seconds);
// The step that was marked, as the device counts them.
int train_report_profiled(const Train *t, Error *err);
int train_report_end(Train *t, TrainSummary *summary, Error *err);
int train_launches(const Train *t, const char *entry);

#endif
