// cusim_ptx_video.h: PTX's video instructions: arithmetic on selected bytes and halves of
// registers, clamped, then added to, compared with or inserted into a third operand.
#ifndef CUSIM_PTX_VIDEO_H
#define CUSIM_PTX_VIDEO_H

typedef __int128 x_video; // holds every result before truncation

enum x_video_op {
  VideoAdd, VideoSub, VideoAbsdiff, VideoMin, VideoMax, VideoAverage, VideoShl, VideoShr,
  VideoEq, VideoNe, VideoLt, VideoLe, VideoGt, VideoGe
};

// `bits` bits of x from `shift` on, as a number.
CUSIM_FN s64 x_video_part(u64 x, int shift, int bits, bool is_signed) {
  u64 value = x >> shift & ((1ull << bits) - 1);
  return is_signed && value >> (bits - 1) ? s64(value | ~0ull << bits) : s64(value);
}
CUSIM_FN x_video x_video_clamp(x_video x, int bits, bool is_signed) {
  x_video low = is_signed ? -(x_video(1) << (bits - 1)) : 0;
  x_video high = (x_video(1) << (bits - is_signed)) - 1;
  return x < low ? low : x > high ? high : x;
}
CUSIM_FN x_video x_video_do(x_video_op op, s64 a, s64 b) {
  switch (op) {
  case VideoAdd: return a + b;
  case VideoSub: return a - b;
  case VideoAbsdiff: return a < b ? b - a : a - b;
  case VideoMin: return a < b ? a : b;
  case VideoMax: return a < b ? b : a;
  case VideoAverage: return a + b >= 0 ? (a + b + 1) >> 1 : (a + b) >> 1;
  case VideoShl: return x_video(a) << b;
  case VideoShr: return a >> b;
  case VideoEq: return a == b;
  case VideoNe: return a != b;
  case VideoLt: return a < b;
  case VideoLe: return a <= b;
  case VideoGt: return a > b;
  case VideoGe: return a >= b;
  }
  return 0;
}
// Of a result t of type u32 or s32: t, or t with c: + or < or >.
CUSIM_FN u32 x_video_second(char how, x_video t, u32 c, bool is_signed) {
  u32 x = u32(t);
  bool less = is_signed ? s32(x) < s32(c) : x < c;
  return how == '+' ? x + c : how == '<' ? (less ? x : c) : how == '>' ? (less ? c : x) : x;
}
// The lower bits of t in c's place.
CUSIM_FN u32 x_video_merge(x_video t, u32 c, int shift, int bits) {
  u32 mask = u32((1ull << bits) - 1) << shift;
  return (u32(t) << shift & mask) | (c & ~mask);
}
CUSIM_FN u32 x_video_shift(s64 count, bool wrap) {
  return wrap ? u32(count) & 31 : count > 32 ? 32 : u32(count);
}

// (-)a * b (-)c + one, moved right; c as signed as the product is.
CUSIM_FN u32 x_vmad(s64 a, s64 b, u32 c, bool is_signed, bool minus_ab, bool minus_c, int one,
                    int scale, bool sat) {
  x_video product = x_video(a) * b, third = is_signed || minus_ab ? x_video(s32(c)) : x_video(c);
  x_video sum = (minus_ab ? -product : product) + (minus_c ? -third : third) + one;
  sum >>= scale;
  return u32(sat ? x_video_clamp(sum, 32, is_signed || minus_ab || minus_c) : sum);
}

// n parts of 32 / n bits each. A digit of picks_a or picks_b selects a part of (b, a), a in the
// lower half.
CUSIM_FN u32 x_video_simd(x_video_op op, int n, u32 a, u32 b, u32 c, u32 picks_a, u32 picks_b,
                          bool signed_a, bool signed_b, bool signed_d, int mask, bool sat,
                          bool adds) {
  u64 both = u64(b) << 32 | a;
  int bits = 32 / n;
  u32 d = c;
  for (int i = 0; i < n; i++) {
    s64 x = x_video_part(both, int(picks_a >> 4 * i & 7) * bits, bits, signed_a);
    s64 y = x_video_part(both, int(picks_b >> 4 * i & 7) * bits, bits, signed_b);
    x_video t = x_video_do(op, x, y);
    if (sat) t = x_video_clamp(t, bits, signed_d);
    if (mask >> i & 1) d = adds ? d + u32(t) : x_video_merge(t, d, bits * i, bits);
  }
  return d;
}

#endif
