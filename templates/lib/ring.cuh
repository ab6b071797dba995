// ring.cuh: a ring buffer in shared memory between producer and consumer warps, synchronised by
// mbarriers.
#pragma once
#include "lib/prim.cuh"

template <int kPlaces> struct Ring {
  Mbar filled[kPlaces], read[kPlaces];

  // By one thread; then nn_mbar_init_fence and a barrier. fillers: arrivals that fill a stage;
  // readers: consumer warps, each of which releases it.
  __device__ void init(int fillers, int readers) {
#pragma unroll
    for (int i = 0; i < kPlaces; ++i)
      nn_mbar_init(&filled[i], fillers), nn_mbar_init(&read[i], readers);
  }
};

// A thread's position in the ring: stage `at`, and the mbarrier phase `turn`, which flips per
// round.
template <int kPlaces> struct RingPlace {
  using Places = Ring<kPlaces>;
  int at = 0, turn = 0;

  // Producer: waits until all consumers have released the stage.
  __device__ __forceinline__ void await_left(Places &ring) const {
    nn_mbar_wait(&ring.read[at], turn ^ 1);
  }
  __device__ __forceinline__ void fill(Places &ring) { nn_mbar_arrive(&ring.filled[at]), step(); }
  // Consumer: waits until the stage is full. `leave`, called by all lanes, releases it.
  __device__ __forceinline__ void await_filled(Places &ring) const {
    nn_mbar_wait(&ring.filled[at], turn);
  }
  __device__ __forceinline__ void leave(Places &ring) {
    nn_syncwarp();
    if (threadIdx.x % kWarp == 0) nn_mbar_arrive(&ring.read[at]);
    step();
  }
  __device__ __forceinline__ void step() {
    at = at + 1 < kPlaces ? at + 1 : 0;
    turn ^= at == 0;
  }
};
