// prim_cuda_matrix.cuh: ldmatrix and matrix products of prim.cuh on a GPU, for prim_cuda.cuh.
#ifndef NNGEN_PRIM_CUDA_MATRIX_CUH
#define NNGEN_PRIM_CUDA_MATRIX_CUH

// ---- products of a warp group ------------------------------------------------------------------

NN_DEV unsigned long long nn_wgmma_tile(const void *smem, int stride, int leading, NnSwizzle mode) {
  return (nn_smem_address(smem) & 0x3ffffu) >> 4 | (unsigned long long)(leading >> 4) << 16 |
         (unsigned long long)(stride >> 4) << 32 | (unsigned long long)mode << 62;
}
NN_DEV void nn_wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
NN_DEV void nn_wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int N> NN_DEV void nn_wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
}
NN_DEV void nn_wgmma_hold(float &x) { asm volatile("" : "+f"(x)::"memory"); }
NN_DEV void nn_wgmma_hold(unsigned &x) { asm volatile("" : "+r"(x)::"memory"); }
NN_DEV void nn_wgmma_keep(unsigned x) {
  asm volatile("{ .reg .b32 sm; .reg .pred p; mov.u32 sm, %%smid; setp.eq.s32 p, sm, -1; "
               "@p st.shared.u32 [sm], %0; }" ::"r"(x)
               : "memory");
}

// The accumulators of N columns as asm operands, and their numbers in its text.
#define NN_D4(c, i) "+" c(d[i]), "+" c(d[i + 1]), "+" c(d[i + 2]), "+" c(d[i + 3])
#define NN_D16(c, i) NN_D4(c, i), NN_D4(c, i + 4), NN_D4(c, i + 8), NN_D4(c, i + 12)
#define NN_D8(c, i) NN_D4(c, i), NN_D4(c, i + 4)
#define NN_D24(c) NN_D16(c, 0), NN_D8(c, 16)
#define NN_D32_AT(c, i) NN_D16(c, i), NN_D16(c, i + 16)
#define NN_D32(c) NN_D32_AT(c, 0)
#define NN_D40(c) NN_D32(c), NN_D8(c, 32)
#define NN_D48(c) NN_D32(c), NN_D16(c, 32)
#define NN_D64(c) NN_D32(c), NN_D32_AT(c, 32)
#define NN_D96(c) NN_D64(c), NN_D32_AT(c, 64)
#define NN_D128(c) NN_D96(c), NN_D32_AT(c, 96)
#define NN_NAMES_8 "%0, %1, %2, %3, %4, %5, %6, %7"
#define NN_NAMES_16 NN_NAMES_8 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define NN_NAMES_24 NN_NAMES_16 ", %16, %17, %18, %19, %20, %21, %22, %23"
#define NN_NAMES_32 NN_NAMES_24 ", %24, %25, %26, %27, %28, %29, %30, %31"
#define NN_NAMES_40 NN_NAMES_32 ", %32, %33, %34, %35, %36, %37, %38, %39"
#define NN_NAMES_48 NN_NAMES_40 ", %40, %41, %42, %43, %44, %45, %46, %47"
#define NN_NAMES_64                                                                                \
  NN_NAMES_48 ", %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define NN_NAMES_96                                                                                \
  NN_NAMES_64 ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, " \
  "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define NN_NAMES_128                                                                               \
  NN_NAMES_96 ", %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, "             \
  "%108, %109, %110, %111, %112, %113, %114, %115, %116, %117, %118, %119, "                       \
  "%120, %121, %122, %123, %124, %125, %126, %127"
#define NN_WGMMA_16_BITS(shape, names, registers, a_name, b_name, flag, trans, type)               \
  asm volatile("{ .reg .pred p; setp.ne.b32 p, " flag ", 0; wgmma.mma_async.sync.aligned." shape   \
               "k16.f32." type "." type " {" names "}, " a_name ", " b_name ", p, 1, 1, " trans    \
               "; }"                                                                               \
               : registers                                                                         \
               : "l"(a), "l"(b), "r"(int(accumulate)), "n"(int(TRANS_A)), "n"(int(TRANS_B)))
#define NN_WGMMA_64(type)                                                                          \
  NN_WGMMA_16_BITS("m64n64", NN_NAMES_32, NN_D32("f"), "%32", "%33", "%34", "%35, %36",            \
                   type)
#define NN_WGMMA_128(type)                                                                         \
  NN_WGMMA_16_BITS("m64n128", NN_NAMES_64, NN_D64("f"), "%64", "%65", "%66", "%67, %68",           \
                   type)
#define NN_WGMMA_192(type)                                                                         \
  NN_WGMMA_16_BITS("m64n192", NN_NAMES_96, NN_D96("f"), "%96", "%97", "%98", "%99, %100",          \
                   type)
#define NN_WGMMA_256(type)                                                                         \
  NN_WGMMA_16_BITS("m64n256", NN_NAMES_128, NN_D128("f"), "%128", "%129", "%130", "%131, %132",    \
                   type)

NN_DEV constexpr bool is_f16(f16) { return true; }
NN_DEV constexpr bool is_f16(bf16) { return false; }

template <int N, bool TRANS_A, bool TRANS_B, class T>
NN_DEV void nn_wgmma_m64k16(float (&d)[N / 2], unsigned long long a, unsigned long long b,
                            bool accumulate, T) {
  static_assert(N == 64 || N == 128 || N == 192 || N == 256, "m64n64k16 to m64n256k16");
  constexpr bool kHalf = is_f16(T());
  if constexpr (N == 64 && kHalf) NN_WGMMA_64("f16");
  if constexpr (N == 64 && !kHalf) NN_WGMMA_64("bf16");
  if constexpr (N == 128 && kHalf) NN_WGMMA_128("f16");
  if constexpr (N == 128 && !kHalf) NN_WGMMA_128("bf16");
  if constexpr (N == 192 && kHalf) NN_WGMMA_192("f16");
  if constexpr (N == 192 && !kHalf) NN_WGMMA_192("bf16");
  if constexpr (N == 256 && kHalf) NN_WGMMA_256("f16");
  if constexpr (N == 256 && !kHalf) NN_WGMMA_256("bf16");
}

// With a in registers: operand numbers of a (four), b, the predicate, and the transposition of b.
#define NN_WGMMA_REGS(shape, names, registers, a_names, b_name, flag, trans, type)                 \
  asm volatile("{ .reg .pred p; setp.ne.b32 p, " flag ", 0; wgmma.mma_async.sync.aligned." shape   \
               "k16.f32." type "." type " {" names "}, {" a_names "}, " b_name ", p, 1, 1, " trans \
               "; }"                                                                               \
               : registers                                                                         \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(int(accumulate)),         \
                 "n"(int(TRANS_B)))
#define NN_WGMMA_REGS_OF(type)                                                                     \
  if constexpr (N == 16)                                                                           \
    NN_WGMMA_REGS("m64n16", NN_NAMES_8, NN_D8("f", 0), "%8, %9, %10, %11", "%12", "%13", "%14",    \
                  type);                                                                           \
  else if constexpr (N == 48)                                                                      \
    NN_WGMMA_REGS("m64n48", NN_NAMES_24, NN_D24("f"), "%24, %25, %26, %27", "%28", "%29", "%30",   \
                  type);                                                                           \
  else if constexpr (N == 32)                                                                      \
    NN_WGMMA_REGS("m64n32", NN_NAMES_16, NN_D16("f", 0), "%16, %17, %18, %19", "%20", "%21",       \
                  "%22", type);                                                                    \
  else if constexpr (N == 64)                                                                      \
    NN_WGMMA_REGS("m64n64", NN_NAMES_32, NN_D32("f"), "%32, %33, %34, %35", "%36", "%37", "%38",   \
                  type);                                                                           \
  else if constexpr (N == 80)                                                                      \
    NN_WGMMA_REGS("m64n80", NN_NAMES_40, NN_D40("f"), "%40, %41, %42, %43", "%44", "%45", "%46",   \
                  type);                                                                           \
  else if constexpr (N == 96)                                                                      \
    NN_WGMMA_REGS("m64n96", NN_NAMES_48, NN_D48("f"), "%48, %49, %50, %51", "%52", "%53", "%54",   \
                  type);                                                                           \
  else if constexpr (N == 128)                                                                     \
    NN_WGMMA_REGS("m64n128", NN_NAMES_64, NN_D64("f"), "%64, %65, %66, %67", "%68", "%69", "%70",  \
                  type);                                                                           \
  else                                                                                             \
    NN_WGMMA_REGS("m64n256", NN_NAMES_128, NN_D128("f"), "%128, %129, %130, %131", "%132", "%133", \
                  "%134", type)

template <int N, bool TRANS_B, class T>
NN_DEV void nn_wgmma_m64k16(float (&d)[N / 2], const unsigned (&a)[4], unsigned long long b,
                            bool accumulate, T) {
  static_assert((N % 16 == 0 && N <= 96) || N == 128 || N == 256, "m64n16 to m64n256");
  if constexpr (is_f16(T())) {
    NN_WGMMA_REGS_OF("f16");
  } else {
    NN_WGMMA_REGS_OF("bf16");
  }
}

// ---- matrices --------------------------------------------------------------------------------

#define NN_LDMATRIX_X1(name, trans)                                                                \
  NN_DEV void name(unsigned r[1], const void *row) {                                               \
    asm volatile("ldmatrix.sync.aligned.m8n8.x1" trans ".shared.b16 {%0}, [%1];"                   \
                 : "=r"(r[0])                                                                      \
                 : "r"(nn_smem_address(row))                                                       \
                 : "memory");                                                                      \
  }
#define NN_LDMATRIX_X2(name, trans)                                                                \
  NN_DEV void name(unsigned r[2], const void *row) {                                               \
    asm volatile("ldmatrix.sync.aligned.m8n8.x2" trans ".shared.b16 {%0, %1}, [%2];"               \
                 : "=r"(r[0]), "=r"(r[1])                                                          \
                 : "r"(nn_smem_address(row))                                                       \
                 : "memory");                                                                      \
  }
#define NN_LDMATRIX_X4(name, trans)                                                                \
  NN_DEV void name(unsigned r[4], const void *row) {                                               \
    asm volatile("ldmatrix.sync.aligned.m8n8.x4" trans ".shared.b16 {%0, %1, %2, %3}, [%4];"       \
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])                                  \
                 : "r"(nn_smem_address(row))                                                       \
                 : "memory");                                                                      \
  }
NN_LDMATRIX_X1(nn_ldmatrix_x1, "")
NN_LDMATRIX_X1(nn_ldmatrix_x1_trans, ".trans")
NN_LDMATRIX_X2(nn_ldmatrix_x2, "")
NN_LDMATRIX_X2(nn_ldmatrix_x2_trans, ".trans")
NN_LDMATRIX_X4(nn_ldmatrix_x4, "")
NN_LDMATRIX_X4(nn_ldmatrix_x4_trans, ".trans")

// One mma of shape and types `form`; `c` is the constraint of the accumulator's registers.
#define NN_MMA(form, c)                                                                            \
  asm volatile("mma.sync.aligned." form " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"   \
               : "+" c(d[0]), "+" c(d[1]), "+" c(d[2]), "+" c(d[3])                                \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))

NN_DEV void nn_mma_m16n8k16(float d[4], const unsigned a[4], const unsigned b[2], f16) {
  NN_MMA("m16n8k16.row.col.f32.f16.f16.f32", "f");
}
NN_DEV void nn_mma_m16n8k16(float d[4], const unsigned a[4], const unsigned b[2], bf16) {
  NN_MMA("m16n8k16.row.col.f32.bf16.bf16.f32", "f");
}
NN_DEV void nn_mma_m16n8k8_tf32(float d[4], const unsigned a[4], const unsigned b[2]) {
  NN_MMA("m16n8k8.row.col.f32.tf32.tf32.f32", "f");
}
NN_DEV void nn_mma_m16n8k32(int d[4], const unsigned a[4], const unsigned b[2], signed char) {
  NN_MMA("m16n8k32.row.col.s32.s8.s8.s32", "r");
}
NN_DEV void nn_mma_m16n8k32(int d[4], const unsigned a[4], const unsigned b[2], unsigned char) {
  NN_MMA("m16n8k32.row.col.s32.u8.u8.s32", "r");
}
NN_DEV void nn_mma_m16n8k32(float d[4], const unsigned a[4], const unsigned b[2], e4m3) {
  NN_MMA("m16n8k32.row.col.f32.e4m3.e4m3.f32", "f");
}
NN_DEV void nn_mma_m16n8k32(float d[4], const unsigned a[4], const unsigned b[2], e5m2) {
  NN_MMA("m16n8k32.row.col.f32.e5m2.e5m2.f32", "f");
}

template <int M, int N, class T>
NN_DEV void nn_mma_tile(float (&d)[M][N][4], const unsigned (&a)[M][4], const unsigned (&b)[N][2],
                        T type) {
#pragma unroll
  for (int m = 0; m < M; m++)
#pragma unroll
    for (int n = 0; n < N; n++) nn_mma_m16n8k16(d[m][n], a[m], b[n], type);
}

template <int M, int N>
NN_DEV void nn_mma_tile_tf32(float (&d)[M][N][4], const unsigned (&a)[M][4],
                             const unsigned (&b)[N][2]) {
#pragma unroll
  for (int m = 0; m < M; m++)
#pragma unroll
    for (int n = 0; n < N; n++) nn_mma_m16n8k8_tf32(d[m][n], a[m], b[n]);
}

template <int M, int N>
NN_DEV void nn_fma_tile(float (&d)[M][N], const Vec<float, 4> (&a)[M],
                        const Vec<float, 4> (&b)[N]) {
#pragma unroll
  for (int e = 0; e < 4; e++)
#pragma unroll
    for (int m = 0; m < M; m++)
#pragma unroll
      for (int n = 0; n < N; n++) d[m][n] = nn_fma(a[m][e], b[n][e], d[m][n]);
}
#endif
