// replay.c: an entry captured once as a CUDA graph and launched with one call.
#include <stdlib.h>

#include "exec/exec.h"

struct Replay {
  Loaded *loaded;
  int entry;
  CUgraph graph;
  CUgraphExec exec;
};

// Disables ranges: while capturing, they would mark a time in which nothing runs.
static int capture(Replay *replay, Error *err) {
  Loaded *loaded = replay->loaded;
  const DriverApi *api = &loaded->device->api;
  NvtxLevel level = loaded->nvtx_level;
  int rc = CU(api, err, cuStreamBeginCapture, loaded->device->stream,
              CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  loaded->nvtx_level = NvtxOff;
  if (!rc) rc = run_enqueue(loaded, replay->entry, err);
  loaded->nvtx_level = level;
  Error end = {0}; // the capture must end in any case; the first failure is reported
  int ended = CU(api, &end, cuStreamEndCapture, loaded->device->stream, &replay->graph);
  if (!rc && ended) *err = end;
  return rc ? rc : ended;
}

int replay_capture(Loaded *loaded, const char *entry, Replay **out, Error *err) {
  const DriverApi *api = &loaded->device->api;
  *out = NULL;
  Replay *replay = heap_alloc(1, sizeof *replay);
  if (!replay) return heap_error(err, "capturing a graph");
  replay->loaded = loaded;
  int rc = run_find_entry(loaded, entry, &replay->entry, err);
  if (!rc) rc = capture(replay, err);
  if (!rc) rc = CU(api, err, cuGraphInstantiate, &replay->exec, replay->graph, 0);
  if (!rc) rc = CU(api, err, cuGraphUpload, replay->exec, loaded->device->stream);
  if (rc)
    replay_close(replay);
  else
    *out = replay;
  return rc;
}

int replay_enqueue(Replay *replay, Error *err) {
  Loaded *loaded = replay->loaded;
  run_push(loaded, replay->entry);
  int rc = CU(&loaded->device->api, err, cuGraphLaunch, replay->exec, loaded->device->stream);
  run_pop(loaded);
  return rc;
}

int replay_run(Replay *replay, Error *err) {
  const Device *device = replay->loaded->device;
  int rc = replay_enqueue(replay, err);
  return rc ? rc : CU(&device->api, err, cuStreamSynchronize, device->stream);
}

void replay_close(Replay *replay) {
  if (!replay) return;
  const DriverApi *api = &replay->loaded->device->api;
  if (replay->exec) api->cuGraphExecDestroy(replay->exec);
  if (replay->graph) api->cuGraphDestroy(replay->graph);
  free(replay);
}
