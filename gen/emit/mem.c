// mem.c: arena offsets. Each value has a size and a lifetime (first to last step); values live at
// the same time must not overlap. Tries several greedy first-fit placements, each in another order,
// and keeps the best (arXiv:2001.03288: greedy by size). Lower bound: the most bytes live at a
// step.
#include "emit.h"

#include <stdlib.h>
#include <string.h>

enum { kAlign = 256 };

typedef struct Item {
  int index, first, last;
  int64_t bytes, offset;
} Item;

static int64_t aligned(int64_t bytes) {
  return (bytes + kAlign - 1) / kAlign * kAlign;
}

// ---- placement orders -------------------------------------------------------------------------

static int64_t span(const Item *a) {
  return a->last - a->first + 1;
}

static int compare(int64_t a, int64_t b, const void *x, const void *y) {
  if (a != b) return a > b ? -1 : 1;
  const Item *i = x, *j = y;
  return i->first != j->first ? i->first - j->first : i->index - j->index;
}

static int by_size(const void *x, const void *y) {
  return compare(((const Item *)x)->bytes, ((const Item *)y)->bytes, x, y);
}
static int by_area(const void *x, const void *y) {
  const Item *a = x, *b = y;
  return compare(a->bytes * span(a), b->bytes * span(b), x, y);
}
static int by_span(const void *x, const void *y) {
  return compare(span(x), span(y), x, y);
}
static int by_start(const void *x, const void *y) {
  return compare(-((const Item *)x)->first, -((const Item *)y)->first, x, y);
}

static int (*const orders[])(const void *, const void *) = {by_size, by_area, by_span, by_start};

// ---- first fit --------------------------------------------------------------------------------

static int by_offset(const void *x, const void *y) {
  const Item *a = *(Item *const *)x, *b = *(Item *const *)y;
  return (a->offset > b->offset) - (a->offset < b->offset);
}

// Places items in the order given, each in the lowest gap among those live at the same time.
static int64_t place(Item *items, int count, Item **near) {
  int64_t total = 0;
  for (int i = 0; i < count; i++) {
    int n = 0;
    for (int j = 0; j < i; j++)
      if (items[j].first <= items[i].last && items[i].first <= items[j].last) near[n++] = &items[j];
    qsort(near, (size_t)n, sizeof *near, by_offset);
    int64_t at = 0;
    for (int j = 0; j < n && near[j]->offset < at + items[i].bytes; j++)
      if (near[j]->offset + near[j]->bytes > at) at = near[j]->offset + near[j]->bytes;
    items[i].offset = at;
    if (at + items[i].bytes > total) total = at + items[i].bytes;
  }
  return total;
}

// Placement in order of start with a window of live values: linear, for many short-lived values.
static int64_t place_living(Item *items, int count, Item **near) {
  int64_t total = 0;
  int n = 0;
  qsort(items, (size_t)count, sizeof *items, by_start);
  for (int i = 0; i < count; i++) {
    int alive = 0;
    for (int j = 0; j < n; j++)
      if (near[j]->last >= items[i].first) near[alive++] = near[j];
    n = alive;
    int64_t at = 0;
    for (int j = 0; j < n && near[j]->offset < at + items[i].bytes; j++)
      if (near[j]->offset + near[j]->bytes > at) at = near[j]->offset + near[j]->bytes;
    items[i].offset = at;
    int slot = n++;
    for (; slot && near[slot - 1]->offset > at; slot--) near[slot] = near[slot - 1];
    near[slot] = &items[i];
    if (at + items[i].bytes > total) total = at + items[i].bytes;
  }
  return total;
}

static int64_t live_bound(const Item *items, int count) {
  int last = 0;
  for (int i = 0; i < count; i++) last = items[i].last > last ? items[i].last : last;
  int64_t *change = calloc((size_t)last + 2, sizeof *change), most = 0, now = 0;
  if (!change) die("out of memory");
  for (int i = 0; i < count; i++) {
    change[items[i].first] += items[i].bytes;
    change[items[i].last + 1] -= items[i].bytes;
  }
  for (int t = 0; t <= last; t++) {
    now += change[t];
    if (now > most) most = now;
  }
  free(change);
  return most;
}

enum { kPortfolioMost = 600 }; // above, the quadratic placements would dominate compile time

static void keep(const Item *items, int count, int64_t *offset) {
  for (int i = 0; i < count; i++) offset[items[i].index] = items[i].offset;
}

void mem_plan(int count, const int64_t *bytes, const int *first, const int *last, int64_t *offset,
              int64_t *total, int64_t *bound) {
  Item *items = calloc((size_t)count + 1, sizeof *items);
  Item **near = calloc((size_t)count + 1, sizeof *near);
  if (!items || !near) die("out of memory");
  for (int i = 0; i < count; i++) items[i] = (Item){i, first[i], last[i], aligned(bytes[i]), 0};
  *bound = live_bound(items, count);
  *total = place_living(items, count, near);
  keep(items, count, offset);
  for (size_t o = 0; o < sizeof orders / sizeof orders[0]; o++) {
    if (*total == *bound || count > kPortfolioMost) break;
    qsort(items, (size_t)count, sizeof *items, orders[o]);
    int64_t got = place(items, count, near);
    if (got >= *total) continue;
    *total = got;
    keep(items, count, offset);
  }
  free(items);
  free(near);
}
