// feed.c: batches to the device and results back, while it computes.
//
// A batch is copied from pinned memory to a buffer on the device by a separate stream, and from
// there to the plan's inputs by the device's: the bus transfer overlaps with the step before.
// With two buffers it does not wait until the batch before has been read. Events order all
// copies; the host waits only before it overwrites its own memory.
#include <stdlib.h>
#include <string.h>

#include "exec/exec.h"

enum { Buffers = 2, MostTensors = 32, Alignment = 256 };

void *pinned_take(void *device, size_t bytes) {
  const Device *of = device;
  void *memory = NULL;
  if (of->api.cuMemAllocHost(&memory, bytes ? bytes : 1)) return NULL;
  return memset(memory, 0, bytes);
}

void pinned_give(void *device, void *memory) {
  const Device *of = device;
  if (memory) of->api.cuMemFreeHost(memory);
}

static int check_tensors(const Loaded *loaded, const int *tensors, int count, Error *err) {
  if (count < 1 || count > MostTensors)
    return err_set(err, ExitUsage, "%d tensors to copy; from 1 to %d", count, MostTensors);
  for (int i = 0; i < count; i++)
    if (tensors[i] < 0 || tensors[i] >= loaded->plan->ntensors || !load_pointer(loaded, tensors[i]))
      return err_set(err, ExitUsage, "there is no tensor %d to copy", tensors[i]);
  return ExitOk;
}

// ---- to the device -----------------------------------------------------------------------------

struct Feed {
  Loaded *loaded;
  CUstream stream; // of the copies from the host
  int tensors[MostTensors], count;
  size_t offset[MostTensors];   // in a buffer
  CUdeviceptr buffers[Buffers]; // batch n uses buffer n % Buffers
  CUevent copied[Buffers];      // from the host
  CUevent moved[Buffers];       // to the inputs: the buffer is free
  int64_t batches;              // put
};

static int open_buffers(Feed *feed, size_t bytes, Error *err) {
  const DriverApi *api = &feed->loaded->device->api;
  int rc = CU(api, err, cuStreamCreate, &feed->stream, CU_STREAM_NON_BLOCKING);
  for (int i = 0; i < Buffers && !rc; i++) {
    rc = CU(api, err, cuMemAlloc, &feed->buffers[i], bytes);
    if (!rc) rc = CU(api, err, cuEventCreate, &feed->copied[i], CU_EVENT_DEFAULT);
    if (!rc) rc = CU(api, err, cuEventCreate, &feed->moved[i], CU_EVENT_DEFAULT);
  }
  return rc;
}

int feed_open(Loaded *loaded, const int *tensors, int count, Feed **out, Error *err) {
  *out = NULL;
  int rc = check_tensors(loaded, tensors, count, err);
  if (rc) return rc;
  Feed *feed = heap_alloc(1, sizeof *feed);
  if (!feed) return heap_error(err, "copying batches");
  feed->loaded = loaded;
  feed->count = count;
  size_t bytes = 0;
  for (int i = 0; i < count; i++) {
    feed->tensors[i] = tensors[i];
    feed->offset[i] = bytes;
    bytes += (size_t)loaded->plan->tensors[tensors[i]].bytes + Alignment - 1;
    bytes -= bytes % Alignment;
  }
  rc = open_buffers(feed, bytes, err);
  if (rc)
    feed_close(feed);
  else
    *out = feed;
  return rc;
}

static size_t bytes_of(const Feed *feed, int i) {
  return (size_t)feed->loaded->plan->tensors[feed->tensors[i]].bytes;
}

static int copy_in(Feed *feed, int slot, const void *const *stored, Error *err) {
  const DriverApi *api = &feed->loaded->device->api;
  int rc = feed->batches >= Buffers
               ? CU(api, err, cuStreamWaitEvent, feed->stream, feed->moved[slot], 0)
               : ExitOk;
  for (int i = 0; i < feed->count && !rc; i++)
    rc = CU(api, err, cuMemcpyHtoDAsync, feed->buffers[slot] + feed->offset[i], stored[i],
            bytes_of(feed, i), feed->stream);
  return rc ? rc : CU(api, err, cuEventRecord, feed->copied[slot], feed->stream);
}

static int move_on(Feed *feed, int slot, Error *err) {
  const DriverApi *api = &feed->loaded->device->api;
  CUstream stream = feed->loaded->device->stream;
  int rc = CU(api, err, cuStreamWaitEvent, stream, feed->copied[slot], 0);
  for (int i = 0; i < feed->count && !rc; i++)
    rc = CU(api, err, cuMemcpyDtoDAsync, load_pointer(feed->loaded, feed->tensors[i]),
            feed->buffers[slot] + feed->offset[i], bytes_of(feed, i), stream);
  return rc ? rc : CU(api, err, cuEventRecord, feed->moved[slot], stream);
}

int feed_put(Feed *feed, const void *const *stored, Error *err) {
  int slot = (int)(feed->batches % Buffers);
  int rc = copy_in(feed, slot, stored, err);
  if (!rc) rc = move_on(feed, slot, err);
  if (!rc) feed->batches++;
  return rc;
}

int feed_wait(Feed *feed, Error *err) {
  if (!feed || !feed->batches) return ExitOk;
  return CU(&feed->loaded->device->api, err, cuEventSynchronize,
            feed->copied[(feed->batches - 1) % Buffers]);
}

void feed_close(Feed *feed) {
  if (!feed) return;
  const DriverApi *api = &feed->loaded->device->api;
  if (feed->stream) api->cuStreamSynchronize(feed->stream);
  api->cuStreamSynchronize(feed->loaded->device->stream); // it reads the buffers
  for (int i = 0; i < Buffers; i++) {
    if (feed->buffers[i]) api->cuMemFree(feed->buffers[i]);
    if (feed->copied[i]) api->cuEventDestroy(feed->copied[i]);
    if (feed->moved[i]) api->cuEventDestroy(feed->moved[i]);
  }
  if (feed->stream) api->cuStreamDestroy(feed->stream);
  free(feed);
}

// ---- and back ----------------------------------------------------------------------------------

struct Tap {
  Loaded *loaded;
  int tensors[MostTensors], count;
  CUdeviceptr begin; // of one piece of memory that holds all tensors
  size_t bytes;
  uint8_t *ring; // pinned: TapDepth times `bytes`
  CUevent arrived[TapDepth];
  int64_t put, taken;
};

// One copy transfers all results of an entry, which are adjacent.
static void find_span(Tap *tap) {
  CUdeviceptr end = 0;
  for (int i = 0; i < tap->count; i++) {
    CUdeviceptr at = load_pointer(tap->loaded, tap->tensors[i]);
    CUdeviceptr after = at + (CUdeviceptr)tap->loaded->plan->tensors[tap->tensors[i]].bytes;
    if (!i || at < tap->begin) tap->begin = at;
    if (after > end) end = after;
  }
  tap->bytes = (size_t)(end - tap->begin);
}

int tap_open(Loaded *loaded, const int *tensors, int count, Tap **out, Error *err) {
  *out = NULL;
  int rc = check_tensors(loaded, tensors, count, err);
  if (rc) return rc;
  Tap *tap = heap_alloc(1, sizeof *tap);
  if (!tap) return heap_error(err, "reading results");
  tap->loaded = loaded;
  tap->count = count;
  memcpy(tap->tensors, tensors, (size_t)count * sizeof *tensors);
  find_span(tap);
  tap->ring = pinned_take(loaded->device, TapDepth * tap->bytes);
  if (!tap->ring) rc = heap_error(err, "pinned memory for results");
  for (int i = 0; i < TapDepth && !rc; i++)
    rc = CU(&loaded->device->api, err, cuEventCreate, &tap->arrived[i], CU_EVENT_DEFAULT);
  if (rc)
    tap_close(tap);
  else
    *out = tap;
  return rc;
}

int tap_put(Tap *tap, Error *err) {
  const Device *device = tap->loaded->device;
  int slot = (int)(tap->put % TapDepth);
  if (tap_pending(tap) == TapDepth)
    return err_set(err, ExitUsage, "results of %d steps are already pending", TapDepth);
  int rc = CU(&device->api, err, cuMemcpyDtoHAsync, tap->ring + (size_t)slot * tap->bytes,
              tap->begin, tap->bytes, device->stream);
  if (!rc) rc = CU(&device->api, err, cuEventRecord, tap->arrived[slot], device->stream);
  if (!rc) tap->put++;
  return rc;
}

int tap_pending(const Tap *tap) {
  return (int)(tap->put - tap->taken);
}

int tap_take(Tap *tap, double *values, Error *err) {
  int slot = (int)(tap->taken % TapDepth);
  if (!tap_pending(tap)) return err_set(err, ExitUsage, "no results are pending");
  int rc = CU(&tap->loaded->device->api, err, cuEventSynchronize, tap->arrived[slot]);
  if (rc) return rc;
  for (int i = 0; i < tap->count; i++) {
    const PlanTensor *tensor = &tap->loaded->plan->tensors[tap->tensors[i]];
    CUdeviceptr at = load_pointer(tap->loaded, tap->tensors[i]) - tap->begin;
    tensor_to_doubles(tensor, tap->ring + (size_t)slot * tap->bytes + at, values);
    values += tensor_count(tensor);
  }
  tap->taken++;
  return ExitOk;
}

void tap_close(Tap *tap) {
  if (!tap) return;
  const Device *device = tap->loaded->device;
  device->api.cuStreamSynchronize(device->stream); // it writes the ring
  for (int i = 0; i < TapDepth; i++)
    if (tap->arrived[i]) device->api.cuEventDestroy(tap->arrived[i]);
  pinned_give(tap->loaded->device, tap->ring);
  free(tap);
}
