// device.h: libraries found and opened, and the device, by file.
#ifndef NNGEN_RUNTIME_DEVICE_H
#define NNGEN_RUNTIME_DEVICE_H

#include "base/base.h"
#include "cuda_api.h"

// ---- find.c -----------------------------------------------------------------------------------

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

// ---- api.c: the tables of functions -----------------------------------------------------------

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
void api_fail_after(int64_t calls); // tests: the call after this many fails; -1: none
#define CU(api, err, function, ...) api_check((api), (api)->function(__VA_ARGS__), #function, (err))

// ---- toolkit.c: NVRTC, or the simulator's compiler --------------------------------------------

typedef struct Toolkit {
  void *library;
  NvrtcApi api;
  int version;    // 13000 is 13.0
  bool simulator; // kernels become host code
  char path[512];
  char identity[192]; // more inputs of the compiled bytes: build-id, host compiler
} Toolkit;

// `newest`: as in find_library. Errors: ExitNoToolchain.
int toolkit_open(const char *cuda_path, int newest, Toolkit *toolkit, Error *err);
int toolkit_open_sim(void *library, const char *path, Toolkit *toolkit, Error *err);
int toolkit_check_arch(const Toolkit *toolkit, const char *arch, Error *err);
void toolkit_close(Toolkit *toolkit); // leaves libcusim open: the device owns it

// ---- host.c: the machine the simulator compiles kernels for -----------------------------------

bool host_compiler(char *path, size_t size); // the C++ compiler it will use; false if none
void host_stamp(const char *path, char *text, size_t size); // size and time of a file
void host_identity(char *text, size_t size); // a hash of compiler, processor and settings

// ---- nvtx.c -----------------------------------------------------------------------------------

typedef struct Nvtx Nvtx;             // the domain `nngen`
typedef struct NvtxRanges NvtxRanges; // names and colours, built once; only the payload changes

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

Nvtx *nvtx_open(void); // NULL if built without NVTX or out of memory. Everything below accepts NULL
void nvtx_close(Nvtx *nvtx);
NvtxRanges *nvtx_ranges(int count);
void nvtx_ranges_free(NvtxRanges *ranges);
void nvtx_range_set(Nvtx *nvtx, NvtxRanges *ranges, int index, const char *name,
                    NvtxCategory category, uint32_t color);
void nvtx_push(Nvtx *nvtx, NvtxRanges *ranges, int index, uint64_t payload);
void nvtx_push_named(Nvtx *nvtx, const char *name, NvtxCategory category, uint32_t color);
void nvtx_pop(Nvtx *nvtx);

// ---- device.c ---------------------------------------------------------------------------------

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

#endif
