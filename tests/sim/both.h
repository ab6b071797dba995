// both.h: one kernel in two ways: the host's compiler reads it with libcusim's headers; NVIDIA's
// NVRTC with its toolkit's, and its PTX runs. For tests that hold the two together.
#ifndef TESTS_BOTH_H
#define TESTS_BOTH_H

#include <sys/mman.h>

#include "tests/sim/device.h"

typedef struct BothRun {
  const char *source, *front; // kernel k(T *out)
  int threads;
  size_t bytes;
  char *out; // shared with the child
  bool *absent;
} BothRun;

static void both_set(const void *user) {
  setenv("NNGEN_SIM_FRONTEND", ((const BothRun *)user)->front, 1);
}

static bool both_build(const BothRun *run, char **image) {
  nvrtcProgram program;
  char beside[1100]; // headers of its toolkit that include these look here
  const char *cuda = getenv("CUDA_PATH"), *options[] = {device_arch(), "--std=c++17", beside};
  size_t bytes;
  bool theirs = !strcmp(run->front, "nvrtc");
  snprintf(beside, sizeof beside, "-I%s/include/cccl", cuda && *cuda ? cuda : "/usr/local/cuda");
  assert_int_equal(nvrtcCreateProgram(&program, run->source, "both.cu", 0, NULL, NULL), 0);
  bool ok = nvrtcCompileProgram(program, 2 + theirs, options) == NVRTC_SUCCESS;
  if (!ok) {
    assert_int_equal(nvrtcGetProgramLogSize(program, &bytes), 0);
    char *log = malloc(bytes + 1);
    assert_int_equal(nvrtcGetProgramLog(program, log), 0);
    *run->absent = strstr(log, "no NVRTC of NVIDIA's") || strstr(log, "cannot open source file") ||
                   strstr(log, "could not open source file");
    if (!*run->absent) fail_msg("%s: %s", run->front, log);
    free(log);
    return false;
  }
  assert_int_equal(nvrtcGetCUBINSize(program, &bytes), 0);
  *image = malloc(bytes);
  assert_int_equal(nvrtcGetCUBIN(program, *image), 0);
  nvrtcDestroyProgram(&program);
  return true;
}

static void both_run(const void *user) {
  const BothRun *run = user;
  char *image;
  CUmodule module;
  CUfunction f;
  if (!both_build(run, &image)) return;
  OK(cuModuleLoadData(&module, image));
  OK(cuModuleGetFunction(&f, module, "k"));
  CUdeviceptr out = device_upload(run->out, run->bytes);
  OK(device_run(f, 1, run->threads, 0, (void *[]){&out}));
  OK(cuMemcpyDtoH(run->out, out, run->bytes));
  free(image);
}

// What a block of `threads` leaves in out[], zeros at first, by the front end `front`: cxx or
// nvrtc. NULL: there is no NVRTC, or no such header in its toolkit; that is printed.
static void *both_get(const char *front, const char *source, int threads, size_t bytes) {
  char *shared =
      mmap(NULL, bytes + sizeof(bool), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  assert_true(shared != MAP_FAILED);
  BothRun run = {source, front, threads, bytes, shared, (bool *)(shared + bytes)};
  device_child(both_set, both_run, &run);
  if (!*run.absent) return shared;
  puts("# not compared: NVIDIA's NVRTC or its toolkit's headers are not installed");
  munmap(shared, bytes + sizeof(bool));
  return NULL;
}

#endif
