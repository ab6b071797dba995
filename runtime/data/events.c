// events.c: scalars in TensorBoard's event files.
//
// A file is TFRecords: length (u64), its masked CRC-32C, the payload, its masked CRC-32C; all
// little endian (tensorflow, core/lib/io/record_writer.h). A payload is a protobuf message
//   Event { double wall_time = 1; int64 step = 2; string file_version = 3; Summary summary = 5 }
//   Summary { repeated Value value = 1 }    Value { string tag = 1; float simple_value = 2 }
// (tensorflow, core/util/event.proto). The first one has only the file_version.
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "data/data.h"

static const char kKind[] = "TensorBoard file", kVersion[] = "brain.Event:2";

struct Events {
  char *path;
  int fd;
};

// ---- protobuf ----------------------------------------------------------------------------------

enum { WireVarint = 0, WireDouble = 1, WireBytes = 2, WireFloat = 5 };

typedef struct Writer { // counts first, with `bytes` NULL, then writes
  uint8_t *bytes;
  size_t size;
} Writer;

static void put(Writer *writer, const void *bytes, size_t size) {
  if (writer->bytes) memcpy(writer->bytes + writer->size, bytes, size);
  writer->size += size;
}

static void put_varint(Writer *writer, uint64_t value) {
  do {
    uint8_t byte = (uint8_t)((value & 127) | (value > 127 ? 128 : 0));
    put(writer, &byte, 1);
    value >>= 7;
  } while (value);
}

static void put_key(Writer *writer, int field, int wire) {
  put_varint(writer, (uint64_t)(field << 3 | wire));
}

static void put_bytes(Writer *writer, int field, const void *bytes, size_t size) {
  put_key(writer, field, WireBytes);
  put_varint(writer, size);
  put(writer, bytes, size);
}

static void put_value(Writer *writer, const LogValue *value) {
  float number = (float)value->value;
  put_bytes(writer, 1, value->name, strlen(value->name));
  put_key(writer, 2, WireFloat);
  put(writer, &number, sizeof number);
}

static void put_summary(Writer *writer, const LogValue *values, int count) {
  for (int i = 0; i < count; i++) {
    Writer size = {0};
    put_value(&size, &values[i]);
    put_key(writer, 1, WireBytes);
    put_varint(writer, size.size);
    put_value(writer, &values[i]);
  }
}

// One Event; `values` NULL: the one that begins a file.
static void put_event(Writer *writer, double wall_time, int64_t step, const LogValue *values,
                      int count) {
  Writer size = {0};
  put_key(writer, 1, WireDouble);
  put(writer, &wall_time, sizeof wall_time);
  if (!values) return put_bytes(writer, 3, kVersion, strlen(kVersion));
  put_key(writer, 2, WireVarint);
  put_varint(writer, (uint64_t)step);
  put_summary(&size, values, count);
  put_key(writer, 5, WireBytes);
  put_varint(writer, size.size);
  put_summary(writer, values, count);
}

// ---- records -----------------------------------------------------------------------------------

static uint32_t masked_crc(const uint8_t *bytes, size_t size) { // Castagnoli's, bits reversed
  uint32_t crc = UINT32_MAX;
  for (size_t i = 0; i < size; i++) {
    crc ^= bytes[i];
    for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
  }
  crc = ~crc;
  return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

static void put_record(Writer *record, const uint8_t *payload, uint64_t size) {
  uint32_t of_length = masked_crc((const uint8_t *)&size, sizeof size);
  uint32_t of_payload = masked_crc(payload, size);
  put(record, &size, sizeof size);
  put(record, &of_length, sizeof of_length);
  put(record, payload, size);
  put(record, &of_payload, sizeof of_payload);
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_REALTIME, &time);
  return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static int write_event(const Events *events, int64_t step, const LogValue *values, int count,
                       Error *err) {
  enum { AroundPayload = 16 };
  double time = now();
  Writer payload = {0}, record = {0};
  put_event(&payload, time, step, values, count);
  payload.bytes = heap_alloc(payload.size, 1);
  record.bytes = heap_alloc(payload.size + AroundPayload, 1);
  int rc = ExitOk;
  if (payload.bytes && record.bytes) {
    payload.size = 0;
    put_event(&payload, time, step, values, count);
    put_record(&record, payload.bytes, payload.size);
    rc = file_append(kKind, events->path, events->fd, record.bytes, record.size, err);
  } else {
    rc = heap_error(err, "an event for TensorBoard");
  }
  free(payload.bytes);
  free(record.bytes);
  return rc;
}

// ---- files -------------------------------------------------------------------------------------

// A name that is not taken: a second later when there is one of this second.
static int create(Events *events, const char *folder, Error *err) {
  char host[HOST_NAME_MAX + 1] = "";
  time_t second = time(NULL);
  gethostname(host, sizeof host - 1);
  for (; events->fd < 0; second++) {
    free(events->path);
    events->path =
        heap_format("%s/events.out.tfevents.%010lld.%s", folder, (long long)second, host);
    if (!events->path) return heap_error(err, "a file for TensorBoard");
    events->fd = open(events->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (events->fd < 0 && errno != EEXIST)
      return err_set(err, ExitBadInput, "%s '%s': %s", kKind, events->path, strerror(errno));
  }
  int rc = write_event(events, 0, NULL, 0, err);
  if (rc) unlink(events->path);
  return rc;
}

int events_open(const char *folder, Events **out, Error *err) {
  *out = NULL;
  Events *events = heap_alloc(1, sizeof *events);
  if (!events) return heap_error(err, "a file for TensorBoard");
  events->fd = -1;
  int rc = create(events, folder, err);
  if (rc)
    events_close(events);
  else
    *out = events;
  return rc;
}

int events_write(Events *events, int64_t step, const LogValue *values, int count, Error *err) {
  static const LogValue none;
  return write_event(events, step, count ? values : &none, count, err);
}

void events_close(Events *events) {
  if (!events) return;
  if (events->fd >= 0) close(events->fd);
  free(events->path);
  free(events);
}
