// cusim_abi.h: the interface between a compiled kernel and libcusim. C and C++; included by both.
//
// A kernel image is a shared object. It exports `cusim_image`, the list of its kernels, and calls
// the functions below, which libcusim exports. CUSIM_ABI changes whenever anything here does.
#ifndef CUSIM_ABI_H
#define CUSIM_ABI_H

#define CUSIM_ABI 18

#ifdef __cplusplus
extern "C" {
#endif

typedef struct CusimLocal { // a variable in local memory, of a function that runs
  const struct CusimLocal *before;
  const unsigned char *begin, *end;
} CusimLocal;

// The CUDA thread that runs now, as the built-in variables show it.
typedef struct CusimThread {
  unsigned thread[3], block[3]; // threadIdx, blockIdx
  unsigned block_dim[3], grid_dim[3];
  unsigned linear;     // index in the block, x fastest; lane = linear % 32
  unsigned smem_bytes; // dynamic shared memory; for a kernel from PTX: all
  unsigned smem_static; // of it, the bytes before the dynamic part
  unsigned char *smem; // 1024-aligned
  unsigned cluster_rank, cluster_size; // of the block in its cluster; blocks
  unsigned cluster_dim[3];
  unsigned char *const *peers; // smem of each block of the cluster, by rank
  const unsigned char *stack_end; // end of its stack
  // For a kernel from PTX: number of wgmma.fence, and of groups committed and waited for.
  unsigned product_fences, product_groups, product_done;
  const CusimLocal *locals; // newest first, with checks; for a kernel from PTX
} CusimThread;

// NOTE: the initial-exec model costs one load, the general model a call.
extern __thread CusimThread *cusim_self __attribute__((tls_model("initial-exec")));

// Calls a kernel for the running thread: params[i] points to the value of parameter i.
typedef void (*CusimEntry)(void *const *params);

typedef struct CusimLimits { // 0: not given
  int threads, blocks;       // of __launch_bounds__: most in a block, fewest blocks on an SM
  int registers;             // of __maxnreg__
  unsigned cluster[3];       // of __cluster_dims__
} CusimLimits;

typedef struct CusimKernel {
  const char *name;   // as written: "scale", "ns::scale<float>"; null ends the list
  const void *symbol; // the function, to look its linker name up
  CusimEntry enter;
  CusimEntry loop; // for all threads of the block, one after the other; null: instrumented
  const unsigned *param_sizes;   // bytes, ended by 0
  const unsigned *param_offsets; // in a buffer of all; then the buffer's size
  CusimLimits limits;
  // Of a kernel from PTX:
  int from_ptx;         // its static shared memory is before the dynamic part
  unsigned static_smem; // bytes
  unsigned smem_align;  // of the dynamic part
  int triggers; // it may let the next launch begin: griddepcontrol.launch_dependents
  unsigned local_bytes; // bytes of .local variables, including the deepest calls
} CusimKernel;

typedef struct CusimImage {
  int abi;            // CUSIM_ABI
  int checks;         // how it was instrumented, CusimCheck bits
  int arch;           // 800, 900, 1000: the value of __CUDA_ARCH__
  int registers;      // of -maxrregcount; 0: not given
  const char *cpu;    // the instruction sets it was compiled for
  const CusimKernel *kernels;
} CusimImage;

// Memory accesses are reported through __tsan_*, basic blocks through __sanitizer_cov_trace_pc.
enum CusimCheck { CusimTrace = 1, CusimCount = 2 };

// Floating-point operations by the width of their operands and by kind.
enum CusimWidth { CusimFp32, CusimFp64, CusimFp16, CusimWidths };
enum CusimOp { CusimAdd, CusimMul, CusimFma, CusimSpecial, CusimOps };

// A basic block of an image that was built with CusimCount, and its operations. The image exports
// them as cusim_blocks, unordered, ended by a NULL pc.
typedef struct CusimBlock {
  const void *pc; // return address of the call that announces the block
  unsigned short ops[CusimWidths][CusimOps];
  unsigned char branches; // it ends in a conditional jump
} CusimBlock;

// Instructions of PTX by kind, in the order of KernelCounters.instructions.
enum CusimCountKind {
  CusimCountInteger,
  CusimCountFp32,
  CusimCountFp64,
  CusimCountFp16, // also bf16, and pairs
  CusimCountConvert,
  CusimCountCompare,
  CusimCountMove,
  CusimCountLoad,
  CusimCountStore,
  CusimCountAtomic,
  CusimCountControl,
  CusimCountBarrier,
  CusimCountWarp,
  CusimCountMatrix,
  CusimCountCopy,
  CusimCountOther,
  CusimCountKinds
};

// Instructions of a basic block of PTX. An image that was built from PTX with CusimCount exports
// cusim_counts, and announces its blocks by number.
typedef struct CusimCounts {
  unsigned short kinds[CusimCountKinds];
} CusimCounts;
typedef struct CusimCountTable {
  int blocks;
  const CusimCounts *rows;
} CusimCountTable;
void cusim_count_block(int block);

// ---- meetings of lanes -----------------------------------------------------------------------

// The work of a warp collective. operands[lane] is what that lane passed, NULL for lanes that take
// no part.
typedef void (*CusimWork)(void *const *operands, unsigned mask);

// Each lane of `mask` passes operands; the last one does the work; all return after it. NULL work
// only synchronises. Lanes that have exited count as present, with NULL operands.
void cusim_meet(unsigned mask, CusimWork work, void *operands);

// Reports a shuffle from a lane of the mask that has exited, or does not exist.
void cusim_missing_lane(int reader, int source) __attribute__((noreturn));

// Block barriers. id 0 with threads 0: every live thread of the block.
void cusim_barrier(int id, int threads);
void cusim_barrier_at(int place); // the first kind; place: its number in the source, or 0
void cusim_barrier_arrive(int id, int threads);
// __syncthreads that also counts the threads whose predicate holds.
int cusim_barrier_count(int predicate);
int cusim_barrier_reduce(int id, int threads, int predicate);
void cusim_cluster_arrive(void); // barrier.cluster
void cusim_cluster_wait(void);
void cusim_barrier_named(int id, int threads, int place); // bar.sync; place: as above
void cusim_set_registers(int registers); // of the thread's warp: waits until the block has as many
void cusim_exit(void) __attribute__((noreturn)); // ends the thread, from whatever function
void cusim_launch_dependents(void); // of a kernel in C++: the next launch may begin
void cusim_grid_wait(void); // griddepcontrol.wait: the launch before has ended
int cusim_grid_is_cooperative(void);
void cusim_grid_barrier(void);     // of all blocks of a cooperative launch
void *cusim_grid_workspace(void);  // of NVIDIA's cooperative_groups.h; null: it is not cooperative
unsigned cusim_lanes_here(void);   // the lanes of the warp that arrive together
int cusim_live_threads(void); // threads of the block that have not exited

// Lets other threads run; called where a program may spin.
void cusim_yield(void);

// ---- asynchronous copies and mbarriers -------------------------------------------------------

void cusim_cp_async(void *smem, const void *gmem, int bytes, int source_bytes);
void cusim_cp_async_commit(void);
void cusim_cp_async_wait(int groups); // all but the newest `groups` groups have landed
void cusim_cp_async_mbar_arrive(unsigned long long *bar);

void cusim_mbar_init(unsigned long long *bar, int arrivals);
void cusim_mbar_arrive(unsigned long long *bar, int expect_bytes);
int cusim_mbar_try_wait(unsigned long long *bar, int parity);
void cusim_mbar_wait(unsigned long long *bar, int parity);

// Any number of arrivals, and expected bytes; drop: later phases need that many fewer. Returns the
// state before.
unsigned long long cusim_mbar_arrive_many(unsigned long long *bar, int arrivals, int expect_bytes,
                                          int drop);
void cusim_mbar_expect(unsigned long long *bar, int bytes); // announces, does not arrive
void cusim_mbar_complete(unsigned long long *bar, int bytes);
void cusim_mbar_more(unsigned long long *bar); // this phase needs one arrival more
int cusim_mbar_phase(unsigned long long state);   // of a state, for waits
int cusim_mbar_pending(unsigned long long state); // arrivals that a state lacks

// ---- bulk copies (sm_90): of the asynchronous proxy -------------------------------------------

// The contents of a tensor map, 128 bytes; types and modes are numbered as in tensormap.replace.
typedef struct CusimTensorMap {
  unsigned long long address;
  unsigned long long strides[4]; // bytes, of dimension 1 and up
  unsigned dims[5];
  unsigned short box[5];
  unsigned char steps[5]; // element strides
  unsigned char rank;     // less 1
  unsigned char type, interleave, swizzle, fill;
  unsigned char im2col;
  unsigned short channels, pixels; // of im2col: in a box
  short lower[3], upper[3];        // corners, of the innermost spatial dimension first
  unsigned char rest[4];
} CusimTensorMap;

void cusim_bulk_load(void *smem, const void *gmem, unsigned bytes, unsigned long long *bar);
// reduce: 0 none, add, min, max, inc, dec, and, or, xor; type: as of tensor maps.
void cusim_bulk_reduce(void *smem, const void *from, unsigned bytes, unsigned long long *bar,
                       int reduce, int type);
void cusim_bulk_store(void *gmem, const void *smem, unsigned bytes, int reduce, int type);
void cusim_tensor_load(void *smem, const void *map, const int *at, int rank,
                       unsigned long long *bar, const int *offsets);
void cusim_tensor_store(const void *map, const int *at, int rank, const void *smem, int reduce);
// st.async: done at once, which is as early as a GPU may.
void cusim_store_async(void *smem, const void *values, int bytes, unsigned long long *bar);
void cusim_bulk_commit(void);
void cusim_bulk_wait(int groups, int read);
void cusim_proxy_fence(void); // fence.proxy.async
void cusim_proxy_read(const void *address, int bytes); // announces what a wgmma reads
void cusim_product_waited(void); // announces wgmma.wait_group of a kernel from PTX
void cusim_no_rank(unsigned rank) __attribute__((noreturn)); // no such block in the cluster
void cusim_early_read(void) __attribute__((noreturn)); // of an accumulator, before its wait
void cusim_no_fence(void) __attribute__((noreturn)); // wgmma.fence, before a product

// Scratch memory of the OS thread for the work of a collective, 64-aligned.
void *cusim_scratch(unsigned long long bytes);

// All 128 threads of a warp group bring operands, the last one does the work.
void cusim_meet_group(CusimWork work, void *operands);
// Deferred until the threads wait for the wgmma group: as late as on a GPU.
void cusim_product_async(CusimWork work, const void *operands, int bytes);
void cusim_product_commit(void);
void cusim_product_wait(int groups); // all but the newest `groups` groups are complete

// ---- faults, counters, host services -----------------------------------------------------------

void cusim_misaligned(const void *address, int alignment) __attribute__((noreturn));
void cusim_trap(void) __attribute__((noreturn));
int cusim_printf(const char *format, ...) __attribute__((format(printf, 1, 2)));
void cusim_assert_fail(const char *condition, const char *file, int line, const char *function)
    __attribute__((noreturn));
int cusim_vprintf(const char *format, const unsigned char *values); // each at its own alignment
void *cusim_malloc(unsigned long long bytes);
void cusim_free(void *p);
long long cusim_clock(void);     // a cycle counter
long long cusim_nanotime(void);
int cusim_multiprocessors(void); // of the device

// Announces an access of the running thread that is made on its behalf, outside instrumentation.
void cusim_access(const void *address, int bytes, int writes);

// For other accesses than copies: how is a combination of CusimAccess bits.
enum CusimAccess { CusimWrites = 1, CusimVolatile = 2, CusimAtomic = 4, CusimCompares = 8 };
void cusim_watch(const void *address, int bytes, int how);

void cusim_watch_local(const void *address, int bytes, int writes); // of local memory

// With the copy: a vector access as one, which instrumentation would split.
void cusim_load(void *to, const void *from, int bytes);
void cusim_store(void *to, const void *from, int bytes);

// Adds floating-point operations of one kind to the running kernel's count.
enum CusimFlops { CusimFlopsMma16, CusimFlopsMmaTf32, CusimFlopsMma8, CusimFlopsKinds };
void cusim_count_flops(int kind, long long flops);
void cusim_count_op(int width, int op, long long count); // operations not instrumented

#ifdef __cplusplus
}
#endif
#endif
