// span.cuh: interval arithmetic: bounds of a value over a tile of rows and keys. Bounds are double,
// in which positions are exact.
#pragma once
#include "lib/prim.cuh"

struct Span {
  double lo, hi;
  bool nan = false;  // it may also be NaN
};

// Bounds of any finite value; larger than any float.
constexpr double kSpanMost = 1e300;
__device__ inline Span span_any() { return {-kSpanMost, kSpanMost}; }
__device__ inline Span span_unknown() { return {-kSpanMost, kSpanMost, true}; }
// A function of a, such as an exponential, whose bounds are not computed.
__device__ inline Span span_of_any(Span a) { return {-kSpanMost, kSpanMost, a.nan}; }
__device__ inline Span span_at(double x) { return {x, x}; }
__device__ inline Span span_of(double lo, double hi, bool nan) {
  return lo == lo && hi == hi ? Span{lo, hi, nan} : span_unknown();  // inf - inf is no bound
}
__device__ inline double span_floor(double x) {
  if (!(x > -1e15 && x < 1e15)) return x;
  const double cut = double((long long)x);
  return cut > x ? cut - 1 : cut;
}
__device__ inline double span_min(double a, double b) { return a < b ? a : b; }
__device__ inline double span_max(double a, double b) { return a > b ? a : b; }

__device__ inline Span span_add(Span a, Span b) {
  return span_of(a.lo + b.lo, a.hi + b.hi, a.nan || b.nan);
}
__device__ inline Span span_sub(Span a, Span b) {
  return span_of(a.lo - b.hi, a.hi - b.lo, a.nan || b.nan);
}
__device__ inline Span span_neg(Span a) { return {-a.hi, -a.lo, a.nan}; }
__device__ inline Span span_mul(Span a, Span b) {
  const double p = a.lo * b.lo, q = a.lo * b.hi, r = a.hi * b.lo, s = a.hi * b.hi;
  if (!(p == p && q == q && r == r && s == s)) return span_unknown();
  return {span_min(span_min(p, q), span_min(r, s)), span_max(span_max(p, q), span_max(r, s)),
          a.nan || b.nan};
}
__device__ inline Span span_div(Span a, Span b) {
  if (b.lo <= 0 && b.hi >= 0) return span_unknown();
  const double p = a.lo / b.lo, q = a.lo / b.hi, r = a.hi / b.lo, s = a.hi / b.hi;
  if (!(p == p && q == q && r == r && s == s)) return span_unknown();
  return {span_min(span_min(p, q), span_min(r, s)), span_max(span_max(p, q), span_max(r, s)),
          a.nan || b.nan};
}
__device__ inline Span span_floor(Span a) {
  return {span_floor(a.lo), span_floor(a.hi), a.nan};
}
__device__ inline Span span_abs(Span a) {
  const double most = span_max(-a.lo, a.hi);
  return {a.lo > 0 ? a.lo : a.hi < 0 ? -a.hi : 0, most, a.nan};
}
__device__ inline Span span_max(Span a, Span b) {
  return {span_max(a.lo, b.lo), span_max(a.hi, b.hi), a.nan || b.nan};
}
__device__ inline Span span_min(Span a, Span b) {
  return {span_min(a.lo, b.lo), span_min(a.hi, b.hi), a.nan || b.nan};
}
__device__ inline Span span_mod(Span a, Span b) {
  const double most = span_abs(b).hi;
  if (b.lo != b.hi || b.lo == 0) return {-most, most, true};
  const double first = span_floor(a.lo / b.lo), last = span_floor(a.hi / b.lo);
  if (first == last) return span_of(a.lo - first * b.lo, a.hi - first * b.lo, a.nan || b.nan);
  return {span_min(b.lo, 0.), span_max(b.lo, 0.), a.nan || b.nan};
}

// Bounds of a float operation on a and b whose exact bounds are s: widened by rounding unless all
// are integers that floats represent.
__device__ inline bool span_whole(Span s) {  // floats represent all integers up to `most`
  const double most = 1 << 24;
  return s.lo == span_floor(s.lo) && s.hi == span_floor(s.hi) && s.lo >= -most && s.hi <= most;
}
__device__ inline Span span_near(Span s, Span a, Span b) {
  if (span_whole(s) && span_whole(a) && span_whole(b)) return s;
  const double share = 1. / (1 << 21);
  const double below = s.lo * (s.lo > 0 ? 1 - share : 1 + share);
  return {below, s.hi * (s.hi > 0 ? 1 + share : 1 - share), s.nan};
}

// Comparisons are 0, 1, or [0, 1]; if a or b may be NaN, none surely holds.
__device__ inline Span span_compared(Span a, Span b, double surely, double maybe) {
  return {a.nan || b.nan ? 0. : surely, maybe};
}
__device__ inline Span span_lt(Span a, Span b) {
  return span_compared(a, b, a.hi < b.lo ? 1. : 0., a.lo < b.hi ? 1. : 0.);
}
__device__ inline Span span_le(Span a, Span b) {
  return span_compared(a, b, a.hi <= b.lo ? 1. : 0., a.lo <= b.hi ? 1. : 0.);
}
__device__ inline Span span_eq(Span a, Span b) {
  const bool same = a.lo == a.hi && b.lo == b.hi && a.lo == b.lo;
  return span_compared(a, b, same ? 1. : 0., a.lo <= b.hi && b.lo <= a.hi ? 1. : 0.);
}
__device__ inline bool span_true(Span a) { return a.lo > 0 || a.hi < 0; }
__device__ inline bool span_false(Span a) { return a.lo == 0 && a.hi == 0 && !a.nan; }
__device__ inline Span span_where(Span c, Span a, Span b) {
  if (span_true(c)) return a;
  if (span_false(c)) return b;
  return {span_min(a.lo, b.lo), span_max(a.hi, b.hi), a.nan || b.nan};
}

// Conversions: to bool; to integers in [least, most], which truncate and wrap.
__device__ inline Span span_bool(Span a) {
  return {span_true(a) && !a.nan ? 1. : 0., span_false(a) ? 0. : 1.};
}
__device__ inline Span span_cut(Span a, double least, double most) {
  const double lo = a.lo < 0 ? -span_floor(-a.lo) : span_floor(a.lo),
               hi = a.hi < 0 ? -span_floor(-a.hi) : span_floor(a.hi);
  return lo >= least && hi <= most && !a.nan ? Span{lo, hi} : Span{least, most};
}

// Bounds of n / below % size for n in [lo, hi]: an index of one dimension from a flat position.
__device__ inline Span span_digit(int lo, int hi, int below, int size) {
  const int first = lo / below, last = hi / below;
  if (last - first >= size || first % size > last % size) return {0., double(size - 1)};
  return {double(first % size), double(last % size)};
}

// Bounds of value(i) over a span of positions.
template <class Value> __device__ inline Span span_over(Span positions, Value value) {
  Span all = {nn_inf(), -nn_inf()};
  for (int i = int(positions.lo); i <= int(positions.hi); ++i) {
    const double x = double(value(i));
    if (x == x)
      all = {span_min(all.lo, x), span_max(all.hi, x), all.nan};
    else
      all.nan = true;
  }
  return all.lo <= all.hi ? all : span_unknown();
}

// ---- tiles of keys ----------------------------------------------------------------------------

// Masked: all scores are `masked`, which weighs nothing; mixed: some may be; plain: none.
enum TileKind { kTileMasked, kTileMixed, kTilePlain };
__device__ inline TileKind tile_kind(Span score, bool plain, double masked = -nn_inf()) {
  if (score.lo >= masked && score.hi <= masked && !score.nan) return kTileMasked;
  return plain ? kTilePlain : kTileMixed;
}

// Sets a bit of `live` for each of kCount tiles that is not masked, and of `plain` for each plain
// one. thread: index among the kThreads callers.
template <int kCount, int kThreads, class Kind>
__device__ __forceinline__ void find_tiles(unsigned *live, unsigned *plain, Kind kind,
                                           int thread = threadIdx.x) {
  for (int begin = 0; begin < kCount; begin += kThreads) {
    const int tile = begin + thread;
    const TileKind found = tile < kCount ? kind(tile) : kTileMasked;
    const unsigned not_masked = nn_ballot(found != kTileMasked),
                   all_plain = nn_ballot(found == kTilePlain);
    if (tile < kCount && tile % kWarp == 0)
      live[tile / kWarp] = not_masked, plain[tile / kWarp] = all_plain;
  }
}

// The first tile from `tile` on whose bit is set; `end` or more if there is none before `end`.
__device__ __forceinline__ int next_tile(const unsigned *live, int tile, int end) {
  while (tile < end) {
    const unsigned rest = live[tile / kWarp] >> tile % kWarp;
    if (rest) return tile + nn_popc((rest & -rest) - 1);
    tile = (tile / kWarp + 1) * kWarp;
  }
  return end;
}
