// test_interleave.c: tensor maps of interleaved layouts (NC/8HWC8 and its like, slices of 16 and 32
// bytes): boxes loaded, stored and added by PTX, beside loops over the layout written down here;
// and what the driver API and the copies refuse.
#include "tests/sim/tensor_map.h"

enum { kMost = 5, kTensor = 1 << 16, kBox = 16384 };

typedef struct Case {
  const char *name;
  int type, interleave, swizzle, rank; // dims, boxes and places: channels, W, H, D, images
  int dims[kMost], box[kMost], at[kMost], steps[kMost];
  int pad;                 // bytes behind each row (not of 3 dimensions) and image
  int pixels, offsets[3];  // of im2col; its box's corners are -1 and -1
} Case;

static const Case cases[] = {
    {"u16, one slice", U16, 1, 0, 3, {8, 8, 4}, {8, 8, 4}, {0}, {1, 1, 1}, 0, 0, {0}},
    {"f16, slices of 16", F16, 1, 0, 4, {24, 6, 5, 3}, {16, 4, 3, 2}, {8, 1, 2, 1}, {1, 1, 1, 1},
     0, 0, {0}},
    {"u8, padded rows, outside", U8, 1, 0, 4, {32, 5, 4, 2}, {32, 4, 3, 2}, {16, -1, 2, 0},
     {1, 1, 1, 1}, 32, 0, {0}},
    {"u32, a last slice in part", U32, 1, 0, 3, {10, 7, 2}, {8, 8, 2}, {4, 0, 0}, {1, 1, 1}, 0, 0,
     {0}},
    {"u64, steps", U64, 1, 0, 4, {4, 8, 8, 1}, {4, 8, 8, 1}, {0}, {1, 2, 3, 1}, 0, 0, {0}},
    {"u16, five dimensions", U16, 1, 0, 5, {16, 3, 4, 2, 2}, {16, 2, 3, 2, 2}, {0, 1, 1, 0, 0},
     {1, 1, 1, 1, 1}, 16, 0, {0}},
    {"u16, swizzle of 64", U16, 1, 2, 4, {16, 8, 4, 1}, {16, 8, 4, 1}, {0}, {1, 1, 1, 1}, 0, 0,
     {0}},
    {"u16, swizzle of 128", U16, 1, 3, 4, {16, 8, 8, 2}, {16, 8, 8, 2}, {0, 0, 0, 0},
     {1, 1, 1, 1}, 0, 0, {0}},
    {"u16, slices of 32", U16, 2, 1, 4, {32, 10, 10, 1}, {32, 6, 5, 1}, {0, 3, 2, 0},
     {1, 1, 1, 1}, 0, 0, {0}},
    {"u8, slices of 32, in part", U8, 2, 1, 3, {48, 9, 3}, {64, 4, 2}, {0, 6, 1}, {1, 1, 1}, 64, 0,
     {0}},
    {"f32, slices of 32", F32, 2, 1, 5, {16, 2, 3, 2, 2}, {8, 2, 3, 2, 2}, {8, 0, 0, 0, 0},
     {1, 1, 1, 1, 1}, 0, 0, {0}},
    {"im2col, slices of 16", U16, 1, 0, 4, {24, 6, 5, 2}, {16}, {8, -1, -1, 0}, {1, 1, 1, 1}, 0,
     40, {1, 2}},
    {"im2col, slices of 32", U16, 2, 1, 4, {32, 6, 5, 2}, {32}, {0, 1, 0, 0}, {1, 2, 1, 1}, 0, 24,
     {0, 1}},
    {"im2col of rows", U32, 1, 2, 3, {8, 12, 3}, {8}, {0, 2, 1}, {1, 1, 1}, 0, 20, {2}},
};

// ---- the layout ---------------------------------------------------------------------------------

static int bytes_of(int type) {
  static const int bytes[] = {1, 2, 4, 4, 8, 8, 2, 4};
  return bytes[type];
}

static int per_slice(const Case *k) {
  return (k->interleave == 2 ? 32 : 16) / bytes_of(k->type);
}

// Bytes from one of a dimension to the next, and from a slice to the next.
static void layout(const Case *k, uint64_t *strides, uint64_t *slice) {
  uint64_t size = (uint64_t)(per_slice(k) * bytes_of(k->type));
  int slices = (k->dims[0] + per_slice(k) - 1) / per_slice(k);
  for (int d = 1; d < k->rank - 1; d++) { // pixels, rows, planes
    strides[d - 1] = size;
    size = size * (uint64_t)k->dims[d] + (d == 1 && k->rank > 3 ? (uint64_t)k->pad : 0);
  }
  *slice = size;
  strides[k->rank - 2] = size * (uint64_t)slices + (uint64_t)k->pad;
}

// Where the tensor has it; -1: outside.
static int64_t place(const Case *k, const int *index) {
  uint64_t strides[kMost], slice;
  layout(k, strides, &slice);
  for (int d = 0; d < k->rank; d++)
    if (index[d] < 0 || index[d] >= k->dims[d]) return -1;
  uint64_t at = (uint64_t)(index[0] / per_slice(k)) * slice +
                (uint64_t)(index[0] % per_slice(k) * bytes_of(k->type));
  for (int d = 1; d < k->rank; d++) at += (uint64_t)index[d] * strides[d - 1];
  return (int64_t)at;
}

// Calls back with each element of the box in the order of shared memory.
typedef void (*Visit)(const Case *k, int64_t global, int shared, void *user);

static void visit_tile(const Case *k, Visit visit, void *user) {
  int n[kMost] = {1, 1, 1, 1, 1}, shared = 0, index[kMost] = {0}, images = k->rank - 1;
  for (int d = 1; d < k->rank; d++) n[d] = (k->box[d] + k->steps[d] - 1) / k->steps[d];
  int planes = k->rank > 4 ? n[3] : 1, rows = k->rank > 3 ? n[2] : 1;
  for (int image = 0; image < n[images]; image++)
    for (int c = 0; c < k->box[0]; c += per_slice(k))
      for (int pixel = 0; pixel < planes * rows * n[1]; pixel++)
        for (int i = 0; i < per_slice(k); i++, shared++) {
          int w = pixel % n[1], h = pixel / n[1] % rows, d = pixel / n[1] / rows;
          index[0] = k->at[0] + c + i;
          index[1] = k->at[1] + w * k->steps[1];
          if (k->rank > 3) index[2] = k->at[2] + h * k->steps[2];
          if (k->rank > 4) index[3] = k->at[3] + d * k->steps[3];
          index[images] = k->at[images] + image * k->steps[images];
          visit(k, place(k, index), shared * bytes_of(k->type), user);
        }
}

static void visit_pixels(const Case *k, Visit visit, void *user) {
  for (int c = 0; c < k->box[0]; c++) {
    int where[kMost];
    memcpy(where, k->at, sizeof where);
    for (int p = 0; p < k->pixels; p++) {
      int index[kMost], shared = (c / per_slice(k) * k->pixels + p) * per_slice(k);
      memcpy(index, where, sizeof index);
      index[0] += c;
      for (int d = 1; d < k->rank - 1; d++) index[d] += k->offsets[d - 1];
      visit(k, place(k, index), (shared + c % per_slice(k)) * bytes_of(k->type), user);
      int d = 1;
      for (; d < k->rank - 1; d++) { // the box's corners are -1 and the end less 1
        where[d] += k->steps[d];
        if (where[d] < k->dims[d] - 1) break;
        where[d] = -1;
      }
      if (d == k->rank - 1) where[d]++;
    }
  }
}

static void visit_box(const Case *k, Visit visit, void *user) {
  (k->pixels ? visit_pixels : visit_tile)(k, visit, user);
}

// ---- kernels ------------------------------------------------------------------------------------

static CUresult encode(Map *map, const Case *k, CUdeviceptr at) {
  uint64_t dims[kMost], strides[kMost], slice;
  uint32_t box[kMost], steps[kMost];
  int corner[3] = {-1, -1, -1};
  layout(k, strides, &slice);
  for (int d = 0; d < kMost; d++) {
    dims[d] = (uint64_t)k->dims[d];
    box[d] = (uint32_t)k->box[d];
    steps[d] = (uint32_t)k->steps[d];
  }
  if (!k->pixels)
    return cuTensorMapEncodeTiled(map, k->type, (unsigned)k->rank, (void *)(uintptr_t)at, dims,
                                  strides, box, steps, k->interleave, k->swizzle, 0, 0);
  return encode_im2col()(
      map, k->type, (unsigned)k->rank, (void *)(uintptr_t)at, dims, strides, corner, corner,
      box[0], (uint32_t)k->pixels, steps, k->interleave, k->swizzle, 0, 0);
}

// k(out, from, to): the box of `from` to shared memory and out; then, of tiles, added to `to`.
static const char *kernel(const Case *k, int bytes) {
  static char text[8192];
  char at[128] = "", offsets[64] = "", add[512] = "";
  for (int d = 0; d < k->rank; d++)
    sprintf(at + strlen(at), "%s%d", d ? ", " : "", k->at[d]);
  for (int d = 0; k->pixels && d < k->rank - 2; d++)
    sprintf(offsets + strlen(offsets), "%s%d", d ? ", " : ", {", k->offsets[d]);
  if (k->pixels) strcat(offsets, "}");
  if (!k->pixels)
    sprintf(add, " fence.proxy.async.shared::cta;\n @%%p1 cp.reduce.async.bulk.tensor.%dd.global."
                 "shared::cta.add.tile.bulk_group [%%d3, {%s}], [%%r2];\n"
                 " cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;\n", k->rank, at);
  snprintf(text, sizeof text,
           ".version 8.6\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 out,\n"
           " .param .align 64 .b8 from[128], .param .align 64 .b8 to[128])\n{\n"
           " .reg .pred %%p<4>; .reg .b32 %%r<9>; .reg .b64 %%d<8>;\n"
           " .shared .align 1024 .b8 s[%d]; .shared .align 8 .b64 bar;\n"
           " ld.param.u64 %%d1, [out]; mov.u32 %%r1, %%tid.x; mov.u32 %%r2, s; mov.u32 %%r3, bar;\n"
           " mov.b64 %%d2, from; cvta.param.u64 %%d2, %%d2; mov.b64 %%d3, to;\n"
           " cvta.param.u64 %%d3, %%d3; setp.eq.u32 %%p1, %%r1, 0;\n"
           " @%%p1 mbarrier.init.shared.b64 [%%r3], 1; fence.mbarrier_init.release.cluster;\n"
           " bar.warp.sync -1; @!%%p1 bra W;\n"
           " mbarrier.arrive.expect_tx.shared.b64 _, [%%r3], %d;\n"
           " cp.async.bulk.tensor.%dd.shared::cluster.global.%s.mbarrier::complete_tx::bytes"
           " [%%r2], [%%d2, {%s}], [%%r3]%s;\n"
           "W: mbarrier.try_wait.parity.shared.b64 %%p2, [%%r3], 0; @!%%p2 bra W;\n%s"
           "O: shl.b32 %%r6, %%r1, 2; setp.ge.u32 %%p3, %%r6, %d; @%%p3 ret; add.u32 %%r6, %%r6, "
           "%%r2;\n ld.shared.u32 %%r7, [%%r6]; mul.wide.u32 %%d6, %%r1, 4; add.u64 %%d6, %%d6, "
           "%%d1;\n st.global.u32 [%%d6], %%r7; add.u32 %%r1, %%r1, 32; bra O;\n}\n",
           kBox, bytes, k->rank, k->pixels ? "im2col" : "tile", at, offsets, add, bytes);
  return text;
}

static int box_bytes(const Case *k) {
  int n = k->box[0] * bytes_of(k->type);
  if (k->pixels) return n * k->pixels;
  for (int d = 1; d < k->rank; d++) n *= (k->box[d] + k->steps[d] - 1) / k->steps[d];
  return n;
}

static CUresult run(const Case *k, CUdeviceptr out, const Map *from, const Map *to) {
  CUmodule module;
  CUfunction f;
  Map a = *from, b = *to;
  OK(cuModuleLoadData(&module, kernel(k, box_bytes(k))));
  OK(cuModuleGetFunction(&f, module, "k"));
  return device_run(f, 1, 32, 0, (void *[]){&out, a.bytes, b.bytes});
}

// ---- values -------------------------------------------------------------------------------------

typedef struct Expected {
  const unsigned char *tensor;
  unsigned char *box, *sum;
} Expected;

static int swizzled(const Case *k, int offset) {
  static const int masks[] = {0, 1, 3, 7};
  return offset ^ (offset >> 7 & masks[k->swizzle]) << 4;
}

// What the box holds of this element, and what adding it to zero, or to itself, leaves.
static void expect(const Case *k, int64_t global, int shared, void *user) {
  Expected *e = user;
  int n = bytes_of(k->type);
  if (global < 0) {
    memset(e->box + swizzled(k, shared), 0, (size_t)n);
    return;
  }
  memcpy(e->box + swizzled(k, shared), e->tensor + global, (size_t)n);
  memcpy(e->sum + global, e->tensor + global, (size_t)n);
}

static void settings(const void *user) {
  (void)user;
  setenv("NNGEN_SIM_CHECK", "all", 1);
}

static void run_case(const void *user) {
  const Case *k = user;
  static unsigned char tensor[kTensor], box[kBox], sum[kTensor], out[kBox], added[kTensor];
  for (int i = 0; i < kTensor; i++) // of halves and floats: small normal numbers
    tensor[i] = (unsigned char)(k->type == F16   ? (i % 2 ? 0x3c + i / 2 % 3 : i / 6)
                                : k->type == F32 ? (i % 4 == 3 ? 0x3f : i % 4 ? i / 3 % 127 : 0)
                                                 : (i * 37 + i / 251) % 255);
  Expected e = {tensor, box, sum};
  visit_box(k, expect, &e);
  CUdeviceptr from = device_upload(tensor, kTensor), to = device_upload(added, kTensor);
  CUdeviceptr place_out = device_upload(out, kBox);
  Map map, target = {{0}};
  OK(encode(&map, k, from));
  if (!k->pixels) OK(encode(&target, k, to));
  OK(run(k, place_out, &map, &target));
  OK(cuMemcpyDtoH(out, place_out, kBox));
  OK(cuMemcpyDtoH(added, to, kTensor));
  for (int i = 0; i < box_bytes(k); i++)
    if (out[i] != box[i])
      printf("# %s: byte %d of the box is %d, not %d\n", k->name, i, out[i], box[i]), exit(1);
  for (int i = 0; !k->pixels && i < kTensor; i++)
    if (added[i] != sum[i])
      printf("# %s: byte %d of the sum is %d, not %d\n", k->name, i, added[i], sum[i]), exit(1);
}

static void test_values(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    device_child(settings, run_case, &cases[i]);
}

// ---- what is refused ----------------------------------------------------------------------------

typedef struct Refused {
  const char *what; // of "u16, slices of 32": the one thing that is changed
  int field, value;
} Refused;

enum { Rank, Interleave, Swizzle, Address, Stride, Box, Step, Type, Fill, Nothing };

static const Refused refused[] = {
    {"two dimensions", Rank, 2},       {"six dimensions", Rank, 6},
    {"a third layout", Interleave, 3}, {"a negative layout", Interleave, -1},
    {"no swizzle", Swizzle, 0},        {"swizzle of 64", Swizzle, 2},
    {"swizzle of 128", Swizzle, 3},    {"at a multiple of 16", Address, 16},
    {"strides of 48", Stride, 48},     {"an empty box", Box, 0},
    {"a box of 257", Box, 257},        {"a step of 9", Step, 9},
    {"no step", Step, 0},              {"no such type", Type, 16},
    {"NaN for integers", Fill, 1},
};

static CUresult encode_changed(const Refused *r) {
  Map map;
  int rank = r->field == Rank ? r->value : 4;
  uint64_t strides[] = {32, 320, 6400, 6400, 6400}, dims[] = {32, 10, 10, 1, 1, 1};
  uint32_t box[] = {32, 6, 5, 1, 1, 1}, steps[] = {1, 1, 1, 1, 1, 1};
  if (r->field == Stride) strides[0] = (uint64_t)r->value;
  if (r->field == Box) box[1] = (uint32_t)r->value;
  if (r->field == Step) steps[1] = (uint32_t)r->value;
  uintptr_t at = 1u << 20 | (r->field == Address ? (uintptr_t)r->value : 0);
  return cuTensorMapEncodeTiled(&map, r->field == Type ? r->value : U16, (unsigned)rank, (void *)at,
                                dims, strides, box, steps,
                                r->field == Interleave ? r->value : 2,
                                r->field == Swizzle ? r->value : 1, 0,
                                r->field == Fill ? r->value : 0);
}

static void run_refused(const void *user) {
  (void)user;
  OK(encode_changed(&(Refused){"nothing", Nothing, 0}));
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
    if (encode_changed(&refused[i]) != CUDA_ERROR_INVALID_VALUE)
      printf("# taken: %s\n", refused[i].what), exit(1);
}

// Parts of slices are encoded, as by the driver, but their copies are not modelled: a fault.
static void run_part(const void *user) {
  Case k = cases[1];
  Map map;
  CUdeviceptr ptr = device_upload((unsigned char[kTensor]){0}, kTensor);
  *(user ? &k.at[0] : &k.box[0]) = 4;
  OK(encode(&map, &k, ptr));
  if (run(&k, ptr, &map, &map) != CUDA_ERROR_ILLEGAL_INSTRUCTION)
    printf("# part of a slice: no fault\n"), exit(1);
}

static void test_refused(void **state) {
  (void)state;
  device_child(settings, run_refused, NULL);
  device_child(settings, run_part, NULL);
  device_child(settings, run_part, "at");
}

int main(void) {
  if (on_gpu()) return puts("1..0 # SKIP only on libcusim"), 0;
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_values),
                                     cmocka_unit_test(test_refused)};
  return cmocka_run_group_tests_name("test_interleave", tests, NULL, NULL);
}
