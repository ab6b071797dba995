// graph_nodes.c: nodes that a program adds to a graph explicitly: copies, fills, host calls,
// events, and empty nodes; and their parameters.
#include "sim/api/api.h"

#include <stdlib.h>

static CUresult add(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t count,
                    Work *work) {
  CUresult r = sim_context_check();
  if (r != CUDA_SUCCESS) return r;
  if (!node || !handle_is(HandleGraph, graph) || (count && !deps)) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < count; i++)
    if (!handle_is(HandleNode, deps[i]) || deps[i]->graph != graph) return CUDA_ERROR_INVALID_VALUE;
  pthread_mutex_lock(&sim_lock);
  r = graph_add(graph, deps, (int)count, work, node);
  pthread_mutex_unlock(&sim_lock);
  return r;
}

// ---- copies -------------------------------------------------------------------------------------

typedef struct Side { // of a copy, as CUDA_MEMCPY3D has it twice
  CUmemorytype type;
  uintptr_t host, device;
  size_t x, y, z, pitch, height;
} Side;

// Finds the side's first byte, and the bytes from row to row. Planes must be contiguous like rows,
// unless there is only one.
static CUresult place(const Side *side, const CUDA_MEMCPY3D *c, uintptr_t *begin, size_t *pitch) {
  *pitch = side->pitch ? side->pitch : side->x + c->WidthInBytes;
  size_t rows = side->height ? side->height : c->Height;
  if (side->type != CU_MEMORYTYPE_HOST && side->type != CU_MEMORYTYPE_DEVICE &&
      side->type != CU_MEMORYTYPE_UNIFIED)
    return sim_refuse(CUDA_ERROR_NOT_SUPPORTED, "a copy node of an array");
  if (*pitch < side->x + c->WidthInBytes || rows < c->Height) return CUDA_ERROR_INVALID_VALUE;
  if (c->Depth > 1 && rows != c->Height)
    return sim_refuse(CUDA_ERROR_NOT_SUPPORTED, "a copy node whose planes have rows between them");
  *begin = side->type == CU_MEMORYTYPE_HOST ? side->host : side->device;
  *begin += (side->z * rows + side->y) * *pitch + side->x;
  size_t bytes = *pitch * (c->Height * c->Depth - 1) + c->WidthInBytes;
  return side->type == CU_MEMORYTYPE_DEVICE ? memory_range_check(*begin, bytes)
         : *begin                           ? CUDA_SUCCESS
                                            : CUDA_ERROR_INVALID_VALUE;
}

static CUresult copy_of(const CUDA_MEMCPY3D *c, Work *work) {
  Side to = {c->dstMemoryType, (uintptr_t)c->dstHost, c->dstDevice, c->dstXInBytes, c->dstY,
             c->dstZ,          c->dstPitch,           c->dstHeight},
       from = {c->srcMemoryType, (uintptr_t)c->srcHost, c->srcDevice, c->srcXInBytes, c->srcY,
               c->srcZ,          c->srcPitch,           c->srcHeight};
  uintptr_t target, source;
  size_t pitch, source_pitch;
  if (!c->WidthInBytes || !c->Height || !c->Depth) return CUDA_ERROR_INVALID_VALUE;
  CUresult r = place(&to, c, &target, &pitch);
  if (r == CUDA_SUCCESS) r = place(&from, c, &source, &source_pitch);
  if (r != CUDA_SUCCESS) return r;
  *work = (Work){WorkCopy, .copy = {(unsigned char *)target, (const unsigned char *)source, pitch,
                                    source_pitch, c->WidthInBytes, c->Height * c->Depth, NULL}};
  return CUDA_SUCCESS;
}

CUresult cuGraphAddMemcpyNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps,
                              size_t count, const CUDA_MEMCPY3D *copy, CUcontext ctx) {
  Work work;
  (void)ctx; // there is one device
  CUresult r = copy ? copy_of(copy, &work) : CUDA_ERROR_INVALID_VALUE;
  return r == CUDA_SUCCESS ? add(node, graph, deps, count, &work) : r;
}

// ---- fills, host calls, events ------------------------------------------------------------------

static CUresult fill_of(const CUDA_MEMSET_NODE_PARAMS *p, Work *work) {
  unsigned size = p->elementSize;
  if ((size != 1 && size != 2 && size != 4) || !p->width || !p->height || p->dst % size)
    return CUDA_ERROR_INVALID_VALUE;
  size_t bytes = p->width * size;
  if (p->height > 1 && p->pitch < bytes) return CUDA_ERROR_INVALID_VALUE;
  *work = (Work){WorkFill, .fill = {p->dst, p->value, (int)size, p->width, p->pitch, p->height}};
  return memory_range_check(p->dst, (p->height - 1) * p->pitch + bytes);
}

CUresult cuGraphAddMemsetNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps,
                              size_t count, const CUDA_MEMSET_NODE_PARAMS *params, CUcontext ctx) {
  Work work;
  (void)ctx;
  CUresult r = params ? fill_of(params, &work) : CUDA_ERROR_INVALID_VALUE;
  return r == CUDA_SUCCESS ? add(node, graph, deps, count, &work) : r;
}

CUresult cuGraphAddHostNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t count,
                            const CUDA_HOST_NODE_PARAMS *params) {
  if (!params || !params->fn) return CUDA_ERROR_INVALID_VALUE;
  Work work = {WorkHost, .host = {params->fn, params->userData}};
  return add(node, graph, deps, count, &work);
}

CUresult cuGraphAddEmptyNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps,
                             size_t count) {
  Work work = {WorkNothing, .ptr = 0};
  return add(node, graph, deps, count, &work);
}

CUresult cuGraphAddEventRecordNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps,
                                   size_t count, CUevent event) {
  if (!handle_is(HandleEvent, event)) return CUDA_ERROR_INVALID_HANDLE;
  Work work = {WorkEvent, .event = event};
  return add(node, graph, deps, count, &work);
}

// ---- parameters of nodes ------------------------------------------------------------------------

static const Work *work_of(CUgraphNode node, WorkKind kind) {
  return handle_is(HandleNode, node) && node->work.kind == kind ? &node->work : NULL;
}

CUresult cuGraphMemsetNodeGetParams(CUgraphNode node, CUDA_MEMSET_NODE_PARAMS *params) {
  const Work *w = work_of(node, WorkFill);
  if (!w || !params) return CUDA_ERROR_INVALID_VALUE;
  *params =
      (CUDA_MEMSET_NODE_PARAMS){w->fill.ptr,   w->fill.pitch, w->fill.value, (unsigned)w->fill.size,
                                w->fill.count, w->fill.height};
  return CUDA_SUCCESS;
}

CUresult cuGraphHostNodeGetParams(CUgraphNode node, CUDA_HOST_NODE_PARAMS *params) {
  const Work *w = work_of(node, WorkHost);
  if (!w || !params) return CUDA_ERROR_INVALID_VALUE;
  *params = (CUDA_HOST_NODE_PARAMS){w->host.function, w->host.data};
  return CUDA_SUCCESS;
}

CUresult cuGraphMemcpyNodeGetParams(CUgraphNode node, CUDA_MEMCPY3D *params) {
  const Work *w = work_of(node, WorkCopy);
  if (!w || !params) return CUDA_ERROR_INVALID_VALUE;
  *params = (CUDA_MEMCPY3D){.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
                            .srcDevice = (CUdeviceptr)(uintptr_t)w->copy.source,
                            .srcPitch = w->copy.source_pitch,
                            .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
                            .dstDevice = (CUdeviceptr)(uintptr_t)w->copy.target,
                            .dstPitch = w->copy.target_pitch,
                            .WidthInBytes = w->copy.width,
                            .Height = w->copy.height,
                            .Depth = 1};
  return CUDA_SUCCESS;
}
