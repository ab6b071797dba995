// $(k.name).h: the network $(k.model) as C functions over the CUDA $(k.runtime and "runtime" or "driver") API.
//
//@ for _, entry in ipairs(k.entries) do
// $(k.name)_$(entry.ident)
//@   for _, t in ipairs(entry.inputs) do
//   in   $(string.format("%-16s", t.ident)) $(t.what)
//@   end
//@   for _, t in ipairs(entry.outputs) do
//   out  $(string.format("%-16s", t.ident)) $(t.what)
//@   end
//@ end
//
// Shapes are in elements, the outermost dimension first; tensors are dense and row-major (C order).
// f32 is IEEE binary32, f16 binary16, bf16 the upper half of binary32, i32 int32_t, bool a byte that
// is 0 or 1, u8 uint8_t, i64 int64_t. Sizes are in bytes, times in milliseconds. Every function that
// can fail returns a status; $(k.name)_message gives the details. There are no global variables:
// handles are independent, and threads may each use their own. One handle is for one thread at a
// time, and its runs and graph replays must not overlap: they share its memory, so enqueue them on
// one stream, or wait in between.
//
// $(k.made)
#ifndef $(k.NAME)_H
#define $(k.NAME)_H

#include <cuda.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum $(k.name)_status {
  $(k.NAME)_OK = 0,
  $(k.NAME)_ERROR_ARGUMENT,       // a null pointer, or a device pointer that is not aligned to 16 bytes
  $(k.NAME)_ERROR_DEVICE,         // no CUDA driver, or no such device
  $(k.NAME)_ERROR_ARCHITECTURE,   // there is neither machine code nor PTX for this GPU
  $(k.NAME)_ERROR_HOST_MEMORY,    // no memory on the host
  $(k.NAME)_ERROR_DEVICE_MEMORY,  // no memory on the device
  $(k.NAME)_ERROR_WORKSPACE,      // the workspace is too small, or not aligned to 256 bytes
  $(k.NAME)_ERROR_WEIGHTS_FILE,   // the file cannot be opened or read
  $(k.NAME)_ERROR_WEIGHTS_FORMAT, // it is not a safetensors file, or it is truncated
  $(k.NAME)_ERROR_WEIGHTS_TENSOR, // a tensor is missing, or has another shape or dtype
  $(k.NAME)_ERROR_DRIVER          // another call of CUDA failed: the message names it
} $(k.name)_status;

// In words; static, never null.
const char *$(k.name)_error_string($(k.name)_status status);

typedef struct $(k.name) $(k.name); // the network on a device

// ---- create -----------------------------------------------------------------------------------

//@ if #k.given > 0 then
// Device pointers of all parameters$(#k.states > 0 and " and states" or ""), row-major$(#k.states > 0 and "; 0 for a state: its initial constant" or "").
typedef struct $(k.name)_parameters {
//@   for _, t in ipairs(k.given) do
  CUdeviceptr $(t.ident); // $(t.what), $(t.name)
//@   end
} $(k.name)_parameters;

//@ end
// Allocator of device memory. allocate returns memory aligned to 256 bytes, or an error.
typedef struct $(k.name)_allocator {
  CUresult (*allocate)(void *user, size_t bytes, CUdeviceptr *pointer);
  void (*release)(void *user, CUdeviceptr pointer);
  void *user;
} $(k.name)_allocator;

enum { $(k.NAME)_CURRENT_DEVICE = -1 };

typedef struct $(k.name)_options {
//@ if k.runtime then
  int device; // CURRENT_DEVICE: the thread's
//@ else
  // The context; null: the primary context of `device`, or, for CURRENT_DEVICE, the thread's
  // current context, else the primary context of device 0.
  CUcontext context;
  int device;
//@ end
  CUstream stream; // create copies and launches here, and waits for it
//@ if #k.given > 0 then
  // Where parameters come from: `parameters`, else `weights`, else the file at `weights_path`.
  const $(k.name)_parameters *parameters; // read only by create
  const void *weights; // a safetensors file in memory, of weights_bytes; both or none
  size_t weights_bytes;
  const char *weights_path; // default: $(k.weights_in_code and "null: those in the program" or k.name .. ".safetensors in the current folder")
//@ end
  // Memory for values between kernels: $(k.name)_workspace_bytes() bytes, aligned to 256, in use
  // while the network runs; 0: create allocates it. Handles that never run at once may share it.
  CUdeviceptr workspace;
  size_t workspace_bytes;
  $(k.name)_allocator allocator; // null functions: cuMemAlloc, cuMemFree
  char *message; // where create writes why it failed
  size_t message_bytes;
} $(k.name)_options;

$(k.name)_options $(k.name)_default_options(void);
size_t $(k.name)_workspace_bytes(void); // for values between kernels
size_t $(k.name)_memory_bytes(void);    // of parameters and states, allocated by create

// Loads kernels and parameters; options may be null. On failure it frees everything, and
// *net is null.
$(k.name)_status $(k.name)_create($(k.name) **net, const $(k.name)_options *options);

// Frees everything. All enqueued work must have completed. net may be null.
void $(k.name)_destroy($(k.name) *net);

// The message of the last failed call; empty if there was none.
const char *$(k.name)_message(const $(k.name) *net);

// ---- run --------------------------------------------------------------------------------------
//
// Device pointers must be aligned to 16 bytes. Functions with a stream enqueue their work and
// return; they may be called while the stream is captured into a graph, except _host and _profile,
// which wait and so invalidate a capture.

//@ for _, entry in ipairs(k.entries) do
//@   local function struct(list, kind, host)
//@     if #list == 0 then return end
typedef struct $(k.struct(entry, (host and "host_" or "") .. kind)) {
//@     for _, t in ipairs(list) do
//@       if host then
  $(kind == "inputs" and "const " or "")$(t.type) *$(t.ident); // $(t.what)
//@       else
  CUdeviceptr $(t.ident); // $(t.what)
//@       end
//@     end
} $(k.struct(entry, (host and "host_" or "") .. kind));

//@   end
//@   struct(entry.inputs, "inputs", false)
//@   struct(entry.outputs, "outputs", false)
//@   struct(entry.inputs, "inputs", true)
//@   struct(entry.outputs, "outputs", true)
//@   if #entry.states > 0 then
// $(k.wrap("Writes the states " .. k.names(entry.states) .. ".", "", "// "))
//@   end
$(k.name)_status $(k.name)_$(entry.ident)($(k.name) *net, $(k.params(entry, false))CUstream stream);

// The same from and to host memory: copies in, runs, copies out and waits. The first call allocates
// device memory for it.
$(k.name)_status $(k.name)_$(entry.ident)_host($(k.name) *net, $(k.params(entry, true))CUstream stream);

//@ end
// ---- graphs -----------------------------------------------------------------------------------

typedef struct $(k.name)_graph $(k.name)_graph; // one run, captured; the network must outlive it

//@ for _, entry in ipairs(k.entries) do
// Captures a run on these pointers.
$(k.name)_status $(k.name)_$(entry.stem)capture($(k.name) *net, $(k.params(entry, false))$(k.name)_graph **graph);
//@ end
$(k.name)_status $(k.name)_replay($(k.name)_graph *graph, CUstream stream); // enqueues it
void $(k.name)_graph_destroy($(k.name)_graph *graph);                // may be null

// ---- times ------------------------------------------------------------------------------------

typedef struct $(k.name)_launch_time {
  const char *layer, *kernel; // static; the kernel is the symbol's name, or "copy"
  float ms;
} $(k.name)_launch_time;

//@ for _, entry in ipairs(k.entries) do
enum { $(k.NAME)_$(entry.NAME)_LAUNCHES = $(entry.launches) };
// Runs once and waits; times[0 .. $(k.NAME)_$(entry.NAME)_LAUNCHES) are the launches in order.
$(k.name)_status $(k.name)_$(entry.stem)profile($(k.name) *net, $(k.params(entry, false))CUstream stream, $(k.name)_launch_time *times);
//@ end

//@ if #k.states > 0 then
// ---- states -----------------------------------------------------------------------------------
//
// Values that live in the handle from one run to the next.

typedef enum $(k.name)_state {
//@   for i, t in ipairs(k.states) do
  $(k.NAME)_STATE_$(string.upper(t.ident))$(i == 1 and " = 0" or ""), // $(t.what), $(t.bytes) bytes$(t.constant and "" or "; learned: from the weights file")
//@   end
  $(k.NAME)_STATES
} $(k.name)_state;

// Copy all bytes of a state, enqueued; host memory must stay valid until the copy has completed.
$(k.name)_status $(k.name)_state_read($(k.name) *net, $(k.name)_state state, void *host,
    CUstream stream);
$(k.name)_status $(k.name)_state_write($(k.name) *net, $(k.name)_state state, const void *host,
    CUstream stream);
// Sets a state to its initial constant; ARGUMENT if its initial values are learned.
$(k.name)_status $(k.name)_state_reset($(k.name) *net, $(k.name)_state state, CUstream stream);
// Returns when all work enqueued on the stream is done.
$(k.name)_status $(k.name)_synchronize($(k.name) *net, CUstream stream);
size_t $(k.name)_state_bytes($(k.name)_state state);
CUdeviceptr $(k.name)_state_pointer(const $(k.name) *net, $(k.name)_state state);

//@ end
#ifdef __cplusplus
}
#endif
#endif
