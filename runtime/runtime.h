// runtime.h: what the files of the runtime share with each other, grouped by file.
#ifndef NNGEN_RUNTIME_INTERNAL_H
#define NNGEN_RUNTIME_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "cuda_api.h"
#include "sim/names.h"
#include "nngen_runtime.h"

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

// ---- heap.c: host memory ---------------------------------------------------------------------

void *heap_alloc(size_t count, size_t size); // zeroed; NULL when there is none or it overflows
void *heap_grow(void *block, size_t count, size_t size); // realloc; the new part is not zeroed
char *heap_copy(const char *text);
char *heap_format(const char *format, ...) __attribute__((format(printf, 1, 2)));
int heap_error(Error *err, const char *what); // "out of memory: WHAT"
void heap_fail_after(int64_t allocations);    // tests: the allocation after so many fails; -1: none

// ---- half.c: 16-bit floats -------------------------------------------------------------------

float half_to_float(uint16_t bits);    // IEEE binary16
uint16_t half_from_float(float value); // to nearest even; overflows to infinity; NaN stays NaN
float bf16_to_float(uint16_t bits);
uint16_t bf16_from_float(float value);

// ---- file.c: files read whole, files replaced whole ------------------------------------------

typedef struct FileView { // a regular file, mapped for reading
  const uint8_t *bytes;
  size_t size;
} FileView;

// Errors: ExitBadInput, "KIND 'PATH': why".
int file_view(const char *kind, const char *path, FileView *view, Error *err);
void file_unview(FileView *view);

typedef struct FileWriter { // bytes for a file that appears under its name only when complete
  FILE *file;
  const char *kind;
  char path[512], temp[544];
} FileWriter;

int file_begin(const char *kind, const char *path, FileWriter *writer, Error *err);
int file_write(FileWriter *writer, const void *bytes, size_t size, Error *err); // aborts on error
int file_commit(FileWriter *writer, Error *err);                                // aborts on error
void file_abort(FileWriter *writer);
void file_fail_after(int64_t writes); // tests: the write after so many fails; -1: none

// ---- log -------------------------------------------------------------------------------------

void log_warn(const Log *log, const char *format, ...) __attribute__((format(printf, 2, 3)));
void log_info(const Log *log, const char *format, ...) __attribute__((format(printf, 2, 3)));

// ---- resize.c --------------------------------------------------------------------------------

int resize_image(const Image *in, int width, int height, Image *out, Error *err);

// ---- find.c ----------------------------------------------------------------------------------

typedef enum FindKind {
  FindDriver,
  FindNvrtc,
  FindSim,
  FindCublas,
  FindCudnn,
  FindCupti,
  FindCount
} FindKind;

// Opens a library; NULL when it is not there, and *found says why. `newest` is the index of the
// first soname that may be used (0: any). The caller frees *found with find_free, always.
void *find_library(FindKind kind, const char *cuda_path, int newest, FoundLibrary *found);
void find_free(FoundLibrary *found);
void find_describe(const FoundLibrary *found, char *text, size_t size); // for error messages

// ---- api.c: the tables of functions ----------------------------------------------------------

typedef struct DriverApi {
#define CUDA_API(name, symbol, parameters) CUresult(*name) parameters;
#define NVRTC_API(name, symbol, parameters)
#define NVRTC_TEXT(name, symbol, parameters)
#include "cuda_api.def"
} DriverApi;

typedef struct NvrtcApi {
#define CUDA_API(name, symbol, parameters)
#define NVRTC_API(name, symbol, parameters) nvrtcResult(*name) parameters;
#define NVRTC_TEXT(name, symbol, parameters) const char *(*name)parameters;
#include "cuda_api.def"
} NvrtcApi;

// Fill a table from an open library; *missing is the first symbol it lacks.
bool api_load_driver(void *library, DriverApi *api, const char **missing);
bool api_load_nvrtc(void *library, NvrtcApi *api, const char **missing);

// ExitOk, or ExitNoDevice with "CALL failed: NAME (code): text".
int api_check(const DriverApi *api, CUresult result, const char *call, Error *err);
void api_fail_after(int64_t calls); // tests: the call after so many is taken for failed; -1: none
#define CU(api, err, function, ...) api_check((api), (api)->function(__VA_ARGS__), #function, (err))

// ---- toolkit.c: NVRTC, or the simulator's compiler -------------------------------------------

typedef struct Toolkit {
  void *library;
  NvrtcApi api;
  int version;    // 13000 is 13.0
  bool simulator; // kernels become host code
  char path[512];
  char identity[192]; // what else decides the compiled bytes: build-id, host compiler
} Toolkit;

// `newest`: as in find_library. Errors: ExitNoToolchain.
int toolkit_open(const char *cuda_path, int newest, Toolkit *toolkit, Error *err);
int toolkit_open_sim(void *library, const char *path, Toolkit *toolkit, Error *err);
int toolkit_check_arch(const Toolkit *toolkit, const char *arch, Error *err);
void toolkit_close(Toolkit *toolkit); // leaves libcusim open: the device owns it

// ---- host.c: the machine the simulator compiles kernels for ----------------------------------

bool host_compiler(char *path, size_t size); // the C++ compiler it will use; false: there is none
void host_stamp(const char *path, char *text, size_t size); // size and time of a file
void host_identity(char *text, size_t size); // a hash of compiler, processor and checks

// ---- cache.c, cache_list.c: compiled kernels on disk -----------------------------------------

typedef struct CacheKey {
  uint64_t low, high;
} CacheKey;

typedef struct CacheItem { // what one entry holds
  char kernel[128], arch[16];
  int registers, spill_bytes, stack_bytes, smem_static; // as in KernelReport
  void *image;                                          // malloc
  size_t size;
} CacheItem;

typedef struct Cache {
  char *dir;            // NULL: no cache
  atomic_bool writable; // until a write fails
  atomic_bool stored;   // something was put
  Log log;
} Cache;

// None of these fails: without a usable folder there is no cache, and a warning says why. Threads
// may get and put at the same time.
void cache_open(const char *dir, const Log *log, Cache *cache);
bool cache_get(Cache *cache, CacheKey key, CacheItem *item);
void cache_put(Cache *cache, CacheKey key, const CacheItem *item);
void cache_close(Cache *cache); // drops the least recently used entries beyond the limit
void cache_evict(const char *dir, int64_t limit);

// Reads and verifies one file of the cache. Returns NULL and fills *item (image only when
// `with_image`), or says what is wrong; *missing is set when there is no such file.
const char *cache_read(const char *path, const CacheKey *key, bool with_image, CacheItem *item,
                       bool *missing);

// ---- jit.c, ptxas.c --------------------------------------------------------------------------

typedef struct KernelImage {
  void *bytes; // NULL when `same` has them
  size_t size;
  int same; // index of the first kernel with the same program; its own when it is that one
  const char *symbol; // what the image calls its kernel; lives as long as the plan
} KernelImage;

enum { JitMaxFlags = 6 };

// One run of jit_build; shared by its threads.
typedef struct JitBuild {
  const Toolkit *toolkit;
  const Plan *plan;
  const JitOptions *options;
  const char *arch;
  const char *flags[JitMaxFlags]; // NVRTC's options
  int nflags;
  char arch_flag[48];
  const char **header_texts, **header_names;
  CacheKey *keys;
  KernelImage *images;
  KernelReport *reports;
  Cache cache;
  atomic_int next; // the next kernel to take
  atomic_int failed;
  pthread_mutex_t lock; // of what follows
  int done, failed_kernel;
  Error failure; // of the failed kernel with the lowest index
} JitBuild;

double jit_seconds(void);
int jit_find_twins(JitBuild *build, Error *err);        // makes the keys, sets images[].same
int jit_kernel(JitBuild *build, int index, Error *err); // from the cache, or compiled
void jit_dump(const JitBuild *build); // sources and images to options->dump_dir, when there is one

// The image of `kernel` under its own name (malloc), from the one it shares. libcusim's keep the
// shared name. *bytes NULL: the image is not understood. Errors: out of memory.
int jit_image(const Toolkit *toolkit, const PlanKernel *kernel, const KernelImage *image,
              void **bytes, size_t *size, Error *err);

// Compiles or fetches every kernel of the plan. On success the caller frees images[nkernels] with
// jit_images_free and *report with jit_report_free; on failure there is nothing to free.
int jit_build(const Toolkit *toolkit, const Plan *plan, const char *arch, const JitOptions *options,
              KernelImage **images, JitReport *report, Error *err);
void jit_images_free(KernelImage *images, int count);

void ptxas_parse(const char *log, const char *kernel, KernelReport *report);

// ---- source.c, cubin.c -----------------------------------------------------------------------

// Both NULL when there is no memory; the caller frees.
char *source_canonical(const char *source); // without what does not change the machine code
// The kernel `symbol` becomes `neutral`, the blank-separated `names` (or NULL: they stay) become
// $1, $2, ... in the order in which they appear. Two sources with the same result are one program.
char *source_rename(const char *source, const char *symbol, const char *neutral, const char *names);

// A copy of a cubin (malloc) whose kernel `from` is called `to`; *out NULL when the file is not
// understood: a caller then compiles the kernel under its own name. Errors: out of memory.
int cubin_rename(const void *image, size_t size, const char *from, const char *to, void **out,
                 size_t *out_size, Error *err);

// ---- nvtx.c ----------------------------------------------------------------------------------

typedef struct Nvtx Nvtx;             // the domain `nngen`
typedef struct NvtxRanges NvtxRanges; // names and colours, made once; only the payload changes

typedef enum NvtxCategory {
  NvtxForward = 1, // categories count from 1; 0 is none
  NvtxBackward,
  NvtxOptimizer,
  NvtxData,
  NvtxCompile,
  NvtxMemory,
  NvtxMetrics
} NvtxCategory;

enum NvtxColor { // ARGB
  ColorGreen = 0xFF00C853,
  ColorCyan = 0xFF00BCD4,
  ColorYellow = 0xFFFFEB3B,
  ColorOrange = 0xFFFF9800,
  ColorBlue = 0xFF2196F3,
  ColorPurple = 0xFF9C27B0,
  ColorPink = 0xFFE91E63,
  ColorMagenta = 0xFFFF00FF,
  ColorRed = 0xFFF44336,
  ColorGrey = 0xFF9E9E9E
};

Nvtx *nvtx_open(void); // NULL: built without NVTX, or no memory. Everything below takes NULL
void nvtx_close(Nvtx *nvtx);
NvtxRanges *nvtx_ranges(int count);
void nvtx_ranges_free(NvtxRanges *ranges);
void nvtx_range_set(Nvtx *nvtx, NvtxRanges *ranges, int index, const char *name,
                    NvtxCategory category, uint32_t color);
void nvtx_push(Nvtx *nvtx, NvtxRanges *ranges, int index, uint64_t payload);
void nvtx_push_named(Nvtx *nvtx, const char *name, NvtxCategory category, uint32_t color);
void nvtx_pop(Nvtx *nvtx);

// ---- device.c --------------------------------------------------------------------------------

struct Device {
  DriverApi api;
  Toolkit toolkit;
  DeviceInfo info;
  void *library;
  CUdevice handle;
  CUcontext context;
  CUstream stream; // everything runs here, in order
  NvtxLevel nvtx_level;
  Nvtx *nvtx; // NULL while no level is on
  Log log;
};

// ---- load.c ----------------------------------------------------------------------------------

struct Loaded {
  Device *device;
  const Plan *plan;
  JitReport report;
  CUmodule *modules;     // one per kernel; NULL where libcusim shares another's
  CUfunction *functions; // one per kernel
  CUdeviceptr spaces[3]; // by Space; 0 when it has no bytes, or is freed
  bool keep_init;        // SpaceInit stays after `init`
  CUdeviceptr *pointers; // kernel arguments, all kernels in a row
  void **params;         // the address of each of them, as cuLaunchKernel wants it
  int *first_param;      // of each kernel
  CUevent begin, end;
  CusimNameLaunch name_launch; // of libcusim; null on a GPU
  NvtxLevel nvtx_level;
  NvtxRanges *ranges; // kernels, then entries; made at the first run with ranges
  uint64_t runs;      // payload of the model range
};

void load_refuse_renamed(bool refuse); // tests: as if the driver refused images with a new name
int load_space(Loaded *loaded, Space space, Error *err); // takes its memory, binds arguments
void load_free_space(Loaded *loaded, Space space);
CUdeviceptr load_pointer(const Loaded *loaded, int tensor);

// ---- tensor.c --------------------------------------------------------------------------------

void tensor_shape_text(const PlanTensor *tensor, char *text, size_t size); // "64x3x7x7"

// ---- run.c -----------------------------------------------------------------------------------

int run_find_entry(const Loaded *loaded, const char *name, int *entry, Error *err);
int run_enqueue(Loaded *loaded, int entry, Error *err); // puts every step on the stream
int run_enqueue_step(Loaded *loaded, const PlanStep *step, Error *err);
void run_push(Loaded *loaded, int entry); // the model range, when ranges are on
void run_pop(Loaded *loaded);

// ---- replay.c --------------------------------------------------------------------------------

int replay_enqueue(Replay *replay, Error *err);

// ---- plan_check.c ----------------------------------------------------------------------------

// Everything the runtime relies on. Errors: ExitBadInput, naming the field.
int plan_check(const Plan *plan, Error *err);

#endif
