// record.c: writes the changes of every launch in device memory to a file (NNGEN_SIM_RECORD=FILE),
// or compares them with such a file, byte by byte (NNGEN_SIM_COMPARE=FILE). So two ways to run the
// same kernels, C++ and PTX, are compared: after a comparison memory is set to the recorded state,
// so that each kernel is judged by itself. A line per launch on stderr.
#include "sim/check/check.h"

#include <stdlib.h>
#include <string.h>

enum { kPiece = 256 }; // bytes that are compared, and written, at once

typedef struct Before { // an allocation before the launch
  const Allocation *a;
  unsigned char *bytes;
} Before;

typedef struct Piece { // of the file: bytes follow
  int serial;          // of the allocation; 0: the launch's last
  unsigned bytes;
  uint64_t offset;
} Piece;

static struct {
  FILE *file;
  bool compares, asked;
  Before *before;
  int count;
} record;

static void open_file(void) {
  const char *to = getenv("NNGEN_SIM_RECORD"), *with = getenv("NNGEN_SIM_COMPARE");
  record.asked = true;
  record.compares = with && *with;
  const char *path = record.compares ? with : to;
  if (!path || !*path) return;
  record.file = fopen(path, record.compares ? "rb" : "wb");
  if (!record.file) fprintf(stderr, "libcusim: %s cannot be opened\n", path);
}

static void forget(void) {
  for (int i = 0; i < record.count; i++) free(record.before[i].bytes);
  free(record.before);
  record.before = NULL;
  record.count = 0;
}

void record_launch(void) {
  const Allocation *a;
  if (!record.asked) open_file();
  if (!record.file) return;
  forget();
  for (int i = 0; (a = memory_at(i)); i++) {
    Before *grown = realloc(record.before, (size_t)(record.count + 1) * sizeof *grown);
    if (!grown) return;
    record.before = grown;
    grown[record.count] = (Before){a, malloc(a->bytes)};
    if (!grown[record.count].bytes) return;
    memcpy(grown[record.count++].bytes, (void *)a->begin, a->bytes);
  }
}

// ---- writing ------------------------------------------------------------------------------------

static void write_piece(const Allocation *a, size_t offset, size_t bytes) {
  Piece piece = {a->serial, (unsigned)bytes, offset};
  fwrite(&piece, sizeof piece, 1, record.file);
  fwrite((char *)a->begin + offset, 1, bytes, record.file);
}

static void write_changes(void) {
  static const Piece last;
  for (int i = 0; i < record.count; i++) {
    const Before *b = &record.before[i];
    for (size_t at = 0; at < b->a->bytes; at += kPiece) {
      size_t n = b->a->bytes - at < kPiece ? b->a->bytes - at : kPiece;
      if (memcmp(b->bytes + at, (char *)b->a->begin + at, n) != 0) write_piece(b->a, at, n);
    }
  }
  fwrite(&last, sizeof last, 1, record.file);
  fflush(record.file);
}

// ---- comparing ----------------------------------------------------------------------------------

static Before *find(int serial) {
  for (int i = 0; i < record.count; i++)
    if (record.before[i].a->serial == serial) return &record.before[i];
  return NULL;
}

// Applies the recorded launch's changes to the memory before it; false: the file ends, or does not
// match.
static bool apply_changes(void) {
  Piece piece;
  while (fread(&piece, sizeof piece, 1, record.file) == 1) {
    if (!piece.serial) return true;
    Before *b = find(piece.serial);
    if (!b || piece.offset + piece.bytes > b->a->bytes) return false;
    if (fread(b->bytes + piece.offset, 1, piece.bytes, record.file) != piece.bytes) return false;
  }
  return false;
}

// Bytes that differ; memory becomes the recorded run's.
static size_t settle(size_t *first) {
  size_t differ = 0;
  for (int i = 0; i < record.count; i++) {
    const Before *b = &record.before[i];
    const unsigned char *now = (const unsigned char *)b->a->begin;
    if (memcmp(now, b->bytes, b->a->bytes) == 0) continue;
    for (size_t at = 0; at < b->a->bytes; at++) {
      if (now[at] == b->bytes[at]) continue;
      if (!differ++) *first = at;
    }
    memcpy((void *)b->a->begin, b->bytes, b->a->bytes);
  }
  return differ;
}

static void compare(const Launch *launch) {
  size_t first = 0;
  if (!apply_changes()) {
    fprintf(stderr, "libcusim: %s: not in the recorded run\n", launch->function->name);
    fclose(record.file);
    record.file = NULL;
    return;
  }
  size_t differ = settle(&first);
  if (differ)
    fprintf(stderr, "libcusim: %s: %zu bytes differ, the first at offset %zu\n",
            launch->function->name, differ, first);
  else
    fprintf(stderr, "libcusim: %s: equal\n", launch->function->name);
}

void record_launch_end(const Launch *launch) {
  if (!record.file) return;
  if (record.compares)
    compare(launch);
  else
    write_changes();
  forget();
}
