// ring.cuh: places in shared memory that some threads of a block fill and others read, in turn:
// each waits for the other by mbarriers, and for nobody else.
#pragma once
#include "lib/prim.cuh"

template <int kPlaces> struct Ring {
  Mbar filled[kPlaces], read[kPlaces];

  // By one thread; then nn_mbar_init_fence, and a barrier. fillers: threads that fill a place;
  // readers: warps that leave it.
  __device__ void init(int fillers, int readers) {
#pragma unroll
    for (int i = 0; i < kPlaces; ++i)
      nn_mbar_init(&filled[i], fillers), nn_mbar_init(&read[i], readers);
  }
};

// The place that a thread is at; `turn` changes with each round of the ring.
template <int kPlaces> struct RingPlace {
  using Places = Ring<kPlaces>;
  int at = 0, turn = 0;

  // Of a thread that fills: until the place has been left by all that read it the round before.
  __device__ __forceinline__ void await_left(Places &ring) const {
    nn_mbar_wait(&ring.read[at], turn ^ 1);
  }
  __device__ __forceinline__ void fill(Places &ring) { nn_mbar_arrive(&ring.filled[at]), step(); }
  // Of a thread that reads: until the place is filled. `leave`: by all lanes, of which one arrives.
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
