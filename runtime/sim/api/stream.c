// stream.c: streams and events.
//
// Work is queued when it is submitted and runs as late as the program allows: when something waits
// for it. So a missing synchronisation always shows as stale data. An
// operation runs after the earlier ones of its stream, after the events its stream waited for, and
// as the legacy default stream demands. It runs on the thread that waits.
#include "sim/api/api.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { kMostPending = 4096 };

static struct CUstream_st legacy;
static CUstream streams; // all but legacy
static __thread CUstream own; // CU_STREAM_PER_THREAD's; in streams, but no handle
static int waiting;      // operations that have not run

CUstream stream_first(void) {
  return streams;
}

// ---- the queue ----------------------------------------------------------------------------------

static void op_release(Op *op) {
  if (!op || --op->refs > 0) return;
  for (int i = 0; i < op->ndeps; i++) op_release(op->deps[i]);
  free(op->deps);
  work_free(&op->work);
  free(op);
}

static CUresult add_dep(Op *op, Op *dep) {
  if (!dep || dep->done) return CUDA_SUCCESS;
  Op **deps = realloc(op->deps, (size_t)(op->ndeps + 1) * sizeof *deps);
  if (!deps) return CUDA_ERROR_OUT_OF_MEMORY;
  op->deps = deps;
  deps[op->ndeps++] = dep;
  dep->refs++;
  return CUDA_SUCCESS;
}

// The legacy stream waits for all blocking streams, and they for it.
static CUresult add_legacy_deps(Op *op) {
  CUresult r = CUDA_SUCCESS;
  if (op->stream == &legacy) {
    for (CUstream s = streams; s && r == CUDA_SUCCESS; s = s->next)
      if (!(s->flags & CU_STREAM_NON_BLOCKING)) r = add_dep(op, s->tail);
  } else if (!(op->stream->flags & CU_STREAM_NON_BLOCKING)) {
    r = add_dep(op, legacy.tail);
  }
  return r;
}

// A kernel that may begin before this one has ended does so under a random order, if this one
// allows it (griddepcontrol.launch_dependents): it runs first, and this one at its wait.
static Op *early_follower(Op *op) {
  Op *next = op->next;
  if (!next || !sim_settings()->seed || sim_error_take() != CUDA_SUCCESS) return NULL;
  if (op->work.kind != WorkKernel || next->work.kind != WorkKernel || !next->work.launch->early)
    return NULL;
  for (int i = 0; i < next->ndeps; i++)
    if (!next->deps[i]->done) return NULL;
  const struct CUfunc_st *f = op->work.launch->function;
  bool triggers = f->kernel->from_ptx ? f->kernel->triggers : f->module->triggers;
  return triggers && !op->work.launch->before ? next : NULL;
}

static void run_work(Op *op) {
  Op *next = op->ran ? NULL : early_follower(op);
  if (op->ran) return;
  if (!next) {
    work_run(&op->work);
    return;
  }
  next->work.launch->before = op->work.launch;
  work_run(&next->work);
  next->ran = true;
}

static void run_first(CUstream stream) {
  Op *op = stream->head;
  for (int i = 0; i < op->ndeps; i++)
    if (!op->deps[i]->done) stream_drain(op->deps[i]->stream, op->deps[i]);
  if (op->done || stream->head != op) return; // it was run while a dependency was drained
  CUcontext before = sim_error_blame(op->context);
  run_work(op);
  sim_error_blame(before);
  op->done = true;
  stream->head = op->next;
  stream->pending--;
  waiting--;
  work_free(&op->work);
  for (int i = 0; i < op->ndeps; i++) op_release(op->deps[i]);
  op->ndeps = 0;
  op_release(op);
}

void stream_drain(CUstream stream, Op *until) {
  while (stream->head && !(until && until->done)) run_first(stream);
}

void stream_drain_all(void) {
  stream_drain(&legacy, NULL);
  for (CUstream s = streams; s; s = s->next) stream_drain(s, NULL);
  memory_check_red_zones();
}

static CUresult enqueue(CUstream stream, Work *work, Op *dep, Op **out) {
  Op *op = calloc(1, sizeof *op);
  if (!op) return work_free(work), CUDA_ERROR_OUT_OF_MEMORY;
  *op = (Op){.work = *work, .stream = stream, .context = sim_context(), .refs = 1};
  CUresult r = add_legacy_deps(op);
  if (r == CUDA_SUCCESS) r = add_dep(op, dep);
  if (r != CUDA_SUCCESS) return op_release(op), r;
  if (stream->head)
    stream->tail->next = op;
  else
    stream->head = op;
  op_release(stream->tail);
  stream->tail = op;
  op->refs += 1 + (out != NULL); // the queue's, the tail's, the caller's
  stream->pending++;
  if (out) *out = op;
  if (++waiting > kMostPending) stream_drain(stream, op);
  return CUDA_SUCCESS;
}

CUresult stream_submit(CUstream handle, Work *work) {
  CUstream stream;
  CUresult r = stream_find(handle, &stream);
  if (r == CUDA_SUCCESS && stream == &legacy)
    for (CUstream s = streams; s; s = s->next)
      if (s->capture && !(s->flags & CU_STREAM_NON_BLOCKING)) {
        s->capture->invalid = true;
        r = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
      }
  if (r != CUDA_SUCCESS) return work_free(work), r;
  if (stream->capture && (work->kind == WorkGraph || work->kind == WorkFree))
    return work_free(work), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (stream->capture) return graph_capture_work(stream, work);
  return enqueue(stream, work, NULL, NULL);
}

// Runs what the stream holds, and ends it.
static void unlink_stream(CUstream stream) {
  stream_drain(stream, NULL);
  CUstream *at = &streams;
  while (*at != stream) at = &(*at)->next;
  *at = stream->next;
  if (stream->capture) {
    stream->capture->invalid = true;
    graph_capture_release(stream->capture);
  }
  op_release(stream->tail);
  free(stream->capture_tips);
  free(stream);
}

// ---- per-thread streams -------------------------------------------------------------------------

// At the end of a thread, runs the work it submitted that nobody waited for.
static void leave_own(void *stream) {
  pthread_mutex_lock(&sim_lock);
  unlink_stream(stream);
  pthread_mutex_unlock(&sim_lock);
}

static pthread_key_t own_key;

static void make_own_key(void) {
  pthread_key_create(&own_key, leave_own);
}

static CUstream own_stream(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  if (own) return own;
  pthread_once(&once, make_own_key);
  CUstream stream = calloc(1, sizeof *stream);
  if (!stream) return NULL;
  stream->next = streams;
  pthread_setspecific(own_key, stream);
  return own = streams = stream;
}

CUresult stream_find(CUstream handle, CUstream *stream) {
  if (!handle || handle == CU_STREAM_LEGACY) return *stream = &legacy, CUDA_SUCCESS;
  if (handle == CU_STREAM_PER_THREAD)
    return (*stream = own_stream()) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
  if (!handle_is(HandleStream, handle)) return CUDA_ERROR_INVALID_HANDLE;
  *stream = handle;
  return CUDA_SUCCESS;
}

CUresult stream_sync_allowed(CUstream stream) {
  for (CUstream s = streams; s; s = s->next) {
    if (!s->capture || (stream && s != stream && s->capture->mode != CU_STREAM_CAPTURE_MODE_GLOBAL))
      continue;
    if (s->capture->mode == CU_STREAM_CAPTURE_MODE_RELAXED && s != stream) continue;
    s->capture->invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  return CUDA_SUCCESS;
}

// ---- streams ------------------------------------------------------------------------------------

CUresult cuStreamCreateWithPriority(CUstream *out, unsigned flags, int priority) {
  CUresult r = sim_context_check();
  if (r != CUDA_SUCCESS) return r;
  if (!out || flags > CU_STREAM_NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;
  CUstream stream = calloc(1, sizeof *stream);
  if (!stream) return CUDA_ERROR_OUT_OF_MEMORY;
  stream->flags = flags;
  stream->priority = priority > 0 ? 0 : priority < -5 ? -5 : priority;
  pthread_mutex_lock(&sim_lock);
  if (handle_add(HandleStream, stream)) {
    stream->next = streams;
    *out = streams = stream;
  } else {
    free(stream);
    r = CUDA_ERROR_OUT_OF_MEMORY;
  }
  pthread_mutex_unlock(&sim_lock);
  return r;
}

CUresult cuStreamCreate(CUstream *stream, unsigned flags) {
  return cuStreamCreateWithPriority(stream, flags, 0);
}

static CUresult destroy(CUstream stream) {
  if (!handle_is(HandleStream, stream)) return CUDA_ERROR_INVALID_HANDLE;
  handle_drop(stream);
  unlink_stream(stream);
  return CUDA_SUCCESS;
}

CUresult cuStreamDestroy_v2(CUstream stream) {
  CUresult r = sim_context_usable();
  if (r != CUDA_SUCCESS) return r;
  pthread_mutex_lock(&sim_lock);
  CUresult done = destroy(stream);
  pthread_mutex_unlock(&sim_lock);
  return done;
}

// Waiting on the legacy stream waits for the blocking ones too: they are its dependencies.
static CUresult wait_for(CUstream stream) {
  if (stream == &legacy) {
    for (CUstream s = streams; s; s = s->next)
      if (!(s->flags & CU_STREAM_NON_BLOCKING)) stream_drain(s, NULL);
  }
  stream_drain(stream, NULL);
  memory_check_red_zones();
  return sim_error_take();
}

CUresult cuStreamSynchronize(CUstream handle) {
  CUresult r = sim_context_check();
  if (r != CUDA_SUCCESS) return r;
  CUstream stream;
  pthread_mutex_lock(&sim_lock);
  r = stream_find(handle, &stream);
  if (r == CUDA_SUCCESS) r = stream_sync_allowed(stream);
  if (r == CUDA_SUCCESS) r = wait_for(stream);
  pthread_mutex_unlock(&sim_lock);
  return r;
}

// Asking is a kind of waiting here: the work runs, so that a program which polls makes progress.
CUresult cuStreamQuery(CUstream handle) {
  return cuStreamSynchronize(handle);
}

CUresult cuCtxSynchronize(void) {
  CUresult r = sim_context_check();
  if (r != CUDA_SUCCESS) return r;
  pthread_mutex_lock(&sim_lock);
  r = stream_sync_allowed(NULL);
  if (r == CUDA_SUCCESS) stream_drain_all();
  if (r == CUDA_SUCCESS) r = sim_error_take();
  pthread_mutex_unlock(&sim_lock);
  return r;
}

CUresult cuStreamGetPriority(CUstream handle, int *priority) {
  CUstream stream;
  CUresult r = sim_context_check();
  pthread_mutex_lock(&sim_lock);
  if (r == CUDA_SUCCESS) r = stream_find(handle, &stream);
  if (r == CUDA_SUCCESS && !priority) r = CUDA_ERROR_INVALID_VALUE;
  if (r == CUDA_SUCCESS) *priority = stream->priority;
  pthread_mutex_unlock(&sim_lock);
  return r;
}

CUresult cuStreamGetFlags(CUstream handle, unsigned *flags) {
  CUstream stream;
  CUresult r = sim_context_check();
  pthread_mutex_lock(&sim_lock);
  if (r == CUDA_SUCCESS) r = stream_find(handle, &stream);
  if (r == CUDA_SUCCESS && !flags) r = CUDA_ERROR_INVALID_VALUE;
  if (r == CUDA_SUCCESS) *flags = stream->flags;
  pthread_mutex_unlock(&sim_lock);
  return r;
}

CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void *data) {
  CUresult r = sim_context_check();
  if (r != CUDA_SUCCESS) return r;
  if (!function) return CUDA_ERROR_INVALID_VALUE;
  Work work = {WorkHost, .host = {function, data}};
  pthread_mutex_lock(&sim_lock);
  r = stream_submit(stream, &work);
  pthread_mutex_unlock(&sim_lock);
  return r;
}

// ---- events -------------------------------------------------------------------------------------

static bool is_event(CUevent event) {
  return handle_is(HandleEvent, event);
}

CUresult cuEventCreate(CUevent *out, unsigned flags) {
  CUresult r = sim_context_check();
  if (r != CUDA_SUCCESS) return r;
  if (!out || flags > 7) return CUDA_ERROR_INVALID_VALUE;
  CUevent event = calloc(1, sizeof *event);
  if (!event) return CUDA_ERROR_OUT_OF_MEMORY;
  if (!handle_add(HandleEvent, event)) return free(event), CUDA_ERROR_OUT_OF_MEMORY;
  event->flags = flags;
  *out = event;
  return CUDA_SUCCESS;
}

// If the event's record has not run, it still needs the event: destroying waits.
CUresult cuEventDestroy_v2(CUevent event) {
  if (!sim_initialized()) return CUDA_ERROR_NOT_INITIALIZED;
  if (!is_event(event)) return CUDA_ERROR_INVALID_HANDLE;
  pthread_mutex_lock(&sim_lock);
  stream_drain_all();
  op_release(event->op);
  graph_capture_release(event->capture);
  free(event->tips);
  handle_drop(event);
  free(event);
  pthread_mutex_unlock(&sim_lock);
  return CUDA_SUCCESS;
}

static CUresult record(CUevent event, CUstream stream) {
  if (stream->capture) return graph_capture_event(stream, event);
  Work work = {WorkEvent, .event = event};
  Op *op = NULL;
  CUresult r = enqueue(stream, &work, NULL, &op);
  if (r != CUDA_SUCCESS) return r;
  op_release(event->op);
  event->op = op;
  graph_capture_release(event->capture);
  event->capture = NULL;
  return CUDA_SUCCESS;
}

CUresult cuEventRecordWithFlags(CUevent event, CUstream handle, unsigned flags) {
  CUresult r = sim_context_check();
  if (r != CUDA_SUCCESS) return r;
  if (!is_event(event)) return CUDA_ERROR_INVALID_HANDLE;
  CUstream stream;
  pthread_mutex_lock(&sim_lock);
  r = stream_find(handle, &stream);
  Work node = {WorkEvent, .event = event};
  if (r == CUDA_SUCCESS)
    r = stream->capture && (flags & CU_EVENT_RECORD_EXTERNAL) ? graph_capture_work(stream, &node)
                                                              : record(event, stream);
  pthread_mutex_unlock(&sim_lock);
  return r;
}

CUresult cuEventRecord(CUevent event, CUstream stream) {
  return cuEventRecordWithFlags(event, stream, 0);
}

CUresult cuStreamWaitEvent(CUstream handle, CUevent event, unsigned flags) {
  (void)flags;
  CUresult r = sim_context_check();
  if (r != CUDA_SUCCESS) return r;
  if (!is_event(event)) return CUDA_ERROR_INVALID_HANDLE;
  CUstream stream;
  pthread_mutex_lock(&sim_lock);
  r = stream_find(handle, &stream);
  Work work = {.kind = WorkNothing};
  if (r == CUDA_SUCCESS && (stream->capture || event->capture))
    r = graph_capture_wait(stream, event);
  else if (r == CUDA_SUCCESS && event->op && !event->op->done)
    r = enqueue(stream, &work, event->op, NULL);
  pthread_mutex_unlock(&sim_lock);
  return r;
}

CUresult cuEventSynchronize(CUevent event) {
  CUresult r = sim_context_check();
  if (r != CUDA_SUCCESS) return r;
  if (!is_event(event)) return CUDA_ERROR_INVALID_HANDLE;
  pthread_mutex_lock(&sim_lock);
  if (event->capture)
    r = CUDA_ERROR_CAPTURED_EVENT;
  else if (event->op && !event->op->done)
    stream_drain(event->op->stream, event->op);
  if (r == CUDA_SUCCESS) r = sim_error_take();
  pthread_mutex_unlock(&sim_lock);
  return r;
}

CUresult cuEventQuery(CUevent event) {
  return cuEventSynchronize(event);
}

CUresult cuEventElapsedTime(float *ms, CUevent begin, CUevent end) {
  CUresult r = sim_context_check();
  if (r != CUDA_SUCCESS) return r;
  if (!ms) return CUDA_ERROR_INVALID_VALUE;
  if (!is_event(begin) || !is_event(end) || (begin->flags | end->flags) & CU_EVENT_DISABLE_TIMING)
    return CUDA_ERROR_INVALID_HANDLE;
  if ((!begin->op && !begin->when) || (!end->op && !end->when)) return CUDA_ERROR_INVALID_HANDLE;
  if ((begin->op && !begin->op->done) || (end->op && !end->op->done)) return CUDA_ERROR_NOT_READY;
  *ms = (float)((double)(end->when - begin->when) * 1e-6);
  return CUDA_SUCCESS;
}

CUresult cuEventElapsedTime_v2(float *ms, CUevent begin, CUevent end) {
  return cuEventElapsedTime(ms, begin, end);
}
