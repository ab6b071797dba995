// random.cuh: counter-based random numbers, Philox4x32-10 (Salmon et al., "Parallel random numbers:
// as easy as 1, 2, 3", 2011): position, step, seed and draw determine the number.
#pragma once
#include "lib/values.cuh"

struct Philox {
  unsigned word[4];
};

// Ten rounds over a counter of four words, with a key of two.
NN_DEV Philox nn_philox(Philox c, unsigned key0, unsigned key1) {
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    const unsigned long long p0 = 0xd2511f53ull * c.word[0], p1 = 0xcd9e8d57ull * c.word[2];
    c = Philox{{unsigned(p1 >> 32) ^ c.word[1] ^ key0, unsigned(p1),
                unsigned(p0 >> 32) ^ c.word[3] ^ key1, unsigned(p0)}};
    key0 += 0x9e3779b9u;
    key1 += 0xbb67ae85u;
  }
  return c;
}

NN_DEV Philox nn_draw(int position, int step, int seed, int draw) {
  return nn_philox(Philox{{unsigned(position), 0, unsigned(draw), 0}}, unsigned(seed),
                   unsigned(step));
}

// Uniform in [0, 1), 24 bits.
NN_DEV float nn_uniform(int position, int step, int seed, int draw) {
  return float(nn_draw(position, step, seed, draw).word[0] >> 8) * 0x1p-24f;
}

// Normal, mean 0 and deviation 1 (Box and Muller).
NN_DEV float nn_normal(int position, int step, int seed, int draw) {
  const Philox p = nn_draw(position, step, seed, draw);
  const float u = float((p.word[0] >> 8) + 1) * 0x1p-24f, v = float(p.word[1] >> 8) * 0x1p-24f;
  return nn_sqrt(-2.f * nn_log(u)) * nn_cos(6.2831853f * v);
}
