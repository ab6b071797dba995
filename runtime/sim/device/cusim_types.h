// cusim_types.h: CUDA's vector types and built-in variables.
#ifndef CUSIM_TYPES_H
#define CUSIM_TYPES_H

#define CUSIM_VECTOR(T, name, a2, a4)                                                              \
  struct name##1 { T x; };                                                                         \
  struct alignas(a2) name##2 { T x, y; };                                                          \
  struct name##3 { T x, y, z; };                                                                   \
  struct alignas(a4) name##4 { T x, y, z, w; };                                                    \
  CUSIM_FN name##1 make_##name##1(T x) { return {x}; }                                             \
  CUSIM_FN name##2 make_##name##2(T x, T y) { return {x, y}; }                                     \
  CUSIM_FN name##3 make_##name##3(T x, T y, T z) { return {x, y, z}; }                             \
  CUSIM_FN name##4 make_##name##4(T x, T y, T z, T w) { return {x, y, z, w}; }
CUSIM_VECTOR(signed char, char, 2, 4)
CUSIM_VECTOR(unsigned char, uchar, 2, 4)
CUSIM_VECTOR(short, short, 4, 8)
CUSIM_VECTOR(unsigned short, ushort, 4, 8)
CUSIM_VECTOR(int, int, 8, 16)
CUSIM_VECTOR(unsigned, uint, 8, 16)
CUSIM_VECTOR(long, long, 16, 16)
CUSIM_VECTOR(unsigned long, ulong, 16, 16)
CUSIM_VECTOR(long long, longlong, 16, 16)
CUSIM_VECTOR(unsigned long long, ulonglong, 16, 16)
CUSIM_VECTOR(float, float, 8, 16)
CUSIM_VECTOR(double, double, 16, 16)
#undef CUSIM_VECTOR

struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
  constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
  operator uint3() const { return {x, y, z}; }
};

namespace cusim {
CUSIM_FN const uint3 &as_uint3(const unsigned *v) { return *reinterpret_cast<const uint3 *>(v); }
CUSIM_FN const dim3 &as_dim3(const unsigned *v) { return *reinterpret_cast<const dim3 *>(v); }
} // namespace cusim

#define threadIdx (cusim::as_uint3(cusim_self->thread))
#define blockIdx (cusim::as_uint3(cusim_self->block))
#define blockDim (cusim::as_dim3(cusim_self->block_dim))
#define gridDim (cusim::as_dim3(cusim_self->grid_dim))
constexpr int warpSize = 32;

#endif
