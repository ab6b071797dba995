// cuComplex.h: complex numbers as pairs.
#ifndef CUSIM_CUCOMPLEX_H
#define CUSIM_CUCOMPLEX_H

typedef float2 cuFloatComplex;
typedef double2 cuDoubleComplex;
typedef cuFloatComplex cuComplex;

#define CUSIM_COMPLEX(C, T, f, root)                                                               \
  CUSIM_FN C make_##C(T x, T y) { return {x, y}; }                                                 \
  CUSIM_FN T cuCreal##f(C z) { return z.x; }                                                       \
  CUSIM_FN T cuCimag##f(C z) { return z.y; }                                                       \
  CUSIM_FN C cuConj##f(C z) { return {z.x, -z.y}; }                                                \
  CUSIM_FN C cuCadd##f(C a, C b) { return {a.x + b.x, a.y + b.y}; }                                \
  CUSIM_FN C cuCsub##f(C a, C b) { return {a.x - b.x, a.y - b.y}; }                                \
  CUSIM_FN C cuCmul##f(C a, C b) { return {a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x}; }        \
  CUSIM_FN C cuCdiv##f(C a, C b) { /* scaled, so that no square overflows */                       \
    T s = (b.x < 0 ? -b.x : b.x) + (b.y < 0 ? -b.y : b.y), i = T(1) / s;                           \
    T ar = a.x * i, ai = a.y * i, br = b.x * i, bi = b.y * i, n = T(1) / (br * br + bi * bi);      \
    return {(ar * br + ai * bi) * n, (ai * br - ar * bi) * n};                                     \
  }                                                                                                \
  CUSIM_FN T cuCabs##f(C z) { return root(z.x, z.y); }                                             \
  CUSIM_FN C cuCfma##f(C a, C b, C c) {                                                            \
    return {a.x * b.x + c.x - a.y * b.y, a.x * b.y + c.y + a.y * b.x};                             \
  }
CUSIM_COMPLEX(cuFloatComplex, float, f, hypotf)
CUSIM_COMPLEX(cuDoubleComplex, double, , hypot)
#undef CUSIM_COMPLEX

CUSIM_FN cuComplex make_cuComplex(float x, float y) { return {x, y}; }
CUSIM_FN cuFloatComplex cuComplexDoubleToFloat(cuDoubleComplex z) { return {float(z.x), float(z.y)}; }
CUSIM_FN cuDoubleComplex cuComplexFloatToDouble(cuFloatComplex z) { return {z.x, z.y}; }

#endif
