// bench_sim.c: how fast libcusim is: fiber switches, plain threads, fp32 FMA loops, emulated mma.
// Prints a table of processor time, that is, of one core; gates nothing.
#include "tests/sim/device.h"

#include <time.h>

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

// Of this process, whose threads run the blocks: other programs beside it count for nothing.
static double processor_time(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static const char *only; // what a line's name must have to be measured; null: nothing

static bool wanted(const char *name) {
  return !only || strstr(name, only);
}

// Best of five launches, seconds of processor time.
static double seconds(const char *source, int grid, int block, int smem) {
  CUfunction f = device_function(source, "k");
  CUdeviceptr p = device_upload(NULL, 64 << 20);
  if (smem) OK(cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, smem));
  OK(cuMemsetD32(p, 0, 16 << 20));
  double best = 1e9;
  for (int i = 0; i < 6; i++) {
    double begin = processor_time();
    OK(device_run(f, grid, block, smem, (void *[]){&p}));
    double took = processor_time() - begin;
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

// Tiles of 64 x 64 and N x 64 in shared memory, swizzled by 128 bytes.
static void products_of_groups(void) {
  enum { kTurns = 64, kBlocks = 16, kBytes = (64 + 256) * 64 * 2 + 1024 };
  for (int n = 128; n <= 256; n *= 2) {
    char source[2048], name[64];
    snprintf(name, sizeof name, "wgmma bf16 m64n%dk16", n);
    if (!wanted(name)) continue;
    snprintf(source, sizeof source,
             "#include \"lib/prim.cuh\"\n"
             "struct alignas(1024) Smem { alignas(1024) bf16 a[64 * 64], b[256 * 64]; };\n"
             "extern \"C\" __global__ void k(float *p) {\n"
             "  NN_SMEM(Smem, s); float d[%d];\n"
             "  for (int i = threadIdx.x; i < 64 * 64; i += 128) s.a[i] = nn_cast<bf16>(p[i]);\n"
             "  for (int i = threadIdx.x; i < 256 * 64; i += 128) s.b[i] = nn_cast<bf16>(p[i]);\n"
             "  for (int i = 0; i < %d; i++) d[i] = 0;\n"
             "  nn_fence_proxy_async(); nn_sync();\n"
             "  for (int r = 0; r < %d; r++) {\n"
             "    nn_wgmma_fence();\n"
             "    for (int k = 0; k < 4; k++)\n"
             "      nn_wgmma_m64k16<%d, false, false>(d, nn_wgmma_tile(s.a + 16 * k, 1024, 0, "
             "kSwizzle128),\n"
             "          nn_wgmma_tile(s.b + 16 * k, 1024, 0, kSwizzle128), true, bf16());\n"
             "    nn_wgmma_commit(); nn_wgmma_wait<0>();\n"
             "  }\n"
             "  for (int i = 0; i < %d; i++) p[threadIdx.x] += d[i];\n}\n",
             n / 2, n / 2, kTurns, n, n / 2);
    double t = seconds(source, kBlocks, 128, kBytes);
    printf("%-44s %9.2f GMAC/s\n", name, 64.0 * n * 64 * kTurns * kBlocks / t * 1e-9);
  }
}

enum { kRounds = 1000, kWarps = 4, kGrid = 64 };

static void others(void) {
  double t = seconds("extern \"C\" __global__ void k(float *p) {\n"
                     "  for (int i = 0; i < 1000; i++) __syncthreads(); }",
                     kGrid, 128, 0);
  printf("%-44s %9.1f ns\n", "fiber switch (__syncthreads, per thread)",
         t * 1e9 / kRounds / 128 / kGrid);
  t = seconds("extern \"C\" __global__ void k(float *p) {\n"
              "  for (int i = 0; i < 1000; i++) __syncwarp(); }",
              kGrid, 128, 0);
  printf("%-44s %9.1f ns\n", "warp collective, per lane", t * 1e9 / kRounds / 128 / kGrid);
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
}

int main(int argc, char **argv) { // with a word: the lines that have it alone
  if (!device_open()) return 3;
  only = argc > 1 ? argv[1] : NULL;
  double t;
  if (!only) others();
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
    if (!wanted(forms[i].name)) continue;
    snprintf(source, sizeof source, mma, forms[i].body);
    t = seconds(source, kGrid, kWarps * 32, 0);
    printf("%-44s %9.2f GMAC/s\n", forms[i].name, forms[i].macs * 64 * kGrid * kWarps / t * 1e-9);
    if (i == 1) compile_time("compile: that kernel", source);
  }
  products_of_groups();
  if (only) return 0;
  compile_time("compile: an empty kernel", "extern \"C\" __global__ void k(float *p) {}");
  return 0;
}
