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

#define NN_WGMMA_64(type)                                                                          \
  asm volatile("{ .reg .pred p; setp.ne.b32 p, %34, 0; "                                           \
               "wgmma.mma_async.sync.aligned.m64n64k16.f32." type "." type " "                     \
               "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "           \
               "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, " \
               "%32, %33, p, 1, 1, %35, %36; }"                                                    \
               :                                                                                   \
                   "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]),         \
                   "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]),       \
                   "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]),   \
                   "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),   \
                   "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]),   \
                   "+f"(d[30]), "+f"(d[31])                                                        \
               : "l"(a), "l"(b), "r"(int(accumulate)), "n"(int(TRANS_A)), "n"(int(TRANS_B)))
#define NN_WGMMA_128(type)                                                                         \
  asm volatile("{ .reg .pred p; setp.ne.b32 p, %66, 0; "                                           \
               "wgmma.mma_async.sync.aligned.m64n128k16.f32." type "." type " "                    \
               "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "           \
               "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "  \
               "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "  \
               "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, " \
               "%64, %65, p, 1, 1, %67, %68; }"                                                    \
               :                                                                                   \
                   "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]),         \
                   "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]),       \
                   "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]),   \
                   "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),   \
                   "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]),   \
                   "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]),   \
                   "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]),   \
                   "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]),   \
                   "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]),   \
                   "+f"(d[54]), "+f"(d[55]), "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]),   \
                   "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])                              \
               : "l"(a), "l"(b), "r"(int(accumulate)), "n"(int(TRANS_A)), "n"(int(TRANS_B)))
#define NN_WGMMA_256(type)                                                                         \
  asm volatile("{ .reg .pred p; setp.ne.b32 p, %130, 0; "                                          \
               "wgmma.mma_async.sync.aligned.m64n256k16.f32." type "." type " "                    \
               "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, "      \
               "%17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "       \
               "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, "       \
               "%47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, "       \
               "%62, %63, %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, "       \
               "%77, %78, %79, %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, "       \
               "%92, %93, %94, %95, %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, "      \
               "%106, %107, %108, %109, %110, %111, %112, %113, %114, %115, %116, %117, %118, "    \
               "%119, %120, %121, %122, %123, %124, %125, %126, %127}, "                           \
               "%128, %129, p, 1, 1, %131, %132; }"                                                \
               :                                                                                   \
                   "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]),         \
                   "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]),       \
                   "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]),   \
                   "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),   \
                   "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]),   \
                   "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]),   \
                   "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]),   \
                   "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]),   \
                   "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]),   \
                   "+f"(d[54]), "+f"(d[55]), "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]),   \
                   "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63]), "+f"(d[64]), "+f"(d[65]),   \
                   "+f"(d[66]), "+f"(d[67]), "+f"(d[68]), "+f"(d[69]), "+f"(d[70]), "+f"(d[71]),   \
                   "+f"(d[72]), "+f"(d[73]), "+f"(d[74]), "+f"(d[75]), "+f"(d[76]), "+f"(d[77]),   \
                   "+f"(d[78]), "+f"(d[79]), "+f"(d[80]), "+f"(d[81]), "+f"(d[82]), "+f"(d[83]),   \
                   "+f"(d[84]), "+f"(d[85]), "+f"(d[86]), "+f"(d[87]), "+f"(d[88]), "+f"(d[89]),   \
                   "+f"(d[90]), "+f"(d[91]), "+f"(d[92]), "+f"(d[93]), "+f"(d[94]), "+f"(d[95]),   \
                   "+f"(d[96]), "+f"(d[97]), "+f"(d[98]), "+f"(d[99]), "+f"(d[100]),               \
                   "+f"(d[101]), "+f"(d[102]), "+f"(d[103]), "+f"(d[104]), "+f"(d[105]),           \
                   "+f"(d[106]), "+f"(d[107]), "+f"(d[108]), "+f"(d[109]), "+f"(d[110]),           \
                   "+f"(d[111]), "+f"(d[112]), "+f"(d[113]), "+f"(d[114]), "+f"(d[115]),           \
                   "+f"(d[116]), "+f"(d[117]), "+f"(d[118]), "+f"(d[119]), "+f"(d[120]),           \
                   "+f"(d[121]), "+f"(d[122]), "+f"(d[123]), "+f"(d[124]), "+f"(d[125]),           \
                   "+f"(d[126]), "+f"(d[127])                                                      \
               : "l"(a), "l"(b), "r"(int(accumulate)), "n"(int(TRANS_A)), "n"(int(TRANS_B)))

NN_DEV constexpr bool is_f16(f16) { return true; }
NN_DEV constexpr bool is_f16(bf16) { return false; }

template <int N, bool TRANS_A, bool TRANS_B, class T>
NN_DEV void nn_wgmma_m64k16(float (&d)[N / 2], unsigned long long a, unsigned long long b,
                            bool accumulate, T) {
  static_assert(N == 64 || N == 128 || N == 256, "m64n64k16, m64n128k16, m64n256k16");
  constexpr bool kHalf = is_f16(T());
  if constexpr (N == 64 && kHalf) NN_WGMMA_64("f16");
  if constexpr (N == 64 && !kHalf) NN_WGMMA_64("bf16");
  if constexpr (N == 128 && kHalf) NN_WGMMA_128("f16");
  if constexpr (N == 128 && !kHalf) NN_WGMMA_128("bf16");
  if constexpr (N == 256 && kHalf) NN_WGMMA_256("f16");
  if constexpr (N == 256 && !kHalf) NN_WGMMA_256("bf16");
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
