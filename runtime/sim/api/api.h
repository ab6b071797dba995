// api.h: the entry points, and pending work (work.c) in streams (stream.c), or captured (capture.c)
// into graphs (graph.c).
#ifndef CUSIM_API_H
#define CUSIM_API_H

#include "sim/cc/cc.h"
#include "sim/exec/exec.h"
#include "sim/graph_nodes.h"
#include "sim/ptx/ptx.h"

#define CUDA_API(name, symbol, params)                                                             \
  __attribute__((visibility("default"))) CUresult symbol params;
#define NVRTC_API(name, symbol, params)                                                            \
  __attribute__((visibility("default"))) nvrtcResult symbol params;
#define NVRTC_TEXT(name, symbol, params)                                                           \
  __attribute__((visibility("default"))) const char *symbol params;
#include "cuda_api.def"
#define NEWER_API(name, symbol, since, params)                                                     \
  __attribute__((visibility("default"))) CUresult symbol params;
#include "sim/newer.def"

#pragma GCC visibility push(hidden)

bool absent_find(const char *name, void **function); // absent.c: a call of cuda.h that is not done

// ---- contexts (device.c) ------------------------------------------------------------------------

bool sim_initialized(void);        // cuInit was called
CUresult sim_context_usable(void); // success, or why the calling thread has no context
CUresult sim_context_check(void);  // success, or why the calling thread may not call
CUresult sim_error_take(void);     // the error that running work left; it stays, as on a GPU
void sim_error_set(CUresult error);
CUcontext sim_context(void);              // the calling thread's, or NULL
CUcontext sim_error_blame(CUcontext ctx); // whose work runs now; returns whose did before

// ---- NVIDIA's NVRTC as the front end (frontend.c) -----------------------------------------------

bool frontend_found(void);
nvrtcResult frontend_version(int *major, int *minor); // INTERNAL_ERROR if there is none
// The program of the job, with its options as given; lowered: the names of its expressions.
nvrtcResult frontend_compile(const CompileJob *job, int count, const char *const *words,
                             char **lowered, Text *ptx, Text *image, Text *log);

// ---- memory (memory.c, pool.c) ------------------------------------------------------------------

CUresult memory_range_check(CUdeviceptr ptr, size_t bytes); // a device range that a call names
CUresult memory_make(size_t bytes, MemoryKind kind, void **out);
size_t memory_used(void);               // of device memory, bytes
bool memory_free_later(CUdeviceptr ptr); // marks a device allocation; false: it is none
void memory_check_red_zones(void);
bool memory_is_pageable(const void *ptr); // host memory the driver does not know
void memory_release(CUdeviceptr ptr);

// ---- modules (module.c, ptx_image.c, image.c, shared.c), functions, launches --------------------

int image_file(void); // a new one without a name
// write(2), which reports a bad address without a sanitizer of the program checking it.
ssize_t image_write(int fd, const void *from, size_t bytes);
bool image_is_text(const void *image);   // ptx_image.c: it begins as one; it need not be readable
bool fatbin_is(const void *image);
CUresult fatbin_ptx(const void *image, int arch, Text *ptx, Text *log); // for that device
enum { kFatbinHeader = 16 };
size_t fatbin_bytes(const void *header); // of one whose header these bytes are; 0: they are none
// Hands over each fat binary of a host's object file or archive; stops at the first error.
typedef CUresult (*TakeFatbin)(void *user, const void *fatbin);
CUresult host_object_fatbins(const char *data, size_t bytes, TakeFatbin take, void *user,
                             int *found);
CUresult image_of_text(const char *from, Text *image, Text *log);
// Copies the compiler's messages to the program's log buffer, if it has one.
void image_give_log(const Text *log, unsigned count, const CUjit_option *options, void **values);
bool module_owns(CUfunction function);
// The linker's name of a kernel of an image, by its name in the source; owned by the caller.
char *module_lower_name(const void *image, const char *name);
// symbols.c: the linker's name of the variable at the address, to be freed by the caller; or NULL.
char *symbol_name(CUmodule module, const void *address);
bool symbol_variable(CUmodule module, const char *name, uintptr_t *address, size_t *bytes);
bool image_read(CUmodule module); // image.c: code, waits; false: no memory
bool shared_measure(CUmodule module, const char *image); // shared.c: static_smem; the same
int function_threads(CUfunction function); // most in a block
int function_blocks_per_sm(CUfunction function, int threads, size_t smem);
CUresult launch_make(Launch *launch, CUfunction function, const unsigned grid[3],
                     const unsigned block[3], unsigned smem, void **params, void **extra);
Launch *launch_copy(const Launch *launch);
void launch_free(Launch *launch); // the params it owns

// ---- work, streams, graphs ----------------------------------------------------------------------

typedef enum WorkKind {
  WorkNothing,
  WorkKernel,
  WorkCopy,
  WorkFill,
  WorkHost,
  WorkEvent,
  WorkFree,
  WorkGraph
} WorkKind;

typedef struct Work {
  WorkKind kind;
  union {
    Launch *launch; // owned
    struct {
      unsigned char *target;
      const unsigned char *source;
      size_t target_pitch, source_pitch, width, height;
      void *staging; // owned copy of pageable source bytes, or null
    } copy;
    struct {
      CUdeviceptr ptr;
      unsigned value;
      int size;                    // of one element
      size_t count, pitch, height; // elements in a row; bytes from row to row; rows
    } fill;
    struct {
      CUhostFn function;
      void *data;
    } host;
    CUevent event;
    CUdeviceptr ptr;
    CUgraphExec exec;
  };
} Work;

void work_run(Work *work);
void work_free(Work *work);
CUresult work_copy(Work *to, const Work *from); // deep

// An entry of a stream's queue. Kept until it is done and no event or stream refers to it.
typedef struct Op {
  Work work;
  struct Op *next;
  struct CUstream_st *stream;
  CUcontext context; // that submitted it
  struct Op **deps;  // must be done before it, besides the stream's earlier ones
  int ndeps;
  int refs;
  bool ran; // early, with the one before it
  bool done;
} Op;

enum { // numbers of CUstreamAttrID, as cuda.h has them
  StreamWindow = 1,
  StreamWaiting = 3,
  StreamPriority = 8,
  StreamDomainMap = 9,
  StreamDomain = 10
};

typedef struct StreamCacheWindow { // CUaccessPolicyWindow
  void *base;
  size_t bytes;
  float ratio;
  int hit, miss;
} StreamCacheWindow;

typedef struct StreamAttributes {
  StreamCacheWindow window;
  int waiting; // CUsynchronizationPolicy; 0: never set
  unsigned char domains[2];
  int domain;
} StreamAttributes;

typedef union StreamValue { // the parts of CUstreamAttrValue
  StreamCacheWindow window;
  int number;
  unsigned char domains[2];
} StreamValue;

struct CUstream_st {
  unsigned flags;
  int priority;
  StreamAttributes attributes;
  Op *head, *tail; // not yet run; tail also when done, as the last one submitted
  int pending;
  struct Capture *capture;
  CUgraphNode *capture_tips; // the nodes the next one depends on
  int ncapture_tips;
  struct CUstream_st *next;
};

struct CUevent_st {
  unsigned flags;
  Op *op;                  // the record; null: never recorded
  int64_t when;            // ns
  struct Capture *capture; // recorded in a capture
  CUgraphNode *tips;
  int ntips;
};

struct CUgraphNode_st {
  Work work;
  CUgraph graph;
  CUgraphNode *deps;
  int ndeps;
  int index;
};

struct CUgraph_st {
  CUgraphNode *nodes; // in an order that respects deps
  int nnodes;
};

struct CUgraphExec_st {
  CUgraph graph; // a private copy
  int running;   // launches in queues
  bool destroyed;
};

typedef struct Capture {
  CUgraph graph; // until it has ended
  CUstream origin;
  CUstreamCaptureMode mode;
  bool invalid, ended;
  int refs; // of streams and events
} Capture;

CUresult stream_submit(CUstream stream, Work *work);     // takes over the work's contents
CUresult stream_find(CUstream handle, CUstream *stream); // resolves 0, legacy and per-thread
void stream_drain(CUstream stream, Op *until);           // until null: everything
void stream_drain_all(void);
CUresult stream_sync_allowed(CUstream stream); // no capture forbids waiting; null: for the context
CUstream stream_first(void);

void graph_forget(const struct CUmod_st *module); // no node can run its kernels any more
CUresult graph_capture_work(CUstream stream, Work *work);
CUresult graph_add(CUgraph graph, const CUgraphNode *deps, int ndeps, Work *work,
                   CUgraphNode *node);
CUgraph graph_make(void);
void graph_free(CUgraph graph);
void graph_run(CUgraphExec exec);
void graph_exec_release(CUgraphExec exec);
CUresult graph_capture_event(CUstream stream, CUevent event);
CUresult graph_capture_wait(CUstream stream, CUevent event);
void graph_capture_release(Capture *capture); // or null
CUresult capture_unsafe_allowed(void); // for this thread

#pragma GCC visibility pop
#endif
