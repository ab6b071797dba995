// tuning.h: measured tiles, kept in a JSON file that users may read and edit. A part of sched.h.
//
//   { "schema_version": 1,
//     "devices": { "NVIDIA H200": {
//         "fp16 conv 1x64x56x56 by 64x64x3x3 stride 1x1 pad 1,1,1,1":
//           { "tile": "64x32 warps 32x16 stages 4 parts 1", "us": 3.1, "us_cold": 6.2,
//           "model_us": 4.4 } } } }
//
// A compilation uses the tile stored for its device and problem; only `tile` is required. An entry
// whose tile is no longer a candidate is ignored, with a message.
#ifndef NNGEN_SCHED_TUNING_H
#define NNGEN_SCHED_TUNING_H

#include "gen/fuse/fuse.h"

typedef struct TuningEntry { // times in microseconds; 0: not given
  const char *tile;
  double us;       // measured with a warm L2
  double us_cold;  // measured with a cold L2
  double model_us; // predicted
} TuningEntry;

Tuning *tuning_new(void);
void tuning_free(Tuning *tuning);
// Errors: ExitBadInput, "FILE:LINE: why"; also for a missing file, unless `may_lack`: then empty.
int tuning_read(const char *path, bool may_lack, Tuning **tuning, Error *err);
// Writes atomically, keeping entries of the file for other devices and problems.
int tuning_write(const Tuning *tuning, const char *path, Error *err);

// False: no entry. `device` must equal the stored name, or, without a device, be a word of it (the
// architecture's GPU): "H200" matches "NVIDIA H200".
bool tuning_find(const Tuning *tuning, const char *device, const char *problem, TuningEntry *entry);
// Number of entries for other devices, one of which is *other; *own: entries for this device.
int tuning_count(const Tuning *tuning, const char *device, int *own, const char **other);
void tuning_put(Tuning *tuning, const char *device, const char *problem, const TuningEntry *entry);

// The candidate measured as fastest for this group's problem on Options.device; NULL if there is
// none, or if it is no longer a candidate (then Compiler.stale is set).
const Tile *tuning_pick(const Group *g, const Tile *candidates, int count);
void tuning_explain(const Group *g, FILE *file); // prints its entry, and whether it was tuned

const char *tuning_problem(const Group *g);           // key, in the compiler's arena
const char *tuning_tile(Arena *arena, const Tile *t); // text that identifies a candidate

#endif
