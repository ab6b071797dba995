// test_threads.c: barriers, exchanges, atomics, asynchronous copies and mbarriers of prim.cuh.
// Each kernel checks itself and writes 0 for every thread that saw what the definition says.
#include "tests/sim/device.h"

// Runs the kernel body with `int t` and `int *bad`; each thread's *bad must end as 0.
static void check_block(const char *declarations, const char *body, int threads, int smem) {
  char source[4096];
  snprintf(source, sizeof source,
           "#include \"lib/prim.cuh\"\n%s\n"
           "extern \"C\" __global__ void k(int *out, float *mem) {\n"
           "  int t = threadIdx.x, lane = nn_lane(), bad = 0; (void)lane; (void)mem;\n%s\n"
           "  out[blockIdx.x * blockDim.x + t] = bad;\n}\n",
           declarations, body);
  enum { kGrid = 3, kFloats = 4096 };
  CUfunction f = device_function(source, "k");
  if (smem) OK(cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, smem));
  static float mem[kFloats];
  static int out[kGrid * 1024];
  for (int i = 0; i < kFloats; i++) mem[i] = (float)i;
  CUdeviceptr pm = device_upload(mem, sizeof mem), po = device_upload(NULL, sizeof out);
  OK(device_run(f, kGrid, threads, smem, (void *[]){&po, &pm}));
  OK(cuMemcpyDtoH(out, po, sizeof *out * (size_t)(kGrid * threads)));
  for (int i = 0; i < kGrid * threads; i++)
    if (out[i]) fail_msg("thread %d: %d: %s", i % threads, out[i], body);
  OK(cuMemFree(pm)), OK(cuMemFree(po));
}

static void test_shuffles(void **state) {
  (void)state;
  check_block("",
              "bad += nn_shfl(t * 3, 5) != (t / 32 * 32 + 5) * 3;\n"
              "bad += 2 * (nn_shfl_xor(float(t), 9) != float(t ^ 9));\n"
              "bad += 4 * (nn_shfl_down(double(t), 4) != double(lane + 4 < 32 ? t + 4 : t));\n"
              "bad += 8 * (nn_shfl_up(unsigned(t), 3) != unsigned(lane >= 3 ? t - 3 : t));\n"
              "unsigned half = lane < 16 ? 0xffffu : 0xffff0000u;\n"
              "if (lane < 16) bad += 16 * (nn_shfl_xor(t, 8, half) != (t ^ 8));\n"
              "else bad += 16 * (nn_shfl_xor(t, 1, half) != (t ^ 1));\n"
              "if (lane % 4 == 1) bad += 32 * (nn_shfl(t, 29, 0x22222222u) != t / 32 * 32 + 29);",
              96, 0);
}

static void test_votes(void **state) {
  (void)state;
  check_block("",
              "bad += nn_ballot(t % 3 == 0) != [&] { unsigned m = 0; for (int i = 0; i < 32; i++)\n"
              "  m |= unsigned((t / 32 * 32 + i) % 3 == 0) << i; return m; }();\n"
              "bad += 2 * (nn_any(lane == 31) != true) + 4 * (nn_any(lane == 32) != false);\n"
              "bad += 8 * (nn_all(lane < 32) != true) + 16 * (nn_all(lane) != false);\n"
              "unsigned odd = 0xaaaaaaaau;\n"
              "if (lane % 2) bad += 32 * (nn_ballot(lane > 15, odd) != 0xaaaa0000u);",
              64, 0);
}

static void test_warp_reductions(void **state) {
  (void)state;
  check_block("",
              "float v = 1.0f / (t + 1), s = v, m = v, n = v;\n"
              "for (int i = 16; i; i /= 2) {\n"
              "  s += nn_shfl_xor(s, i); m = nn_max(m, nn_shfl_xor(m, i));\n"
              "  n = nn_min(n, nn_shfl_xor(n, i)); }\n"
              "bad += nn_bits(nn_warp_sum(v)) != nn_bits(s);\n"
              "bad += 2 * (nn_warp_max(v) != m) + 4 * (nn_warp_min(v) != n);\n"
              "bad += 8 * !nn_isnan(nn_warp_max(lane == 7 ? nn_nan() : v));\n"
              "bad += 16 * !nn_isnan(nn_warp_min(lane == 9 ? nn_nan() : v));",
              64, 0);
}

// The definition of a warp-wide result: f over the lanes l of the mask, from `r`.
static const char fold[] =
    "template <class F> __device__ unsigned fold(unsigned mask, unsigned r, F f) {\n"
    "  for (int l = 0; l < 32; l++) if (mask >> l & 1) r = f(r, l);\n"
    "  return r; }\n"
    "constexpr unsigned kEven = 0x55555555u, kOdd = ~kEven, kLow = 0x7ffu;\n";

static void test_matches(void **state) {
  (void)state;
  check_block(
      fold,
      "bool all = true;\n"
      "unsigned fifth = fold(kFullMask, 0, [=](unsigned r, int l) {\n"
      "  return r | unsigned(l / 5 == lane / 5) << l; });\n"
      "bad += nn_match_any(lane / 5) != fifth;\n"
      "bad += 512 * (nn_popc((1u << lane) - 1) != lane || nn_popc(~0u << lane) != 32 - lane);\n"
      "bad += 2 * (nn_match_any(lane % 2 ? -0.0f : 0.0f) != (lane % 2 ? kOdd : kEven));\n"
      "bad += 4 * (nn_match_any(double(lane / 5)) != fifth);\n"
      "bad += 8 * (nn_match_any(1ull << 40 << lane % 2) != (lane % 2 ? kOdd : kEven));\n"
      "bad += 16 * (nn_match_all(t / 32, &all) != kFullMask || !all);\n"
      "bad += 32 * (nn_match_all(lane == 31, &all) != 0 || all);\n"
      "unsigned part = lane < 11 ? kLow : ~kLow;\n"
      "bad += 64 * (nn_match_any(lane % 2, part) != (part & (lane % 2 ? kOdd : kEven)));\n"
      "bad += 128 * (nn_match_all(lane < 11, &all, part) != part || !all);\n"
      "if (lane % 2) bad += 256 * (nn_match_all(lane < 9 ? 1.0 : 2.0, &all, kOdd) != 0 || all);",
      64, 0);
}

// Each reduction over all lanes, over two parts of the warp, and over every other lane.
static void test_integer_reductions(void **state) {
  (void)state;
  check_block(
      fold,
      "auto value = [=](int l) { return unsigned(t - lane + l + 1) * 2654435761u; };\n"
      "auto least = [=](unsigned r, int l) { return value(l) < r ? value(l) : r; };\n"
      "auto most = [=](unsigned r, int l) { return value(l) > r ? value(l) : r; };\n"
      "auto lowest = [=](unsigned r, int l) { return int(value(l)) < int(r) ? value(l) : r; };\n"
      "auto highest = [=](unsigned r, int l) { return int(value(l)) > int(r) ? value(l) : r; };\n"
      "auto sum = [=](unsigned r, int l) { return r + value(l); };\n"
      "unsigned v = value(lane);\n"
      "unsigned masks[] = {kFullMask, lane < 11 ? kLow : ~kLow, lane % 2 ? kOdd : kEven};\n"
      "for (unsigned m : masks) {\n"
      "  bad |= nn_warp_sum(v, m) != fold(m, 0, sum);\n"
      "  bad |= 2 * (nn_warp_max(v, m) != fold(m, 0, most));\n"
      "  bad |= 4 * (nn_warp_min(v, m) != fold(m, ~0u, least));\n"
      "  bad |= 8 * (nn_warp_sum(int(v), m) != int(fold(m, 0, sum)));\n"
      "  bad |= 16 * (nn_warp_max(int(v), m) != int(fold(m, 1u << 31, highest)));\n"
      "  bad |= 32 * (nn_warp_min(int(v), m) != int(fold(m, ~0u >> 1, lowest)));\n"
      "  bad |= 64 * (nn_warp_and(v, m) !=\n"
      "               fold(m, ~0u, [=](unsigned r, int l) { return r & value(l); }));\n"
      "  bad |= 128 * (nn_warp_or(v, m) !=\n"
      "                fold(m, 0, [=](unsigned r, int l) { return r | value(l); }));\n"
      "  bad |= 256 * (nn_warp_xor(v, m) !=\n"
      "                fold(m, 0, [=](unsigned r, int l) { return r ^ value(l); })); }\n"
      "if (lane == 9) bad |= 512 * (nn_warp_sum(t, 1u << 9) != t);",
      96, 0);
}

static void test_barriers(void **state) {
  (void)state;
  check_block("",
              "__shared__ int s[1024];\n"
              "for (int round = 0; round < 5; round++) {\n"
              "  s[t] = t * round; nn_sync();\n"
              "  bad += s[(t + 517) % 1024] != (t + 517) % 1024 * round; nn_sync(); }\n"
              "bad += 2 * (nn_sync_count(t % 5 == 0) != 205);\n"
              "bad += 4 * (nn_sync_any(t == 1023) != true) + 8 * (nn_sync_any(false) != false);\n"
              "bad += 16 * (nn_sync_all(t >= 0) != true) + 32 * (nn_sync_all(t != 77) != false);",
              1024, 0);
  check_block(
      "", // exited threads count as present
      "__shared__ int s[64]; s[t] = t; if (t >= 32) { out[blockIdx.x * 64 + t] = 0; return; }\n"
      "nn_sync(); bad = s[t ^ 1] != (t ^ 1);",
      64, 0);
}

static void test_named_barriers(void **state) {
  (void)state;
  check_block("", // two producers hand values to two consumers, twice
              "__shared__ int s[64]; int warp = t / 32;\n"
              "for (int round = 1; round < 4; round++) {\n"
              "  if (warp < 2) { if (round > 1) nn_bar_sync(2, 128); s[t] = t * round;\n"
              "    nn_fence_block(); nn_bar_arrive(1, 128); }\n"
              "  else { nn_bar_sync(1, 128); bad += s[127 - t] != (127 - t) * round;\n"
              "    if (round < 3) nn_bar_arrive(2, 128); } }",
              128, 0);
}

static void test_syncwarp(void **state) {
  (void)state;
  check_block("",
              "__shared__ int s[64]; s[t] = t; nn_syncwarp(); bad = s[t ^ 31] != (t ^ 31);\n"
              "nn_syncwarp(); unsigned m = lane < 8 ? 0xffu : ~0xffu;\n"
              "s[t] = -t; nn_syncwarp(m); if (lane < 8) bad += s[t ^ 7] != -(t ^ 7);",
              64, 0);
}

static void test_atomics(void **state) {
  (void)state;
  check_block(
      "__device__ int total;\n",
      "__shared__ int i; __shared__ unsigned u, x; __shared__ float f, m; __shared__ double d;\n"
      "__shared__ unsigned long long l; __shared__ int hi, lo;\n"
      "if (t == 0) i = 0, u = 0, x = 7, f = 0, m = -1e30f, d = 0, l = 0, hi = -9, lo = 9;\n"
      "nn_sync();\n"
      "nn_atomic_add(&i, t); nn_atomic_add(&u, 2u); nn_atomic_add(&f, 0.5f);\n"
      "nn_atomic_add(&d, 0.25); nn_atomic_add(&l, 1ull << 40); nn_atomic_max(&hi, t);\n"
      "nn_atomic_min(&lo, -t); nn_atomic_max(&m, t - 300.0f); nn_sync();\n"
      "bad += i != 255 * 128; bad += 2 * (u != 512) + 4 * (f != 128.0f) + 8 * (d != 64);\n"
      "bad += 16 * (l != 256ull << 40) + 32 * (hi != 255) + 64 * (lo != -255);\n"
      "bad += 128 * (m != -45.0f);\n"
      "bool won = nn_atomic_cas(&x, 7, 100 + t) == 7; int winners = nn_sync_count(won);\n"
      "bad += 256 * (winners != 1); nn_sync();\n"
      "if (t == 3) bad += 512 * (nn_atomic_exch(&x, 1) < 100); nn_atomic_add(&total, 1);",
      256, 0);
}

static void test_copies(void **state) {
  (void)state;
  check_block(
      "struct Smem { alignas(16) float x[3][128]; };",
      "NN_SMEM(Smem, s);\n"
      "for (int stage = 0; stage < 3; stage++) {\n"
      "  if (t < 32) nn_cp_async<16>(&s.x[stage][4 * t], mem + 128 * stage + 4 * t,\n"
      "                              stage != 1 || t < 16);\n"
      "  nn_cp_async_commit(); }\n"
      "nn_cp_async_wait<2>(); nn_sync(); bad += s.x[0][t] != t;\n"
      "nn_cp_async_wait<1>(); nn_sync(); bad += 2 * (s.x[1][t] != (t < 64 ? 128 + t : 0));\n"
      "nn_cp_async_wait<0>(); nn_sync(); bad += 4 * (s.x[2][t] != 256 + t);\n"
      "nn_sync(); nn_cp_async<4>(&s.x[0][t], mem + 1000 + t);\n"
      "if (t < 64) nn_cp_async<8>(&s.x[1][2 * t], mem + 2 * t);\n"
      "nn_cp_async_commit(); nn_cp_async_wait<0>(); nn_sync();\n"
      "bad += 8 * (s.x[0][127 - t] != 1127 - t) + 16 * (s.x[1][127 - t] != 127 - t);",
      128, 3 * 128 * 4);
}

static void test_mbarriers(void **state) {
  (void)state;
  check_block("struct Smem { float x[2][64]; Mbar full[2], empty[2]; };",
              "NN_SMEM(Smem, s);\n"
              "if (t == 0) for (int i = 0; i < 2; i++)\n"
              "  nn_mbar_init(&s.full[i], 64), nn_mbar_init(&s.empty[i], 64);\n"
              "nn_mbar_init_fence(); nn_sync();\n"
              "for (int i = 0; i < 6; i++) { int slot = i % 2, phase = i / 2 % 2;\n"
              "  if (t < 64) {\n"
              "    nn_mbar_wait(&s.empty[slot], phase ^ 1);\n"
              "    nn_cp_async<4>(&s.x[slot][t], mem + 64 * i + t);\n"
              "    nn_cp_async_mbar_arrive_noinc(&s.full[slot]);\n"
              "  } else {\n"
              "    while (!nn_mbar_try_wait(&s.full[slot], phase)) {}\n"
              "    bad += s.x[slot][127 - t] != 64 * i + 127 - t;\n"
              "    nn_mbar_arrive(&s.empty[slot]); } }",
              128, 2 * 64 * 4 + 32);
}

// A message through global memory to another block's place, the clock, an arrival that expects no
// bytes.
static void test_fences_and_clock(void **state) {
  (void)state;
  check_block("struct Smem { Mbar bar; int x[64]; };",
              "NN_SMEM(Smem, s); long long begin = nn_clock();\n"
              "if (t == 0) nn_mbar_init(&s.bar, 64); nn_mbar_init_fence(); nn_sync();\n"
              "s.x[t] = t; nn_fence_block(); nn_fence_device(); nn_fence_system();\n"
              "#if __CUDA_ARCH__ >= 900\n"
              "nn_mbar_arrive_expect_tx(&s.bar, 0);\n"
              "#else\n"
              "nn_mbar_arrive(&s.bar);\n"
              "#endif\n"
              "nn_mbar_wait(&s.bar, 0);\n"
              "bad += s.x[63 - t] != 63 - t; bad += 2 * (nn_clock() < begin);\n"
              "bad += 4 * (nn_bits(nn_from_bits(0x12345678u)) != 0x12345678u);",
              64, 512);
}

// The last test: the error stays, as after any fault.
static void test_trap(void **state) {
  (void)state;
  CUfunction f = device_function("#include \"lib/prim.cuh\"\n"
                                 "extern \"C\" __global__ void k(int *out) {\n"
                                 "  if (threadIdx.x == 5) nn_trap(); out[threadIdx.x] = 1; }\n",
                                 "k");
  CUdeviceptr p = device_upload(NULL, 4 * 64);
  CUresult r = device_run(f, 1, 64, 0, (void *[]){&p});
  assert_true(r == CUDA_ERROR_LAUNCH_FAILED || (on_gpu() && r == CUDA_ERROR_ILLEGAL_INSTRUCTION));
  assert_int_equal(cuCtxSynchronize(), r);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_shuffles),
                                     cmocka_unit_test(test_votes),
                                     cmocka_unit_test(test_matches),
                                     cmocka_unit_test(test_warp_reductions),
                                     cmocka_unit_test(test_integer_reductions),
                                     cmocka_unit_test(test_barriers),
                                     cmocka_unit_test(test_named_barriers),
                                     cmocka_unit_test(test_syncwarp),
                                     cmocka_unit_test(test_atomics),
                                     cmocka_unit_test(test_copies),
                                     cmocka_unit_test(test_mbarriers),
                                     cmocka_unit_test(test_fences_and_clock),
                                     cmocka_unit_test(test_trap)};
  return cmocka_run_group_tests(tests, device_setup, NULL);
}
