// nngen_runtime.h: the runtime's public C API, from a Plan to results.
//
// In the order data passes: find libraries, open a device, load a plan on it (compile its kernels,
// allocate memory), fill its parameters, set inputs, run an entry (at once, step by step, or as a
// replayed graph), read outputs. Each group is named after the file that implements it. Every
// function that can fail returns an ExitCode and, unless that is ExitOk, fills *err. The library
// never prints and never exits; warnings go to the log callback. One thread at a time may use a
// Device and everything loaded on it. All-zero options structs are the defaults.
#ifndef NNGEN_RUNTIME_H
#define NNGEN_RUNTIME_H

#include "nngen_data.h"
#include "plan.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum LogLevel { LogInfo, LogWarning } LogLevel;

typedef struct Log {
  void (*write)(void *user, LogLevel level, const char *message); // NULL: no logging
  void *user;
} Log;

typedef struct Progress {
  void (*step)(void *user, const char *what, int done, int total); // may be NULL
  void *user;
  void (*compiling)(void *user, int compiled, int cached); // before any is; may be NULL
} Progress;

// ---- find.c: which libraries there are -------------------------------------------------------

// One library that nngen can use, as `nngen doctor` shows it.
typedef struct FoundLibrary {
  const char *role; // "CUDA driver", "NVRTC", "libcusim", ...
  char *path;       // file it was loaded from; NULL when not found
  char *version;    // "13.0", or "" when it does not say
  char *how;        // which rule of the search found it: "ld.so", "CUDA_PATH", "beside nngen"
  char **searched;  // every place that was tried, in order
  int nsearched;
  char *note;       // what is wrong and how to fix it, or ""
} FoundLibrary;

typedef struct FindReport {
  FoundLibrary *libraries;
  int nlibraries;
  bool nvtx;            // built with the NVTX3 headers
  char *host_compiler;  // the compiler that libcusim uses, or ""
  char *cache_dir;      // where compiled kernels are kept
} FindReport;

// Looks for every library without opening a device. `cuda_path` (may be NULL) is searched first.
void find_report(const char *cuda_path, FindReport *report);
void find_report_free(FindReport *report);

// ---- device.c: a device ----------------------------------------------------------------------

typedef enum DeviceKind { DeviceAuto, DeviceCuda, DeviceSim } DeviceKind;

typedef enum NvtxLevel { NvtxOff, NvtxModel, NvtxLayer } NvtxLevel;

typedef struct DeviceOptions {
  DeviceKind kind;       // auto: a GPU if there is one, else the simulator
  int ordinal;           // which GPU
  const char *cuda_path; // searched before anything else (--cuda-path); NULL: NNGEN_CUDA_PATH
  NvtxLevel nvtx;        // ranges of loading, parameters, and runs without a level
  Log log;
} DeviceOptions;

typedef struct DeviceInfo {
  DeviceKind kind; // DeviceCuda or DeviceSim
  int ordinal;
  char name[256];
  char arch[16]; // what kernels are compiled for: "sm_90a"
  int major, minor;
  int sm_count, max_threads_per_sm, regs_per_sm, warp_size;
  int smem_per_block; // most dynamic shared memory per block
  int smem_per_sm, l2_bytes;
  size_t memory_total, memory_free;
  int driver_version, nvrtc_version; // 13000 is 13.0
  char driver_library[512], nvrtc_library[512];
  double clock_ghz;   // highest SM clock
  double dram_gbs;    // peak DRAM bandwidth, GB/s; this and the peaks below are 0 if unknown
  double peak_fp32, peak_tf32, peak_fp16; // peak TFLOP/s: CUDA cores, tensor cores (dense)
} DeviceInfo;

typedef struct Device Device;

bool device_parse(const char *name, DeviceKind *kind); // "auto", "cuda", "sim"

// Opens a device. Errors: ExitNoDevice (which libraries were tried, where), ExitNoToolchain.
int device_open(const DeviceOptions *options, Device **device, Error *err);
const DeviceInfo *device_info(const Device *device);
void device_close(Device *device); // everything loaded on it must be closed before

// ---- jit.c: kernels to machine code ----------------------------------------------------------

typedef struct KernelReport {
  int registers;    // per thread; -1 if unknown (simulator)
  int spill_bytes;  // spill stores + spill loads; -1: not known
  int stack_bytes;  // -1: not known
  int smem_static;  // bytes of static shared memory; -1: not known
  bool serialized;  // ptxas serialised the wgmma instructions
  bool cached;      // came from the cache
  bool shared;      // compiled once with an earlier kernel that differs only in names
  double seconds;   // compile time of this kernel
  size_t image_bytes;
} KernelReport;

typedef struct JitOptions {
  const char *arch;      // jit_compile only: "sm_90a". load_plan compiles for its device
  const char *cuda_path; // jit_compile only
  const char *cache_dir; // NULL: the default folder; "": no cache
  const char *dump_dir;  // sources and images are written here; NULL: none
  const char *entry;     // only kernels of this entry and of init are compiled; NULL: all
  int threads;           // 0: one per core
  bool line_info;        // source lines for profilers; then no two kernels share a program
  bool own_symbols;      // compile each kernel under its name, shared or not
  Progress progress;
  Log log;
} JitOptions;

typedef struct JitReport {
  int compiled, cached, shared; // sum = kernels of the plan, or of JitOptions.entry and init
  double seconds;               // wall clock, all kernels
  KernelReport *kernels;        // one per kernel of the plan
  int nkernels;
} JitReport;

// Compiles every kernel of `plan` for options->arch with NVRTC; needs no device. Errors:
// ExitNoToolchain (no NVRTC, unknown arch), ExitMismatch (a kernel does not compile: NVRTC's log,
// and where the .cu was kept).
int jit_compile(const Plan *plan, const JitOptions *options, JitReport *report, Error *err);
void jit_report_free(JitReport *report);

// ---- cache.c: compiled kernels on disk -------------------------------------------------------

// NNGEN_CACHE_DIR, XDG_CACHE_HOME/nngen, ~/.cache/nngen; to be freed. NULL if none is set.
char *cache_default_dir(void);

typedef struct CacheEntry {
  char name[64]; // file name: the key in hex
  char kernel[128];
  char arch[16];
  int64_t bytes;
  int64_t used;  // time of last use, seconds since 1970
  bool valid;    // set by cache_verify
} CacheEntry;

typedef struct CacheList {
  char *dir;
  CacheEntry *entries; // least recently used first
  int nentries;
  int64_t bytes;
} CacheList;

// `dir` NULL is the default folder. Errors: ExitBadInput if the folder cannot be used.
int cache_list(const char *dir, CacheList *list, Error *err);   // headers only
int cache_verify(const char *dir, CacheList *list, Error *err); // reads and checks every byte
int cache_clear(const char *dir, int *removed, Error *err);
void cache_list_free(CacheList *list);

// ---- load.c: a plan on a device --------------------------------------------------------------

typedef struct Loaded Loaded; // a plan, compiled and in device memory

// Compiles the plan's kernels and allocates its memory. The plan must outlive *loaded. Errors:
// those of jit_compile; ExitNoDevice: out of memory (with sizes and the largest tensors).
int load_plan(Device *device, const Plan *plan, const JitOptions *options, Loaded **loaded,
              Error *err);
const JitReport *load_report(const Loaded *loaded);
const Plan *load_get_plan(const Loaded *loaded);
// True, before params_fill: memory that only `init` needs stays readable. False: it is freed.
void load_keep_init(Loaded *loaded, bool keep);
// Fills the arena and the outputs of `infer` with NaN, which exposes reads of unwritten memory.
int load_poison(Loaded *loaded, Error *err);
void load_close(Loaded *loaded);

// ---- params.c: parameters --------------------------------------------------------------------

typedef struct Params Params; // source of parameter values: a weights file, or a seed

typedef struct ParamsReport {
  int filled;     // parameters given a value
  int64_t count;  // their elements
  double seconds_init; // of it, the entry `init` on the device
  char **unused, **seeded; // the file's that no parameter took; states that it lacks: an updated
  int nunused, nseeded;    // weight, too, which has its initial value, unless params_choose says so
} ParamsReport;

// `weights` is a safetensors file, or NULL: seeded random values. Errors: ExitBadInput.
int params_open(const char *weights, uint64_t seed, Params **params, Error *err);

// The values of parameter `tensor`, rounded to its dtype, row-major in its model shape. Errors:
// ExitBadInput: no such weight, or its shape (name, expected and found).
int params_values(const Params *params, const PlanTensor *tensor, float *values, Error *err);
int params_check(const Params *params, const Plan *plan, Error *err); // has each one a value?

// Fills every parameter of the plan, runs its entry `init` if there is one, and frees SpaceInit
// (load_keep_init). `report` may be NULL.
int params_fill(const Params *params, Loaded *loaded, ParamsReport *report, Error *err);
void params_report_free(ParamsReport *report);
bool params_has(const PlanTensor *tensor); // is it a parameter or a state?
// Writes all parameters and the current states to a safetensors file.
int params_save(const Params *params, Loaded *loaded, const char *path, Error *err);
// Copies the same values to memory: `count` tensors, to be freed with params_snapshot_free.
int params_snapshot(const Params *params, Loaded *loaded, WeightTensor **tensors, int *count,
                    Error *err);
void params_snapshot_free(WeightTensor *tensors, int count);
void params_close(Params *params);

// ---- tensor.c: values in and out -------------------------------------------------------------

int tensor_find(const Plan *plan, const char *name); // input, output, parameter, else value; or -1
int64_t tensor_count(const PlanTensor *tensor);      // elements

// Whole tensors as stored (order, dtype); `bytes` must be the tensor's.
int tensor_read(Loaded *loaded, int tensor, void *stored, size_t bytes, Error *err);
int tensor_write(Loaded *loaded, int tensor, const void *stored, size_t bytes, Error *err);
// In its dtype, but row-major in the model's shape.
int tensor_read_plain(Loaded *loaded, int tensor, void *values, size_t bytes, Error *err);

// Whole tensors as floats, row-major in the model's shape; `count` must be tensor_count.
int tensor_read_floats(Loaded *loaded, int tensor, float *values, int64_t count, Error *err);
int tensor_write_floats(Loaded *loaded, int tensor, const float *values, int64_t count, Error *err);
// As doubles, which represent every integer of 53 bits.
int tensor_read_doubles(Loaded *loaded, int tensor, double *values, int64_t count, Error *err);
int tensor_write_doubles(Loaded *loaded, int tensor, const double *values, int64_t count,
                         Error *err);

// Converts without a device. Rounds to nearest even; i32 and u8 saturate.
void tensor_to_floats(const PlanTensor *tensor, const void *stored, float *values);
void tensor_from_floats(const PlanTensor *tensor, const float *values, void *stored);
void tensor_to_doubles(const PlanTensor *tensor, const void *stored, double *values);
void tensor_from_doubles(const PlanTensor *tensor, const double *values, void *stored);

// ---- run.c, replay.c: entries ----------------------------------------------------------------

int run_entry(Loaded *loaded, const char *entry, Error *err); // returns when the device is done

// Runs step by step. After each step the device is idle and `hook` is called with the step's time
// (milliseconds, by events). A hook that does not return ExitOk ends the run with its result.
typedef int (*RunHook)(void *user, int step, const PlanStep *what, double ms, Error *err);
int run_steps(Loaded *loaded, const char *entry, RunHook hook, void *user, Error *err);

typedef struct RunOptions {
  int warmup, repeat; // repeat 0 is 1
  bool graph;         // replay one captured graph instead of launching
  NvtxLevel nvtx;     // NvtxOff: the device's level. A replayed graph has the model range only
  Progress progress;
} RunOptions;

typedef struct RunTiming { // milliseconds, device time by events
  int runs;
  double min, mean, median, p99, max, stddev;
  double enqueue; // mean host time to enqueue one run
  double *samples;
} RunTiming;

int run_time(Loaded *loaded, const char *entry, const RunOptions *options, RunTiming *timing,
             Error *err);
void run_timing_free(RunTiming *timing);

// Median time of every step of the entry over options->repeat runs, into ms[nsteps].
int run_time_steps(Loaded *loaded, const char *entry, const RunOptions *options, double *ms,
                   Error *err);

typedef struct Replay Replay; // an entry captured as a CUDA graph
int replay_capture(Loaded *loaded, const char *entry, Replay **replay, Error *err);
int replay_run(Replay *replay, Error *err); // launches and waits
void replay_close(Replay *replay);

// ---- count.c: counters of libcusim -----------------------------------------------------------

// Of one kernel, all its launches together. libcusim counts while NNGEN_SIM_COUNT=1, which must be
// set before its device is opened.
typedef struct KernelCounts {
  int64_t launches;
  int64_t bytes_read, bytes_written;     // global memory, every access
  int64_t distinct_bytes;                // of the last launch: each byte read or written once
  int64_t requests, sectors, ideal_sectors; // of warps, global; 32 bytes a sector
  int64_t shared_requests, bank_conflicts;  // wavefronts beyond the least possible
  int64_t flops; // scalar operations of any width and those of mma; an fma is two, a special one
  int64_t branches, divergent_branches; // of warps
} KernelCounts;

bool count_available(const Device *device);
// Errors: ExitNoDevice (the device does not count).
int count_kernel(const Loaded *loaded, int kernel, KernelCounts *counts, Error *err);

// ---- nvtx.c: ranges for profilers ------------------------------------------------------------

bool nvtx_parse(const char *name, NvtxLevel *level); // "off", "model", "layer"
bool nvtx_available(void);                           // false: built without the NVTX3 headers

#ifdef __cplusplus
}
#endif
#endif
