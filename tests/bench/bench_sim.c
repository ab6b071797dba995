// bench_sim.c: how fast libcusim is: fiber switches, plain threads, fp32 FMA loops, emulated mma.
// Prints a table; gates nothing. NNGEN_SIM_THREADS=1 gives figures per core.
#include "tests/sim/device.h"

#include <time.h>

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

// Best of five launches, seconds.
static double seconds(const char *source, int grid, int block, int smem) {
  CUfunction f = device_function(source, "k");
  CUdeviceptr p = device_upload(NULL, 64 << 20);
  if (smem) OK(cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, smem));
  OK(cuMemsetD32(p, 0, 16 << 20));
  double best = 1e9;
  for (int i = 0; i < 6; i++) {
    double begin = now();
    OK(device_run(f, grid, block, smem, (void *[]){&p}));
    double took = now() - begin;
    if (i && took < best) best = took;
  }
  OK(cuMemFree(p));
  return best;
}

static void compile_time(const char *name, const char *source) {
  char *image, *log;
  double begin = now();
  nvrtcResult r = device_compile(source, "bench.cu", &image, &log);
  printf("%-44s %9.0f ms%s\n", name, (now() - begin) * 1e3, r ? " FAILED" : "");
  free(image);
  free(log);
}

int main(void) {
  enum { kRounds = 1000, kWarps = 4, kGrid = 64 };
  if (!device_open()) return 3;
  double t = seconds("extern \"C\" __global__ void k(float *p) {\n"
                     "  for (int i = 0; i < 1000; i++) __syncthreads(); }",
                     kGrid, 128, 0);
  printf("%-44s %9.1f ns\n", "fiber switch (__syncthreads, per thread)",
         t * 1e9 / kRounds / 128 / kGrid);
  t = seconds("extern \"C\" __global__ void k(float *p) {\n"
              "  for (int i = 0; i < 1000; i++) __syncwarp(); }",
              kGrid, 128, 0);
  printf("%-44s %9.1f ns\n", "meeting of a warp, per lane", t * 1e9 / kRounds / 128 / kGrid);
  t = seconds("extern \"C\" __global__ void k(float *p) {\n"
              "  int i = blockIdx.x * blockDim.x + threadIdx.x; p[i] = p[i] * 2 + 1; }",
              32768, 256, 0);
  printf("%-44s %9.2f ns\n", "thread of an elementwise kernel", t * 1e9 / 32768 / 256);
  t = seconds("#include \"lib/prim.cuh\"\n"
              "extern \"C\" __global__ void k(f16 *p) {\n"
              "  int i = 8 * (blockIdx.x * blockDim.x + threadIdx.x);\n"
              "  Vec<float, 8> x = nn_float(nn_load<8>(p + i));\n"
              "  for (int j = 0; j < 8; j++) x[j] = x[j] * 2 + 1;\n"
              "  nn_store<8>(p + i, nn_cast<f16>(x)); }",
              4096, 256, 0);
  printf("%-44s %9.2f ns\n", "the same, 8 fp16 values a thread", t * 1e9 / 4096 / 256);
  t = seconds("extern \"C\" __global__ void k(float *p) {\n"
              "  float a[64], x = p[threadIdx.x]; for (int i = 0; i < 64; i++) a[i] = i;\n"
              "  for (int k = 0; k < 256; k++) for (int i = 0; i < 64; i++)\n"
              "    a[i] = fmaf(x, p[k * 64 + i], a[i]);\n"
              "  float s = 0; for (int i = 0; i < 64; i++) s += a[i]; p[1 << 20] = s; }",
              kGrid, 128, 0);
  printf("%-44s %9.2f GMAC/s\n", "fp32, 64 accumulators a thread",
         64.0 * 256 * kGrid * 128 / t * 1e-9);
  const char *mma = "#include \"lib/prim.cuh\"\n"
                    "extern \"C\" __global__ void k(float *p) {\n"
                    "  unsigned a[4][4] = {}, b[8][2] = {}; float d[4][8][4] = {};\n"
                    "  for (int k = 0; k < 64; k++) %s\n"
                    "  float s = 0;\n"
                    "  for (int i = 0; i < 128; i++) s += d[i / 32][i / 4 %% 8][i %% 4];\n"
                    "  p[threadIdx.x] = s; }";
  const struct {
    const char *name, *body;
    double macs;
  } forms[] = {
      {"mma.sync bf16 m16n8k16, single",
       "for (int m = 0; m < 4; m++) for (int n = 0; n < 8; n++)\n"
       "nn_mma_m16n8k16(d[m][n], a[m], b[n], bf16{});",
       16 * 8 * 16 * 32.0},
      {"mma.sync bf16, tiles of 4x8", "nn_mma_tile(d, a, b, bf16{});", 16 * 8 * 16 * 32.0},
      {"mma.sync f16, tiles of 4x8", "nn_mma_tile(d, a, b, f16{});", 16 * 8 * 16 * 32.0},
      {"mma.sync tf32 m16n8k8, tiles of 4x8", "nn_mma_tile_tf32(d, a, b);", 16 * 8 * 8 * 32.0}};
  for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
    char source[2048];
    snprintf(source, sizeof source, mma, forms[i].body);
    t = seconds(source, kGrid, kWarps * 32, 0);
    printf("%-44s %9.2f GMAC/s\n", forms[i].name, forms[i].macs * 64 * kGrid * kWarps / t * 1e-9);
    if (i == 1) compile_time("compile: that kernel", source);
  }
  compile_time("compile: an empty kernel", "extern \"C\" __global__ void k(float *p) {}");
  return 0;
}
