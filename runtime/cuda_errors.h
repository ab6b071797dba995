// cuda_errors.h: the error codes of the driver API and NVRTC, with the driver's descriptions.
//
// Part of cuda_api.h, which says where the names and numbers are from.
#ifndef NNGEN_CUDA_ERRORS_H
#define NNGEN_CUDA_ERRORS_H

// CUDA_ERROR(name without prefix, code, text): the results of driver calls.
#define CUDA_ERRORS(CUDA_ERROR)                                                                    \
  CUDA_ERROR(INVALID_VALUE, 1, "invalid argument")                                                 \
  CUDA_ERROR(OUT_OF_MEMORY, 2, "out of memory")                                                    \
  CUDA_ERROR(NOT_INITIALIZED, 3, "initialization error")                                           \
  CUDA_ERROR(DEINITIALIZED, 4, "driver shutting down")                                             \
  CUDA_ERROR(STUB_LIBRARY, 34, "CUDA driver is a stub library")                                    \
  CUDA_ERROR(NO_DEVICE, 100, "no CUDA-capable device is detected")                                 \
  CUDA_ERROR(INVALID_DEVICE, 101, "invalid device ordinal")                                        \
  CUDA_ERROR(INVALID_IMAGE, 200, "device kernel image is invalid")                                 \
  CUDA_ERROR(INVALID_CONTEXT, 201, "invalid device context")                                       \
  CUDA_ERROR(NO_BINARY_FOR_GPU, 209, "no kernel image is available for execution on the device")   \
  CUDA_ERROR(INVALID_PTX, 218, "a PTX JIT compilation failed")                                     \
  CUDA_ERROR(JIT_COMPILER_NOT_FOUND, 221, "PTX JIT compiler library not found")                    \
  CUDA_ERROR(UNSUPPORTED_PTX_VERSION, 222,                                                         \
             "the provided PTX was compiled with an unsupported toolchain.")                       \
  CUDA_ERROR(INVALID_SOURCE, 300, "device kernel image is invalid")                                \
  CUDA_ERROR(FILE_NOT_FOUND, 301, "file not found")                                                \
  CUDA_ERROR(SHARED_OBJECT_INIT_FAILED, 303, "shared object initialization failed")                \
  CUDA_ERROR(OPERATING_SYSTEM, 304, "OS call failed or operation not supported on this OS")        \
  CUDA_ERROR(INVALID_HANDLE, 400, "invalid resource handle")                                       \
  CUDA_ERROR(ILLEGAL_STATE, 401, "the operation cannot be performed in the present state")         \
  CUDA_ERROR(NOT_FOUND, 500, "named symbol not found")                                             \
  CUDA_ERROR(NOT_READY, 600, "device not ready")                                                   \
  CUDA_ERROR(ILLEGAL_ADDRESS, 700, "an illegal memory access was encountered")                     \
  CUDA_ERROR(LAUNCH_OUT_OF_RESOURCES, 701, "too many resources requested for launch")              \
  CUDA_ERROR(LAUNCH_TIMEOUT, 702, "the launch timed out and was terminated")                       \
  CUDA_ERROR(HOST_MEMORY_ALREADY_REGISTERED, 712,                                                  \
             "part or all of the requested memory range is already mapped")                        \
  CUDA_ERROR(HOST_MEMORY_NOT_REGISTERED, 713,                                                      \
             "pointer does not correspond to a registered memory region")                          \
  CUDA_ERROR(CONTEXT_IS_DESTROYED, 709, "context is destroyed")                                    \
  CUDA_ERROR(ASSERT, 710, "device-side assert triggered")                                          \
  CUDA_ERROR(HARDWARE_STACK_ERROR, 714, "hardware stack error")                                    \
  CUDA_ERROR(ILLEGAL_INSTRUCTION, 715, "an illegal instruction was encountered")                   \
  CUDA_ERROR(MISALIGNED_ADDRESS, 716, "misaligned address")                                        \
  CUDA_ERROR(LAUNCH_FAILED, 719, "unspecified launch failure")                                     \
  CUDA_ERROR(COOPERATIVE_LAUNCH_TOO_LARGE, 720, "too many blocks in cooperative launch")           \
  CUDA_ERROR(NOT_PERMITTED, 800, "operation not permitted")                                        \
  CUDA_ERROR(NOT_SUPPORTED, 801, "operation not supported")                                        \
  CUDA_ERROR(STREAM_CAPTURE_UNSUPPORTED, 900, "operation not permitted when stream is capturing")  \
  CUDA_ERROR(STREAM_CAPTURE_INVALIDATED, 901,                                                      \
             "operation failed due to a previous error during capture")                            \
  CUDA_ERROR(STREAM_CAPTURE_MERGE, 902,                                                            \
             "operation would result in a merge of separate capture sequences")                    \
  CUDA_ERROR(STREAM_CAPTURE_UNMATCHED, 903, "capture was not ended in the same stream")            \
  CUDA_ERROR(STREAM_CAPTURE_UNJOINED, 904, "capturing stream has unjoined work")                   \
  CUDA_ERROR(STREAM_CAPTURE_ISOLATION, 905,                                                        \
             "dependency created on uncaptured work in another stream")                            \
  CUDA_ERROR(STREAM_CAPTURE_IMPLICIT, 906,                                                         \
             "operation would make the legacy stream depend on a capturing blocking stream")       \
  CUDA_ERROR(CAPTURED_EVENT, 907,                                                                  \
             "operation not permitted on an event last recorded in a capturing stream")            \
  CUDA_ERROR(GRAPH_EXEC_UPDATE_FAILURE, 910,                                                       \
             "the graph update was not performed because of a violated constraint")                \
  CUDA_ERROR(INVALID_CLUSTER_SIZE, 912, "invalid cluster configuration")                           \
  CUDA_ERROR(UNKNOWN, 999, "unknown error")

#define CUDA_ERROR_CONSTANT(name, code, text) CUDA_ERROR_##name = code,
typedef enum CUresult {
  CUDA_SUCCESS = 0,
  CUDA_ERRORS(CUDA_ERROR_CONSTANT)
} CUresult;
#undef CUDA_ERROR_CONSTANT

// NVRTC_ERROR(name with prefix, code)
#define NVRTC_ERRORS(NVRTC_ERROR)                                                                  \
  NVRTC_ERROR(NVRTC_SUCCESS, 0)                                                                    \
  NVRTC_ERROR(NVRTC_ERROR_OUT_OF_MEMORY, 1)                                                        \
  NVRTC_ERROR(NVRTC_ERROR_PROGRAM_CREATION_FAILURE, 2)                                             \
  NVRTC_ERROR(NVRTC_ERROR_INVALID_INPUT, 3)                                                        \
  NVRTC_ERROR(NVRTC_ERROR_INVALID_PROGRAM, 4)                                                      \
  NVRTC_ERROR(NVRTC_ERROR_INVALID_OPTION, 5)                                                       \
  NVRTC_ERROR(NVRTC_ERROR_COMPILATION, 6)                                                          \
  NVRTC_ERROR(NVRTC_ERROR_BUILTIN_OPERATION_FAILURE, 7)                                            \
  NVRTC_ERROR(NVRTC_ERROR_NO_NAME_EXPRESSIONS_AFTER_COMPILATION, 8)                                \
  NVRTC_ERROR(NVRTC_ERROR_NO_LOWERED_NAMES_BEFORE_COMPILATION, 9)                                  \
  NVRTC_ERROR(NVRTC_ERROR_NAME_EXPRESSION_NOT_VALID, 10)                                           \
  NVRTC_ERROR(NVRTC_ERROR_INTERNAL_ERROR, 11)

#define NVRTC_ERROR_CONSTANT(name, code) name = code,
typedef enum nvrtcResult { NVRTC_ERRORS(NVRTC_ERROR_CONSTANT) } nvrtcResult;
#undef NVRTC_ERROR_CONSTANT

#endif
