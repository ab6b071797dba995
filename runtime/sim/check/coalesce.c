// coalesce.c: memory coalescing of warps: 32-byte sectors of global memory, banks of
// shared memory (NNGEN_SIM_COUNT=1).
//
// A request is the n-th access of a warp's lanes at one place in the code. Lanes
// run one after the other, so requests are collected per (warp, place) until every live lane has
// passed, or the block ends. A shared-memory request takes as many wavefronts as the fullest of
// the 32 four-byte banks has distinct words; accesses of 8 and 16 bytes are split into half and
// quarter warps.
#include "sim/check/check.h"

#include <stdlib.h>
#include <string.h>

enum { kSites = 1024, kBanks = 32, kSector = 32 };

typedef struct Request {
  unsigned lanes; // lanes that have passed
  int bytes;      // per lane
  uintptr_t address[kWarpLanes];
} Request;

typedef struct Site { // one place in the code, for one warp
  const void *pc;
  int warp;
  bool shared;
  unsigned passed[kWarpLanes]; // how often each lane was here
  unsigned first;              // number of requests[0]
  int count, room;
  Request *requests;
} Site;

struct Coalescer {
  Site sites[kSites];
};

static __thread struct Coalescer *here __attribute__((tls_model("initial-exec")));

static int distinct(uintptr_t *values, int count) { // sorts them
  int n = 0;
  for (int i = 0; i < count; i++) {
    int at = n;
    while (at > 0 && values[at - 1] > values[i]) at--;
    if (at > 0 && values[at - 1] == values[i]) continue;
    uintptr_t value = values[i];
    memmove(values + at + 1, values + at, (size_t)(n - at) * sizeof *values);
    values[at] = value;
    n++;
  }
  return n;
}

static int sectors(const Request *r) {
  uintptr_t list[kWarpLanes];
  int n = 0;
  for (int l = 0; l < kWarpLanes; l++)
    if (r->lanes >> l & 1) list[n++] = r->address[l] / kSector;
  return distinct(list, n); // an aligned access is in one sector
}

// Wavefronts of the lanes [from, to): the most distinct words in one bank.
static int wavefronts_of(const Request *r, int from, int to) {
  uintptr_t words[kBanks][kWarpLanes * 4];
  int counts[kBanks] = {0}, most = 0;
  int per_lane = r->bytes < 4 ? 1 : r->bytes / 4;
  for (int l = from; l < to; l++)
    for (int i = 0; i < per_lane && (r->lanes >> l & 1); i++) {
      uintptr_t word = r->address[l] / 4 + (uintptr_t)i;
      words[word % kBanks][counts[word % kBanks]++] = word;
    }
  for (int b = 0; b < kBanks; b++) {
    int n = distinct(words[b], counts[b]);
    most = n > most ? n : most;
  }
  return most;
}

static int wavefronts(const Request *r, int *ideal) {
  int parts = r->bytes <= 4 ? 1 : r->bytes / 4, lanes = kWarpLanes / parts, sum = 0;
  *ideal = 0;
  for (int p = 0; p < parts; p++) {
    int n = wavefronts_of(r, p * lanes, (p + 1) * lanes);
    sum += n;
    *ideal += n > 0;
  }
  return sum;
}

static void add(uint64_t *sum, int n) {
  __atomic_fetch_add(sum, (uint64_t)n, __ATOMIC_RELAXED);
}

static void finish(KernelCounters *c, const Site *site, const Request *r) {
  if (!r->lanes) return;
  if (site->shared) {
    int ideal, n = wavefronts(r, &ideal);
    add(&c->shared_requests, 1);
    add(&c->shared_wavefronts, n);
    add(&c->bank_conflicts, n - ideal);
  } else {
    int n = 0;
    for (int l = 0; l < kWarpLanes; l++) n += r->lanes >> l & 1;
    add(&c->global_requests, 1);
    add(&c->global_sectors, sectors(r));
    add(&c->global_ideal_sectors, (n * r->bytes + kSector - 1) / kSector);
  }
}

static Site *find(int warp, const void *pc, bool shared) {
  if (!here) here = calloc(1, sizeof *here);
  if (!here) return NULL;
  size_t start = ((uintptr_t)pc * 0x9e3779b97f4a7c15ull >> 20) + (size_t)warp * 37;
  for (size_t i = 0; i < kSites; i++) {
    Site *site = &here->sites[(start + i) % kSites];
    if (site->pc == pc && site->warp == warp && site->shared == shared) return site;
    if (site->pc) continue;
    site->pc = pc;
    site->warp = warp;
    site->shared = shared;
    return site;
  }
  return NULL; // the table is full: the rest is not counted
}

static Request *request_of(Site *site, unsigned number) {
  int at = (int)(number - site->first);
  if (at < 0) return NULL;
  if (at >= site->room) {
    int room = 2 * at + 16;
    Request *grown = realloc(site->requests, (size_t)room * sizeof *grown);
    if (!grown) return NULL;
    site->requests = grown;
    site->room = room;
  }
  for (; site->count <= at; site->count++) site->requests[site->count].lanes = 0;
  return &site->requests[at];
}

// Requests in front that all live lanes have made.
static void retire(KernelCounters *c, Site *site, unsigned live) {
  int done = 0;
  while (done < site->count && !(live & ~site->requests[done].lanes))
    finish(c, site, &site->requests[done++]);
  if (!done) return;
  site->count -= done;
  site->first += (unsigned)done;
  memmove(site->requests, site->requests + done, (size_t)site->count * sizeof *site->requests);
}

void coalesce_access(Fiber *fiber, uintptr_t address, int bytes, bool shared, const void *pc) {
  if (fiber->block->working) return; // one lane for all: no request of a warp's
  int warp = (int)(fiber->self.linear / kWarpLanes), lane = (int)(fiber->self.linear % kWarpLanes);
  Site *site = find(warp, pc, shared);
  Request *request = site ? request_of(site, site->passed[lane]++) : NULL;
  if (!request) return;
  request->bytes = bytes;
  request->address[lane] = address;
  request->lanes |= 1u << lane;
  unsigned live = fiber_warp(fiber)->live;
  if (!(live & ~request->lanes)) retire(fiber->block->launch->function->counters, site, live);
}

void coalesce_block_end(KernelCounters *counters) {
  for (int i = 0; here && i < kSites; i++) {
    Site *site = &here->sites[i];
    if (!site->pc) continue;
    for (int r = 0; r < site->count; r++) finish(counters, site, &site->requests[r]);
    Request *requests = site->requests;
    int room = site->room;
    *site = (Site){.requests = requests, .room = room};
  }
}
