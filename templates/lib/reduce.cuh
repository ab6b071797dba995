// reduce.cuh: reduction states (accumulators), joined over elements, lanes, threads and blocks. A
// kernel defines its state, a struct of 4-byte fields, with clear(state), the state of no elements,
// combine(a, b), and optionally append(a, b), cheaper if all elements of b come after those of a.
// States are joined in a fixed order, as a tree; the error is near that of pairwise summation.
#pragma once

// The exact rounding error of sum = a + b (Knuth, "The Art of Computer Programming", 4.2.2). `sum`
// is passed because recomputing it may give another number: the compiler may contract it to an FMA.
__device__ inline float nn_lost(float a, float b, float sum) {
  const float of_b = sum - a;
  return a - (sum - of_b) + (b - of_b);
}

// True if x at index i comes before y at index j in an arg-max (nn_above) or arg-min (nn_below):
// NaN first; ties by index. Without branches, which cost registers.
__device__ inline bool nn_above(float x, int i, float y, int j) {
  const bool equal = (x == y) | (nn_isnan(x) & nn_isnan(y));
  return (x > y) | (nn_isnan(x) & !nn_isnan(y)) | (equal & (i < j));
}
__device__ inline bool nn_below(float x, int i, float y, int j) { return nn_above(-x, i, -y, j); }

// The same if x's index is larger than y's: two comparisons.
__device__ inline bool nn_above_first(float x, float y) { return !(x <= y) & !nn_isnan(y); }
__device__ inline bool nn_below_first(float x, float y) { return nn_above_first(-x, -y); }

template <int kCount, class State> __device__ inline void clear_all(State (&states)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) clear(states[i]);
}

template <class State> __device__ inline State append(const State &a, const State &b) {
  return combine(a, b);
}

// Up to some dozens of elements may be accumulated in a run, which is cheaper than a state, with
// clear(run), combine(a, b), add_to_run(run, element) and whole(run), which converts it to a state.
// A state is also a run.
template <class State> __device__ inline State whole(const State &state) { return state; }

// Joins kCount consecutive states, a power of two, into the first, as a tree of neighbours.
template <int kCount, class State> __device__ inline void fold(State *states) {
#pragma unroll
  for (int apart = 1; apart < kCount; apart *= 2)
#pragma unroll
    for (int s = 0; s < kCount; s += 2 * apart) states[s] = append(states[s], states[s + apart]);
}

// Appends a vector of lanes to the states: all lanes to a single state, or each to its state.
template <int kOutputs, int kLanes, class State, class Run>
__device__ inline void add_lanes(State (&acc)[kOutputs], Run (&one)[kLanes]) {
  static_assert(kOutputs == 1 || kOutputs == kLanes, "lanes are reduced together, or not at all");
  if constexpr (kOutputs == 1) fold<kLanes>(one);
#pragma unroll
  for (int o = 0; o < kOutputs; ++o) acc[o] = append(acc[o], whole(one[o]));
}

template <class A, class B> constexpr bool kSame = false;
template <class A> constexpr bool kSame<A, A> = true;

// Accumulates elements begin, begin + step, ... below `end`; take(e, one) loads kLanes neighbours,
// each as a run of one element. Three levels of summation keep the error small: a tree over kDepth
// vectors, whose loads are in flight together; a run over kSteps of these; the state. `left` counts
// down because `end` may be 2^31; end - begin is less.
template <int kOutputs, int kLanes, int kDepth, class Run, class State, class Take>
__device__ inline void accumulate(State (&acc)[kOutputs], int begin, unsigned end, int step,
                                  Take take) {
  constexpr int kElements = kDepth * kLanes / kOutputs;  // per step and run
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
        if constexpr (kOutputs == 1) fold<kLanes>(one[d]);  // before later vectors
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

// Stores and loads the words of a state, `stride` apart.
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

// Joins the states of kLanes neighbouring lanes; all of them get the result.
template <int kLanes = kWarp, class State> __device__ inline State warp_join(State state) {
#pragma unroll
  for (int offset = kLanes / 2; offset > 0; offset /= 2)
    state = combine(state, shuffle_state(state, offset));
  return state;
}

// Joins the states of the kRows threads that share outputs; row 0 of each column gets the result.
// kTogether: these threads are neighbours, and kRows is a multiple of a warp. `shared` has room for
// a state per thread and output. Called by all threads of the block.
template <int kRows, int kColumns, bool kTogether, int kOutputs, class State>
__device__ inline void join_rows(State (&acc)[kOutputs], State *shared, int row, int column) {
  constexpr int kLeft = kTogether ? kRows / kWarp : kRows;  // states per column left
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
    for (int o = 0; o < kOutputs; ++o)  // rows from `half` on do not need theirs any more
      acc[o] = combine(acc[o], shared[(o * kLeft + half + r % half) * kColumns + column]);
  }
}

// Joins the states of kParts blocks, in order, by the last block to arrive: true in that block,
// whose row 0 has the result. `kept` has room for a state per output and part.
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

// Joins states first, ... below `end` of memory by a warp, in a fixed order; all lanes get the
// result.
template <class State>
__device__ inline State join_left(const State *left, int first, int end, int lane) {
  State state;
  clear(state);
  for (int s = first + lane; s < end; s += kWarp) state = combine(state, left[s]);
  return warp_join(state);
}

// Joins the states of the kThreads threads of a row (part of a warp, a warp, or a block); all of
// them get the result. `part` must not be used again.
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

// The same for strided rows: kRows threads share row threadIdx.x % kColumns.
template <int kRows, int kColumns, class State>
__device__ inline State column_join(const State &state, State (&part)[kRows * kColumns]) {
  if constexpr (kRows == 1) return state;
  const int row = threadIdx.x / kColumns, column = threadIdx.x % kColumns;
  State acc[1] = {state};
  join_rows<kRows, kColumns, false>(acc, part, row, column);
  if (row == 0) part[column] = acc[0];  // no thread still reads here
  nn_sync();
  return part[column];
}
