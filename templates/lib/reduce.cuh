// reduce.cuh: states, what a thread has accumulated so far, joined over elements, lanes, threads
// and blocks. A kernel defines its states, of 4-byte fields, with clear(state), the state of no
// element, combine(a, b), and append(a, b) where that takes less for elements of b that all are in
// places behind those of a. All is joined in a fixed order, as a tree: the error is near that of
// pairwise sums.
#pragma once

// What a + b lost in rounding, exactly (Knuth, "The Art of Computer Programming", 4.2.2), where it
// became `sum`: computed again it may be another number, as b's last multiplication joins it or
// not.
__device__ inline float nn_lost(float a, float b, float sum) {
  const float of_b = sum - a;
  return a - (sum - of_b) + (b - of_b);
}

// Does x of place i come before y of place j where the largest or the smallest is sought? NaN
// before all, equal ones by their places. Without branches, which cost registers.
__device__ inline bool nn_above(float x, int i, float y, int j) {
  const bool equal = (x == y) | (nn_isnan(x) & nn_isnan(y));
  return (x > y) | (nn_isnan(x) & !nn_isnan(y)) | (equal & (i < j));
}
__device__ inline bool nn_below(float x, int i, float y, int j) { return nn_above(-x, i, -y, j); }

// The same of an x in a place behind y's: two comparisons.
__device__ inline bool nn_above_first(float x, float y) { return !(x <= y) & !nn_isnan(y); }
__device__ inline bool nn_below_first(float x, float y) { return nn_above_first(-x, -y); }

template <int kCount, class State> __device__ inline void clear_all(State (&states)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) clear(states[i]);
}

template <class State> __device__ inline State append(const State &a, const State &b) {
  return combine(a, b);
}

// Some dozens of elements of a thread, or of a few, may be a run, which takes less than states do:
// with clear(run), combine(a, b), add_to_run(run, element) and whole(run); or a state itself.
template <class State> __device__ inline State whole(const State &state) { return state; }

// The first of kCount states becomes all of them together, as a tree of neighbours; each is of
// places behind those of the one before. kCount is a power of two.
template <int kCount, class State> __device__ inline void fold(State *states) {
#pragma unroll
  for (int apart = 1; apart < kCount; apart *= 2)
#pragma unroll
    for (int s = 0; s < kCount; s += 2 * apart) states[s] = append(states[s], states[s + apart]);
}

// Adds to each state what one vector of lanes, behind those before, gave: to one state all of them,
// or each its own.
template <int kOutputs, int kLanes, class State, class Run>
__device__ inline void add_lanes(State (&acc)[kOutputs], Run (&one)[kLanes]) {
  static_assert(kOutputs == 1 || kOutputs == kLanes, "lanes are reduced together, or not at all");
  if constexpr (kOutputs == 1) fold<kLanes>(one);
#pragma unroll
  for (int o = 0; o < kOutputs; ++o) acc[o] = append(acc[o], whole(one[o]));
}

template <class A, class B> constexpr bool kSame = false;
template <class A> constexpr bool kSame<A, A> = true;

// Accumulates elements begin, begin + step, .. before `end`; take(e, one) gives kLanes neighbours,
// each a run of one. Some steps of kDepth vectors, whose loads are in flight together, are summed
// apart: thousands of elements meet in three levels of few additions each. What is left is counted,
// as `end` may be 2^31; `end - begin` is less.
template <int kOutputs, int kLanes, int kDepth, class Run, class State, class Take>
__device__ inline void accumulate(State (&acc)[kOutputs], int begin, unsigned end, int step,
                                  Take take) {
  constexpr int kElements = kDepth * kLanes / kOutputs;  // of a step, in each run
  constexpr int kSteps = kSame<Run, State> ? 16 : kElements < 64 ? 64 / kElements : 1;
  Run one[kDepth][kLanes];
  clear_all(acc);
  int left = end - begin;
  while (left > (kDepth - 1) * step) {
    Run run[kOutputs];
    clear_all(run);
    for (int n = 0; n < kSteps && left > (kDepth - 1) * step; ++n, left -= kDepth * step) {
#pragma unroll
      for (int d = 0; d < kDepth; ++d) {
        take(end - left + d * step, one[d]);
        if constexpr (kOutputs == 1) fold<kLanes>(one[d]);  // before what is behind all of them
      }
#pragma unroll
      for (int apart = 1; apart < kDepth; apart *= 2)
#pragma unroll
        for (int d = 0; d < kDepth; d += 2 * apart)
#pragma unroll
          for (int o = 0; o < kOutputs; ++o) one[d][o] = append(one[d][o], one[d + apart][o]);
#pragma unroll
      for (int o = 0; o < kOutputs; ++o) run[o] = append(run[o], one[0][o]);
    }
#pragma unroll
    for (int o = 0; o < kOutputs; ++o) acc[o] = append(acc[o], whole(run[o]));
  }
  for (; left > 0; left -= step) {
    take(end - left, one[0]);
    add_lanes(acc, one[0]);
  }
}

// Words of a state, kept `stride` apart.
template <class State>
__device__ inline void keep_state(float *place, int stride, const State &state) {
  const float *words = reinterpret_cast<const float *>(&state);
#pragma unroll
  for (int w = 0; w < int(sizeof(State) / 4); ++w) place[w * stride] = words[w];
}
template <class State> __device__ inline State kept_state(const float *place, int stride) {
  State state;
  float *words = reinterpret_cast<float *>(&state);
#pragma unroll
  for (int w = 0; w < int(sizeof(State) / 4); ++w) words[w] = place[w * stride];
  return state;
}

// The state of lane `lane ^ offset`.
template <class State> __device__ inline State shuffle_state(const State &state, int offset) {
  static_assert(sizeof(State) % 4 == 0, "fields of four bytes");
  State other;
  const unsigned *from = reinterpret_cast<const unsigned *>(&state);
  unsigned *to = reinterpret_cast<unsigned *>(&other);
#pragma unroll
  for (int w = 0; w < int(sizeof(State) / 4); ++w) to[w] = nn_shfl_xor(from[w], offset);
  return other;
}

// Joins the states of kLanes neighbouring lanes: each of them has all.
template <int kLanes = kWarp, class State> __device__ inline State warp_join(State state) {
#pragma unroll
  for (int offset = kLanes / 2; offset > 0; offset /= 2)
    state = combine(state, shuffle_state(state, offset));
  return state;
}

// Joins the states of the kRows threads that share outputs: row 0 of each column has them then.
// kTogether: these threads are neighbours, kRows a multiple of a warp. `shared` has room for a
// state of each thread and output. For all threads of the block.
template <int kRows, int kColumns, bool kTogether, int kOutputs, class State>
__device__ inline void join_rows(State (&acc)[kOutputs], State *shared, int row, int column) {
  constexpr int kLeft = kTogether ? kRows / kWarp : kRows;  // states of a column that are left
  if constexpr (kTogether)
#pragma unroll
    for (int o = 0; o < kOutputs; ++o) acc[o] = warp_join(acc[o]);
  const int r = kTogether ? row / kWarp : row;
  const bool brings = !kTogether || row % kWarp == 0;
#pragma unroll
  for (int half = kLeft / 2; half > 0; half /= 2) {
    if (brings && r >= half && r < 2 * half)
#pragma unroll
      for (int o = 0; o < kOutputs; ++o) shared[(o * kLeft + r) * kColumns + column] = acc[o];
    nn_sync();
#pragma unroll
    for (int o = 0; o < kOutputs; ++o)  // rows from `half` on have given theirs away
      acc[o] = combine(acc[o], shared[(o * kLeft + half + r % half) * kColumns + column]);
  }
}

// Joins the parts of kParts blocks in the order of the parts, by the last of them to arrive: true
// for that one, whose row 0 then has all. `kept` has room for a state of each output and part.
template <int kParts, int kRows, int kColumns, bool kTogether, int kOutputs, class State>
__device__ inline bool join_parts(State (&acc)[kOutputs], State *shared, State *kept, int count,
                                  int part, int output, bool owns, int row, int column,
                                  int *arrived, bool *last) {
  if (row == 0 && owns)
    for (int o = 0; o < kOutputs; ++o) kept[part * count + output + o] = acc[o];
  if (!last_to_arrive(arrived, kParts, last)) return false;
  for (int o = 0; o < kOutputs; ++o) {
    clear(acc[o]);
    for (int p = row; p < kParts; p += kRows)
      acc[o] = combine(acc[o], kept[p * count + output + o]);
  }
  join_rows<kRows, kColumns, kTogether>(acc, shared, row, column);
  return true;
}

// Joins states first, .. before `end` of memory by a warp, in a fixed order: each lane has all.
template <class State>
__device__ inline State join_left(const State *left, int first, int end, int lane) {
  State state;
  clear(state);
  for (int s = first + lane; s < end; s += kWarp) state = combine(state, left[s]);
  return warp_join(state);
}

// Joins the states of the kThreads threads of a row (a part of a warp, one, or a whole block of
// several warps) and gives the result to all of them. `part` is used once.
template <int kThreads, int kParts, class State>
__device__ inline State row_join(State state, State (&part)[kParts]) {
  state = warp_join<kThreads < kWarp ? kThreads : kWarp>(state);
  if constexpr (kThreads > kWarp) {  // then the block has one row
    if (threadIdx.x % kWarp == 0) part[threadIdx.x / kWarp] = state;
    nn_sync();
    state = part[0];
#pragma unroll
    for (int w = 1; w < kThreads / kWarp; ++w) state = combine(state, part[w]);
  }
  return state;
}

// The same for rows across memory: thread t has row t % kColumns, with kRows - 1 others.
template <int kRows, int kColumns, class State>
__device__ inline State column_join(const State &state, State (&part)[kRows * kColumns]) {
  if constexpr (kRows == 1) return state;
  const int row = threadIdx.x / kColumns, column = threadIdx.x % kColumns;
  State acc[1] = {state};
  join_rows<kRows, kColumns, false>(acc, part, row, column);
  if (row == 0) part[column] = acc[0];  // no thread reads there any more
  nn_sync();
  return part[column];
}
