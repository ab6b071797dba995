// capture.c: stream capture: work becomes the nodes of a graph instead of running.
//
// A node depends on its stream's tips: the last nodes submitted there or waited for. A stream that
// waits for a captured event joins the capture; before it ends, all must be joined again.
#include "sim/api/api.h"

#include <stdlib.h>

static CUresult set_tips(CUgraphNode **tips, int *ntips, const CUgraphNode *from, int count) {
  CUgraphNode *copy = malloc((size_t)(count + 1) * sizeof *copy);
  if (!copy) return CUDA_ERROR_OUT_OF_MEMORY;
  for (int i = 0; i < count; i++) copy[i] = from[i];
  free(*tips);
  *tips = copy;
  *ntips = count;
  return CUDA_SUCCESS;
}

static CUresult add_tip(CUstream stream, CUgraphNode node) {
  for (int i = 0; i < stream->ncapture_tips; i++)
    if (stream->capture_tips[i] == node) return CUDA_SUCCESS;
  CUgraphNode *tips =
      realloc(stream->capture_tips, (size_t)(stream->ncapture_tips + 1) * sizeof *tips);
  if (!tips) return CUDA_ERROR_OUT_OF_MEMORY;
  stream->capture_tips = tips;
  tips[stream->ncapture_tips++] = node;
  return CUDA_SUCCESS;
}

CUresult graph_capture_work(CUstream stream, Work *work) {
  Capture *capture = stream->capture;
  if (capture->invalid) return work_free(work), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  CUgraphNode node;
  CUresult r = graph_add(capture->graph, stream->capture_tips, stream->ncapture_tips, work, &node);
  return r == CUDA_SUCCESS ? set_tips(&stream->capture_tips, &stream->ncapture_tips, &node, 1) : r;
}

CUresult graph_capture_event(CUstream stream, CUevent event) {
  if (stream->capture->invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  stream->capture->refs++;
  graph_capture_release(event->capture);
  event->capture = stream->capture;
  return set_tips(&event->tips, &event->ntips, stream->capture_tips, stream->ncapture_tips);
}

// A stream that waits for a captured event joins that capture.
CUresult graph_capture_wait(CUstream stream, CUevent event) {
  if (!event->capture) {
    if (!event->op) return CUDA_SUCCESS; // never recorded: nothing to wait for
    stream->capture->invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
  }
  if (stream->capture && stream->capture != event->capture) {
    stream->capture->invalid = event->capture->invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_MERGE;
  }
  if (event->capture->ended) return CUDA_ERROR_CAPTURED_EVENT;
  if (event->capture->invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (!stream->capture) {
    stream->capture = event->capture;
    stream->capture->refs++;
  }
  CUresult r = CUDA_SUCCESS;
  for (int i = 0; i < event->ntips && r == CUDA_SUCCESS; i++) r = add_tip(stream, event->tips[i]);
  return r;
}

void graph_capture_release(Capture *capture) {
  if (!capture || --capture->refs > 0) return;
  graph_free(capture->graph);
  free(capture);
}

static CUresult begin(CUstream stream, CUstreamCaptureMode mode) {
  if (stream->capture) return CUDA_ERROR_ILLEGAL_STATE;
  Capture *capture = calloc(1, sizeof *capture);
  CUgraph graph = graph_make();
  if (!capture || !graph) return free(capture), graph_free(graph), CUDA_ERROR_OUT_OF_MEMORY;
  *capture = (Capture){.graph = graph, .origin = stream, .mode = mode, .refs = 1};
  stream->capture = capture;
  stream->ncapture_tips = 0;
  return CUDA_SUCCESS;
}

CUresult cuStreamBeginCapture_v2(CUstream handle, CUstreamCaptureMode mode) {
  CUresult r = sim_context_check();
  if (r != CUDA_SUCCESS) return r;
  if ((int)mode < 0 || mode > CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_ERROR_INVALID_VALUE;
  if (!handle || handle == CU_STREAM_LEGACY)
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  CUstream stream;
  pthread_mutex_lock(&sim_lock);
  r = stream_find(handle, &stream);
  if (r == CUDA_SUCCESS) r = begin(stream, mode);
  pthread_mutex_unlock(&sim_lock);
  return r;
}

// True if captured work of other streams was forked and never joined to the origin.
static bool unjoined(const Capture *capture, CUstream origin) {
  int n = capture->graph->nnodes;
  bool *reached = calloc((size_t)n + 1, sizeof *reached), all = reached != NULL;
  for (int i = 0; all && i < origin->ncapture_tips; i++)
    reached[origin->capture_tips[i]->index] = true;
  for (int i = n - 1; all && i >= 0; i--) {
    CUgraphNode node = capture->graph->nodes[i];
    for (int d = 0; reached[i] && d < node->ndeps; d++) reached[node->deps[d]->index] = true;
    all = reached[i];
  }
  free(reached);
  return !all;
}

static CUresult end(CUstream stream, CUgraph *graph) {
  Capture *capture = stream->capture;
  if (!capture) return CUDA_ERROR_ILLEGAL_STATE;
  if (capture->origin != stream) return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
  CUresult r = CUDA_SUCCESS;
  if (capture->invalid)
    r = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  else if (unjoined(capture, stream))
    r = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
  if (r == CUDA_SUCCESS) *graph = capture->graph, capture->graph = NULL;
  capture->ended = true;
  for (CUstream s = stream_first(); s; s = s->next)
    if (s->capture == capture) {
      s->capture = NULL;
      s->ncapture_tips = 0;
      graph_capture_release(capture);
    }
  return r;
}

CUresult cuStreamEndCapture(CUstream handle, CUgraph *graph) {
  CUresult r = sim_context_check();
  if (r != CUDA_SUCCESS) return r;
  if (!graph) return CUDA_ERROR_INVALID_VALUE;
  *graph = NULL;
  CUstream stream;
  pthread_mutex_lock(&sim_lock);
  r = stream_find(handle, &stream);
  if (r == CUDA_SUCCESS) r = end(stream, graph);
  pthread_mutex_unlock(&sim_lock);
  return r;
}

CUresult cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus *status) {
  CUresult r = sim_context_check();
  if (r != CUDA_SUCCESS) return r;
  if (!status) return CUDA_ERROR_INVALID_VALUE;
  CUstream stream;
  pthread_mutex_lock(&sim_lock);
  r = stream_find(handle, &stream);
  if (r == CUDA_SUCCESS)
    *status = !stream->capture           ? CU_STREAM_CAPTURE_STATUS_NONE
              : stream->capture->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                         : CU_STREAM_CAPTURE_STATUS_ACTIVE;
  pthread_mutex_unlock(&sim_lock);
  return r;
}

static __thread CUstreamCaptureMode mine = CU_STREAM_CAPTURE_MODE_GLOBAL;

// Calls that a capture does not like, but which do not contradict it: allocating, for one.
CUresult capture_unsafe_allowed(void) {
  return mine == CU_STREAM_CAPTURE_MODE_RELAXED ? CUDA_SUCCESS : stream_sync_allowed(NULL);
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode) {
  if (!mode || (int)*mode < 0 || *mode > CU_STREAM_CAPTURE_MODE_RELAXED)
    return CUDA_ERROR_INVALID_VALUE;
  CUstreamCaptureMode old = mine;
  mine = *mode;
  *mode = old;
  return CUDA_SUCCESS;
}
