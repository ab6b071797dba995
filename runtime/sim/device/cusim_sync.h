// cusim_sync.h: barriers, fences, and warp exchanges, which are all one mechanism: each lane of the
// mask passes an operand, the last to arrive computes every lane's result.
#ifndef CUSIM_SYNC_H
#define CUSIM_SYNC_H

// rewrite.c numbers the places of calls.
CUSIM_FN void __syncthreads(int place = 0) { cusim_barrier_at(place); }
CUSIM_FN int __syncthreads_count(int p) { return cusim_barrier_count(p); }
CUSIM_FN int __syncthreads_or(int p) { return cusim_barrier_count(p) != 0; }
CUSIM_FN int __syncthreads_and(int p) { return !cusim_barrier_count(!p); }
CUSIM_FN void __syncwarp(unsigned mask = 0xffffffffu) { cusim_meet(mask, 0, 0); }
CUSIM_FN void __threadfence_block() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
CUSIM_FN void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
CUSIM_FN void __threadfence_system() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }

namespace cusim {

CUSIM_FN int lane() { return int(cusim_self->linear % 32); }

// f(lane) for each lane of the mask, from the lowest.
#define CUSIM_LANES(lane, mask)                                                                    \
  for (unsigned rest_ = (mask), lane = 0; rest_ && (lane = unsigned(__builtin_ctz(rest_)), true);  \
       rest_ &= rest_ - 1)

template <class T> struct Shuffle {
  T value, result;
  int source; // lane
  unsigned named; // the mask as passed; includes lanes that have exited
};

// Lanes that take no part have no value: their readers get a NaN pattern; traced, a report if the
// mask names them although they have exited or do not exist.
template <class T> void shuffle_work(void *const *operands, unsigned mask) {
  CUSIM_LANES(l, mask) {
    Shuffle<T> *mine = static_cast<Shuffle<T> *>(operands[l]);
    if (mask >> mine->source & 1)
      mine->result = static_cast<Shuffle<T> *>(operands[mine->source])->value;
    else if (CUSIM_TRACE && mine->named >> mine->source & 1)
      cusim_missing_lane(int(l), mine->source);
    else
      __builtin_memset(&mine->result, 0xff, sizeof(T));
  }
}

template <class T> CUSIM_FN T shuffle(unsigned mask, T value, int source) {
  static_assert(sizeof(T) == 1 || sizeof(T) == 2 || sizeof(T) == 4 || sizeof(T) == 8,
                "shuffles move up to 8 bytes");
  Shuffle<T> s{value, value, source, mask};
  cusim_meet(mask, shuffle_work<T>, &s);
  return s.result;
}

// Lane `to` if it is in the same segment of `width` lanes, else the calling lane.
CUSIM_FN int in_segment(int to, int width) {
  int me = lane();
  return to >= 0 && to / width == me / width ? to : me;
}

struct Vote {
  unsigned value; // in: this lane's; out: the result
};

template <class F> auto vote_work(void *const *operands, unsigned mask) {
  F f;
  unsigned result = F::start;
  CUSIM_LANES(l, mask) result = f(result, l, static_cast<Vote *>(operands[l])->value);
  CUSIM_LANES(l, mask) static_cast<Vote *>(operands[l])->value = result;
}

template <class F> CUSIM_FN auto vote(unsigned mask, unsigned value) {
  Vote v{value};
  cusim_meet(mask, vote_work<F>, &v);
  return v.value;
}

#define CUSIM_VOTE(name, first, expression)                                                        \
  struct name {                                                                                    \
    static constexpr unsigned start = first;                                                       \
    unsigned operator()(unsigned a, unsigned lane, unsigned b) const {                             \
      (void)lane;                                                                                  \
      return expression;                                                                           \
    }                                                                                              \
  };
CUSIM_VOTE(Ballot, 0, a | (b ? 1u << lane : 0u))
CUSIM_VOTE(Add, 0, a + b)
CUSIM_VOTE(And, ~0u, a & b)
CUSIM_VOTE(Or, 0, a | b)
CUSIM_VOTE(Xor, 0, a ^ b)
CUSIM_VOTE(Seen, 0, a | (b ? 1u : 2u))
CUSIM_VOTE(MinU, ~0u, a < b ? a : b)
CUSIM_VOTE(MaxU, 0, a > b ? a : b)
CUSIM_VOTE(MinI, 0x7fffffffu, int(a) < int(b) ? a : b)
CUSIM_VOTE(MaxI, 0x80000000u, int(a) > int(b) ? a : b)
#undef CUSIM_VOTE

template <class T> struct Match {
  T value;
  unsigned result;
};
template <class T> void match_work(void *const *operands, unsigned mask) {
  CUSIM_LANES(l, mask) {
    Match<T> *mine = static_cast<Match<T> *>(operands[l]);
    mine->result = 0;
    CUSIM_LANES(o, mask)
    if (!__builtin_memcmp(&static_cast<Match<T> *>(operands[o])->value, &mine->value, sizeof(T)))
      mine->result |= 1u << o;
  }
}

} // namespace cusim

// Distances and lane masks are taken modulo 32.
template <class T> CUSIM_FN T __shfl_sync(unsigned mask, T v, int from, int width = 32) {
  return cusim::shuffle(mask, v, (cusim::lane() & ~(width - 1)) | (from & (width - 1)));
}
template <class T> CUSIM_FN T __shfl_xor_sync(unsigned mask, T v, int bits, int width = 32) {
  int to = cusim::lane() ^ (bits & 31);
  return cusim::shuffle(mask, v, to / width <= cusim::lane() / width ? to : cusim::lane());
}
template <class T> CUSIM_FN T __shfl_up_sync(unsigned mask, T v, unsigned delta, int width = 32) {
  return cusim::shuffle(mask, v, cusim::in_segment(cusim::lane() - int(delta & 31), width));
}
template <class T> CUSIM_FN T __shfl_down_sync(unsigned mask, T v, unsigned delta, int width = 32) {
  return cusim::shuffle(mask, v, cusim::in_segment(cusim::lane() + int(delta & 31), width));
}
CUSIM_FN unsigned __ballot_sync(unsigned mask, int p) {
  return cusim::vote<cusim::Ballot>(mask, p != 0);
}
CUSIM_FN int __any_sync(unsigned mask, int p) { return cusim::vote<cusim::Or>(mask, p != 0) != 0; }
CUSIM_FN int __all_sync(unsigned mask, int p) { return cusim::vote<cusim::And>(mask, p != 0) != 0; }
CUSIM_FN int __uni_sync(unsigned mask, int p) {
  return cusim::vote<cusim::Seen>(mask, p != 0) != 3;
}
#define CUSIM_REDUCE(T, name, F)                                                                   \
  CUSIM_FN T __reduce_##name##_sync(unsigned mask, T v) {                                          \
    return T(cusim::vote<cusim::F>(mask, unsigned(v)));                                            \
  }
CUSIM_REDUCE(unsigned, add, Add)
CUSIM_REDUCE(int, add, Add)
CUSIM_REDUCE(unsigned, min, MinU)
CUSIM_REDUCE(int, min, MinI)
CUSIM_REDUCE(unsigned, max, MaxU)
CUSIM_REDUCE(int, max, MaxI)
CUSIM_REDUCE(unsigned, and, And)
CUSIM_REDUCE(unsigned, or, Or)
CUSIM_REDUCE(unsigned, xor, Xor)
#undef CUSIM_REDUCE
template <class T> CUSIM_FN unsigned __match_any_sync(unsigned mask, T value) {
  cusim::Match<T> m{value, 0};
  cusim_meet(mask, cusim::match_work<T>, &m);
  return m.result;
}
template <class T> CUSIM_FN unsigned __match_all_sync(unsigned mask, T value, int *all) {
  unsigned same = __match_any_sync(mask, value);
  *all = same == mask;
  return *all ? mask : 0;
}
// NOTE: lanes do not run in lockstep here; the active lanes are those that arrive before the warp's
// others cannot continue.
CUSIM_FN unsigned __activemask() { return cusim_lanes_here(); }

#endif
