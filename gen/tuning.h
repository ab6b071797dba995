// tuning.h: measured choices of tiles, kept in a JSON file that people may read, edit and ship.
//
//   { "schema_version": 1,
//     "devices": { "NVIDIA H200": {
//         "fp16 conv 1x64x56x56 by 64x64x3x3 stride 1x1 pad 1,1,1,1":
//           { "tile": "64x32 warps 32x16 stages 4 parts 1", "us": 3.1, "us_cold": 6.2,
//           "model_us": 4.4 } } } }
//
// A compilation takes the tile of its device and problem; `tile` alone must be there, the rest is
// for people. An entry whose tile is no candidate any more is passed over, and told.
#ifndef NNGEN_TUNING_H
#define NNGEN_TUNING_H

#include "nngen.h"

typedef struct TuningEntry { // microseconds; 0: not given
  const char *tile;
  double us, us_cold, model_us; // warm and cold L2; what the model expected of this tile
} TuningEntry;

Tuning *tuning_new(void);
void tuning_free(Tuning *tuning);

// Errors: ExitBadInput, "FILE:LINE: why". A missing file is one too, unless `may_lack`: then empty.
int tuning_read(const char *path, bool may_lack, Tuning **tuning, Error *err);
// Written whole or not at all; entries it held for other devices and problems stay.
int tuning_write(const Tuning *tuning, const char *path, Error *err);

// False: nothing is stored. Names of devices are compared whole, or, for a compilation without a
// device, with the GPU the architecture is known by: "NVIDIA H200" is an "H200".
bool tuning_find(const Tuning *tuning, const char *device, const char *problem, TuningEntry *entry);
// Entries for other devices than this one, of which *other is one; *own: those for it.
int tuning_count(const Tuning *tuning, const char *device, int *own, const char **other);
void tuning_put(Tuning *tuning, const char *device, const char *problem, const TuningEntry *entry);

// For a compilation: the candidate that was measured as the fastest for the problem of this group
// on Options.device. Null: none was; or it is no candidate any more, which Compiler.stale then
// tells.
const Tile *tuning_pick(const Group *g, const Tile *candidates, int count);
void tuning_explain(const Group *g, FILE *file); // the entry it would have; whether it was tuned

const char *tuning_problem(const Group *g);       // in the compiler's arena
const char *tuning_tile(const Tile *t);           // what tells one candidate from the others
char *tuning_default_path(const char *cache_dir); // or null; to be freed

#endif
