// base.h: what all rooms of libcusim use: settings, errors, handles, text, and the host's
// compiler, which is run as a program. Knows nothing of kernels.
//
// Locking: `sim_lock` is held by every API call while it reads or changes state that lives between
// calls, and while queued work runs.
#ifndef CUSIM_BASE_H
#define CUSIM_BASE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "cuda_api.h"

#pragma GCC visibility push(hidden)

// ---- settings, the GPU that is modelled (settings.c) --------------------------------------------

typedef struct Settings {
  bool basic;    // poison, red zones, late copies, alignment
  bool trace;    // kernels are built with instrumented accesses
  bool race;     // two threads, one location, no barrier between
  bool address;  // each access must be inside an allocation or the block's shared memory
  bool count;    // NNGEN_SIM_COUNT: fill KernelCounters
  uint64_t seed; // NNGEN_SIM_SEED; 0: the natural order
  int threads;   // NNGEN_SIM_THREADS; OS threads that run blocks
  int kernel_registers; // NNGEN_SIM_KERNEL_REGISTERS, that each kernel needs; 0: not known
  double timeout; // NNGEN_SIM_TIMEOUT, seconds; 0: no limit
  size_t stack_bytes; // NNGEN_SIM_STACK_KIB; of a fiber
  char optimize[4];   // NNGEN_SIM_OPTIMIZE, an option of the host's compiler: -O0 to -O3, -Og
  const char *precompiled; // NNGEN_SIM_PRECOMPILED, a folder for precompiled headers; or null
  bool nvrtc;    // NNGEN_SIM_FRONTEND=nvrtc: kernels are compiled by NVIDIA's NVRTC to PTX
  bool ready;    // they have been read
} Settings;

// The GPU that is modelled: NNGEN_SIM_DEVICE=sm_80|sm_90a|sm_100a, fields by NNGEN_SIM_<FIELD>.
typedef struct DeviceModel {
  const char *arch, *name;
  int major, minor;
  int multiprocessors, threads_per_sm, blocks_per_sm, registers_per_sm;
  int smem_per_sm, smem_optin, smem_default; // bytes; optin: most that a block may request
  int clock_khz, memory_clock_khz, bus_bits, l2_bytes;
  size_t memory; // bytes; 0: as much as the host has
} DeviceModel;

extern Settings sim_current_settings;
void sim_settings_read(void);
static inline const Settings *sim_settings(void) {
  if (__builtin_expect(!sim_current_settings.ready, 0)) sim_settings_read();
  return &sim_current_settings;
}
void settings_stack(size_t bytes); // a thread has at least this many (cuCtxSetLimit)
const DeviceModel *sim_device(void);

// ---- errors, time (error.c) ---------------------------------------------------------------------

extern pthread_mutex_t sim_lock; // recursive
const char *error_name(CUresult error); // "CUDA_ERROR_...", or NULL if there is no such error
// Returns the error, with one line on stderr that says why.
const char *sim_said(void); // the text of this thread's last refusal:
CUresult sim_refuse(CUresult error, const char *format, ...) __attribute__((format(printf, 2, 3)));
int64_t sim_now(void); // ns, monotonic

// ---- handles (handles.c) ------------------------------------------------------------------------

typedef enum HandleKind {
  HandleStream,
  HandleEvent,
  HandleGraph,
  HandleNode,
  HandleExec,
  HandleModule,
  HandleFunction,
  HandleLink
} HandleKind;

bool handle_add(HandleKind kind, const void *handle); // false: no memory
void handle_drop(const void *handle);                 // which may be none
bool handle_is(HandleKind kind, const void *handle);  // given to the program, and not freed
void *handle_next(HandleKind kind, size_t *index);    // from index 0 on; null: no more

// ---- text (text.c) ------------------------------------------------------------------------------

typedef struct Text { // growing bytes, always NUL-terminated
  char *data;
  size_t length, room;
  bool failed; // out of memory; later appends do nothing
} Text;

void text_append(Text *text, const char *bytes, size_t length);
void text_print(Text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
void text_free(Text *text);
enum { kHashStart = 0x9e3779b9 };
uint64_t hash_bytes(uint64_t state, const void *bytes, size_t length);

// ---- the host's compiler (host.c), its folder (folder.c) ----------------------------------------

enum { kMaxArgs = 256, kFolder = 512, kPath = 1024 };

typedef struct Args { // arguments of a command
  const char *list[kMaxArgs + 1];
  int count;
} Args;

void args_add(Args *args, const char *arg);
void args_add_all(Args *args, const char *const *list); // ended by null
// Splits the C++ compiler's command ("ccache g++" is two arguments) into args; `words` must outlive
// them. False, with a line in the log, if there is none.
bool host_find_compiler(Args *args, char words[1024], Text *log);
typedef enum HostKind { HostGcc, HostGcc12, HostClang } HostKind; // GCC 12 or newer fills registers
HostKind host_kind(const Args *compiler);
void host_add_frames(Args *args); // flags of how functions lay out their stack frames
const char *host_cpu(void); // names the instruction sets that images are compiled for
// Runs args inside the folder. The exit code; -1: it did not end by itself. said: its messages.
int host_run(const char *folder, Args *args, Text *said, Text *log);
uint32_t host_checksum(const void *image, size_t length); // of an ELF file, except for e_flags

// Path of the headers (`name` in the folder) precompiled with these options (precompiled.c).
// headers: their text. False if no folder for it is set or the compiler fails.
bool precompiled_find(const char *folder, const char *name, const Text *headers,
                      const Args *options, char path[kPath]);
// Compiles with that file. False: it failed, and the caller compiles without; a file that the
// compiler rejects is deleted.
bool precompiled_run(const char *folder, Args *args, const char *path);

bool folder_make(char folder[kFolder], Text *log); // a new one, private, temporary
void folder_remove(const char *folder);            // unless NNGEN_SIM_KEEP is set
bool folder_write(const char *folder, const char *name, const char *begin, size_t length,
                  Text *log);
bool folder_read(const char *folder, const char *name, Text *out);
// Reads the compiler's output file.
bool folder_read_output(const char *folder, const char *name, Text *out, Text *log);
// Marks an image as built by libcusim. False: it is not a shared object.
bool host_seal_image(Text *image);

#pragma GCC visibility pop
#endif
