// cooperative_groups.h: CUDA's groups of threads, over libcusim's barriers and collectives: blocks,
// tiles of a warp, coalesced lanes, the grid of a cooperative launch.
#ifndef CUSIM_COOPERATIVE_GROUPS_H
#define CUSIM_COOPERATIVE_GROUPS_H

namespace cooperative_groups {

class thread_group;

class thread_block {
public:
  static void sync() { cusim_barrier_named(0, 0, 0); }
  static void barrier_sync() { sync(); }
  static unsigned thread_rank() { return cusim_self->linear; }
  static unsigned size() { return blockDim.x * blockDim.y * blockDim.z; }
  static unsigned num_threads() { return size(); }
  static dim3 group_index() { return dim3(blockIdx.x, blockIdx.y, blockIdx.z); }
  static dim3 thread_index() { return dim3(threadIdx.x, threadIdx.y, threadIdx.z); }
  static dim3 group_dim() { return dim3(blockDim.x, blockDim.y, blockDim.z); }
  static dim3 dim_threads() { return group_dim(); }
};
CUSIM_FN thread_block this_thread_block() {
  return {};
}

class grid_group {
public:
  static bool is_valid() { return cusim_grid_is_cooperative(); }
  static void sync() { cusim_grid_barrier(); }
  static unsigned long long block_rank() {
    return (blockIdx.z * gridDim.y + blockIdx.y) * (unsigned long long)gridDim.x + blockIdx.x;
  }
  static unsigned long long num_blocks() {
    return (unsigned long long)gridDim.x * gridDim.y * gridDim.z;
  }
  static unsigned long long thread_rank() {
    return block_rank() * thread_block::size() + thread_block::thread_rank();
  }
  static unsigned long long size() { return num_blocks() * thread_block::size(); }
  static unsigned long long num_threads() { return size(); }
  static dim3 group_dim() { return dim3(gridDim.x, gridDim.y, gridDim.z); }
  static dim3 dim_blocks() { return group_dim(); }
  static dim3 block_index() { return dim3(blockIdx.x, blockIdx.y, blockIdx.z); }
};
CUSIM_FN grid_group this_grid() {
  return {};
}

// Lanes of one warp: base of the groups below. Ranks count the lanes of the mask.
class lane_group {
protected:
  unsigned mask_;
  unsigned lane_of(unsigned rank) const { // lane of that rank; beyond the last one the caller
    unsigned rest = mask_;
    for (; rank && rest; rank--) rest &= rest - 1;
    return rest ? unsigned(__builtin_ctz(rest)) : unsigned(cusim::lane());
  }
  unsigned packed(unsigned lanes) const { // of lanes as ranks
    unsigned ranks = 0, rank = 0;
    for (unsigned rest = mask_; rest; rest &= rest - 1, rank++)
      ranks |= (lanes >> __builtin_ctz(rest) & 1) << rank;
    return ranks;
  }

public:
  explicit lane_group(unsigned mask) : mask_(mask) {}
  void sync() const { cusim_meet(mask_, 0, 0); }
  unsigned size() const { return unsigned(__builtin_popcount(mask_)); }
  unsigned num_threads() const { return size(); }
  unsigned thread_rank() const {
    return unsigned(__builtin_popcount(mask_ & ((1u << cusim::lane()) - 1)));
  }
  unsigned mask() const { return mask_; }
  template <class T> T shfl(T v, int rank) const {
    return __shfl_sync(mask_, v, int(lane_of(unsigned(rank) % size())));
  }
  template <class T> T shfl_up(T v, unsigned delta) const {
    unsigned rank = thread_rank();
    return __shfl_sync(mask_, v, int(lane_of(rank >= delta ? rank - delta : rank)));
  }
  template <class T> T shfl_down(T v, unsigned delta) const {
    unsigned rank = thread_rank();
    return __shfl_sync(mask_, v, int(lane_of(rank + delta < size() ? rank + delta : rank)));
  }
  template <class T> T shfl_xor(T v, unsigned bits) const {
    return __shfl_sync(mask_, v, int(lane_of(thread_rank() ^ bits)));
  }
  int any(int p) const { return __any_sync(mask_, p); }
  int all(int p) const { return __all_sync(mask_, p); }
  unsigned ballot(int p) const { return packed(__ballot_sync(mask_, p)); }
  template <class T> unsigned match_any(T v) const { return packed(__match_any_sync(mask_, v)); }
  template <class T> unsigned match_all(T v, int &same) const {
    return packed(__match_all_sync(mask_, v, &same));
  }
};

// Size of a tile's parent in threads; 0 for the block.
template <class Parent> struct parent_size { static constexpr unsigned value = 0; };

template <unsigned N, class Parent = void> class thread_block_tile : public lane_group {
  static_assert(N && N <= 32 && !(N & (N - 1)), "a tile of 1, 2, 4, 8, 16 or 32 threads");

public:
  thread_block_tile()
      : lane_group((N == 32 ? ~0u : (1u << N % 32) - 1) << unsigned(cusim::lane()) / N * N) {
    unsigned left =
        thread_block::size() - cusim_self->linear / 32 * 32; // the last warp may be short
    if (left < 32) mask_ &= (1u << left) - 1;
  }
  static constexpr unsigned size() { return N; }
  static constexpr unsigned num_threads() { return N; }
  static unsigned thread_rank() { return unsigned(cusim::lane()) % N; }
  static unsigned meta_group_rank() {
    constexpr unsigned parent = parent_size<Parent>::value;
    return (parent ? cusim_self->linear % (parent ? parent : 1) : cusim_self->linear) / N;
  }
  static unsigned meta_group_size() {
    constexpr unsigned parent = parent_size<Parent>::value;
    return ((parent ? parent : thread_block::size()) + N - 1) / N;
  }
};
template <unsigned N, class P> struct parent_size<thread_block_tile<N, P>> {
  static constexpr unsigned value = N;
};

class coalesced_group : public lane_group {
public:
  explicit coalesced_group(unsigned mask) : lane_group(mask) {}
  static unsigned meta_group_rank() { return 0; }
  static unsigned meta_group_size() { return 1; }
};

CUSIM_FN coalesced_group coalesced_threads() {
  return coalesced_group(cusim_lanes_here());
}

template <unsigned N, class G> CUSIM_FN thread_block_tile<N, G> tiled_partition(const G &) {
  return {};
}
CUSIM_FN coalesced_group tiled_partition(const thread_block &, unsigned n) {
  unsigned lane = unsigned(cusim::lane());
  return coalesced_group((n >= 32 ? ~0u : (1u << n) - 1) << lane / n * n);
}
template <class G> CUSIM_FN coalesced_group binary_partition(const G &group, bool p) {
  unsigned lanes = __ballot_sync(group.mask(), p);
  return coalesced_group(p ? lanes : group.mask() & ~lanes);
}
template <class G, class T> CUSIM_FN coalesced_group labeled_partition(const G &group, T label) {
  return coalesced_group(__match_any_sync(group.mask(), label));
}

template <class G> CUSIM_FN void sync(const G &group) {
  group.sync();
}
template <class G> CUSIM_FN auto thread_rank(const G &group) {
  return group.thread_rank();
}
template <class G> CUSIM_FN auto group_size(const G &group) {
  return group.size();
}
template <class G, class F, class... A> CUSIM_FN void invoke_one(const G &group, F f, A... a) {
  if (group.thread_rank() == 0) f(a...);
}

// ---- reductions and scans -----------------------------------------------------------------------

template <class T> struct plus {
  T operator()(T a, T b) const { return a + b; }
};
template <class T> struct less {
  T operator()(T a, T b) const { return b < a ? b : a; }
};
template <class T> struct greater {
  T operator()(T a, T b) const { return a < b ? b : a; }
};
template <class T> struct bit_and {
  T operator()(T a, T b) const { return a & b; }
};
template <class T> struct bit_or {
  T operator()(T a, T b) const { return a | b; }
};
template <class T> struct bit_xor {
  T operator()(T a, T b) const { return a ^ b; }
};

// Butterfly, as on a GPU: every lane ends with the same value.
template <class G, class T, class F> CUSIM_FN T reduce(const G &group, T v, F f) {
  unsigned n = group.size(), rank = group.thread_rank();
  for (unsigned half = 1; half < n; half *= 2) {
    T other = group.shfl_down(v, half);
    if (rank + half < n && rank % (2 * half) == 0) v = f(v, other);
  }
  return group.shfl(v, 0);
}
template <class G, class T, class F> CUSIM_FN T inclusive_scan(const G &group, T v, F f) {
  unsigned n = group.size(), rank = group.thread_rank();
  for (unsigned step = 1; step < n; step *= 2) {
    T other = group.shfl_up(v, step);
    if (rank >= step) v = f(other, v);
  }
  return v;
}
template <class G, class T> CUSIM_FN T inclusive_scan(const G &group, T v) {
  return inclusive_scan(group, v, plus<T>());
}
template <class G, class T, class F> CUSIM_FN T exclusive_scan(const G &group, T v, F f) {
  T before = group.shfl_up(inclusive_scan(group, v, f), 1);
  return group.thread_rank() ? before : T();
}
template <class G, class T> CUSIM_FN T exclusive_scan(const G &group, T v) {
  return exclusive_scan(group, v, plus<T>());
}

// ---- copies -------------------------------------------------------------------------------------

template <class G>
CUSIM_FN void memcpy_async(const G &group, void *to, const void *from, size_t bytes) {
  bool words = !((size_t(to) | size_t(from) | bytes) % 4);
  size_t size = words ? 4 : 1, n = bytes / size;
  for (size_t i = group.thread_rank(); i < n; i += group.size())
    if (words)
      cusim_cp_async((char *)to + 4 * i, (const char *)from + 4 * i, 4, 4);
    else
      ((char *)to)[i] = ((const char *)from)[i];
  cusim_cp_async_commit();
}
template <class G> CUSIM_FN void wait(const G &group) {
  cusim_cp_async_wait(0);
  group.sync();
}
template <unsigned N, class G> CUSIM_FN void wait_prior(const G &group) {
  cusim_cp_async_wait(N);
  group.sync();
}

} // namespace cooperative_groups

#endif
