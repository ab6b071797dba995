// nvtx.c: named ranges for profilers (nsys, ncu), in the domain `nngen`.
//
// The headers of NVTX 3 hold the whole library: without a tool a push and a pop cost a few
// nanoseconds, and every handle is NULL, which is no error. Names are registered once, because nsys
// starts a capture on registered names only; the attributes of a range are built once, too. If
// the headers were missing at build time, or with NNGEN_NO_NVTX (make NVTX=off), these functions do
// nothing (nvtx_available).
#include <stdlib.h>
#include <string.h>

#include "device/device.h"

bool nvtx_parse(const char *name, NvtxLevel *level) {
  static const char *const names[] = {"off", "model", "layer"};
  for (int i = 0; i < COUNT(names); i++)
    if (!strcmp(name, names[i])) return *level = (NvtxLevel)i, true;
  return false;
}

#if __has_include(<nvtx3/nvToolsExt.h>) && !defined NNGEN_NO_NVTX
#include <nvtx3/nvToolsExt.h>

struct Nvtx {
  nvtxDomainHandle_t domain;
};

struct NvtxRanges {
  int count;
  nvtxEventAttributes_t events[];
};

bool nvtx_available(void) {
  return true;
}

Nvtx *nvtx_open(void) {
  static const struct {
    NvtxCategory category;
    const char *name;
  } categories[] = {{NvtxForward, "forward"},     {NvtxBackward, "backward"},
                    {NvtxOptimizer, "optimizer"}, {NvtxData, "data"},
                    {NvtxCompile, "compile"},     {NvtxMemory, "memory"},
                    {NvtxMetrics, "metrics"}};
  Nvtx *nvtx = heap_alloc(1, sizeof *nvtx);
  if (!nvtx) return NULL;
  nvtx->domain = nvtxDomainCreateA("nngen");
  for (int i = 0; i < COUNT(categories); i++)
    nvtxDomainNameCategoryA(nvtx->domain, categories[i].category, categories[i].name);
  return nvtx;
}

void nvtx_close(Nvtx *nvtx) {
  if (nvtx && nvtx->domain) nvtxDomainDestroy(nvtx->domain);
  free(nvtx);
}

NvtxRanges *nvtx_ranges(int count) {
  NvtxRanges *ranges =
      heap_alloc(1, sizeof *ranges + (size_t)count * sizeof(nvtxEventAttributes_t));
  if (ranges) ranges->count = count;
  return ranges;
}

void nvtx_ranges_free(NvtxRanges *ranges) {
  free(ranges);
}

// ncu's filters give these characters a meaning: names must not have them.
static void clean_name(const char *name, char *clean, size_t size) {
  snprintf(clean, size, "%s", name);
  for (char *c = clean; *c; c++)
    if (strchr("@,[]/*+\\$", *c)) *c = '_';
}

static void set_event(Nvtx *nvtx, nvtxEventAttributes_t *event, const char *name,
                      NvtxCategory category, uint32_t color) {
  char clean[256];
  clean_name(name, clean, sizeof clean);
  *event = (nvtxEventAttributes_t){0};
  event->version = NVTX_VERSION;
  event->size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  event->category = category;
  event->colorType = NVTX_COLOR_ARGB;
  event->color = color;
  event->payloadType = NVTX_PAYLOAD_TYPE_UNSIGNED_INT64;
  event->messageType = NVTX_MESSAGE_TYPE_REGISTERED;
  event->message.registered = nvtxDomainRegisterStringA(nvtx->domain, clean);
}

void nvtx_range_set(Nvtx *nvtx, NvtxRanges *ranges, int index, const char *name,
                    NvtxCategory category, uint32_t color) {
  if (nvtx && ranges) set_event(nvtx, &ranges->events[index], name, category, color);
}

void nvtx_push(Nvtx *nvtx, NvtxRanges *ranges, int index, uint64_t payload) {
  if (!nvtx || !ranges) return;
  ranges->events[index].payload.ullValue = payload;
  nvtxDomainRangePushEx(nvtx->domain, &ranges->events[index]);
}

void nvtx_push_named(Nvtx *nvtx, const char *name, NvtxCategory category, uint32_t color) {
  nvtxEventAttributes_t event;
  if (!nvtx) return;
  set_event(nvtx, &event, name, category, color);
  nvtxDomainRangePushEx(nvtx->domain, &event);
}

void nvtx_pop(Nvtx *nvtx) {
  if (nvtx) nvtxDomainRangePop(nvtx->domain);
}

#else

bool nvtx_available(void) {
  return false;
}
Nvtx *nvtx_open(void) {
  return NULL;
}
void nvtx_close(Nvtx *nvtx) {
  (void)nvtx;
}
NvtxRanges *nvtx_ranges(int count) {
  return (void)count, NULL;
}
void nvtx_ranges_free(NvtxRanges *ranges) {
  (void)ranges;
}
void nvtx_range_set(Nvtx *nvtx, NvtxRanges *ranges, int index, const char *name,
                    NvtxCategory category, uint32_t color) {
  (void)nvtx, (void)ranges, (void)index, (void)name, (void)category, (void)color;
}
void nvtx_push(Nvtx *nvtx, NvtxRanges *ranges, int index, uint64_t payload) {
  (void)nvtx, (void)ranges, (void)index, (void)payload;
}
void nvtx_push_named(Nvtx *nvtx, const char *name, NvtxCategory category, uint32_t color) {
  (void)nvtx, (void)name, (void)category, (void)color;
}
void nvtx_pop(Nvtx *nvtx) {
  (void)nvtx;
}

#endif
