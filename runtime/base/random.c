// random.c: random numbers by place: the number at a place of a sequence, in any order, by any
// thread.
//
// SplitMix64 (Steele, Lea, Flood 2014): its output function over key + place * odd constant.
#include "base/base.h"

uint64_t random_at(uint64_t key, uint64_t at) {
  uint64_t x = key + at * 0xD1342543DE82EF95u + 0x9E3779B97F4A7C15u;
  x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
  x = (x ^ x >> 27) * 0x94D049BB133111EBu;
  return x ^ x >> 31;
}
