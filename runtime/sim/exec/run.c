// run.c: runs the blocks of a launch on all cores.
//
// The calling thread and a pool of helpers claim blocks from a counter. With a seed the
// order of blocks is a random permutation, so that nothing may rely on it.
#include "sim/exec/exec.h"

#include <fenv.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { kRedZone = 1 << 20, kSmemAlignment = 1024 };

__extension__ typedef struct TlsIndex { size_t module, offset; } TlsIndex;
extern void *__tls_get_addr(TlsIndex *index);

// ---- workers ------------------------------------------------------------------------------------

static size_t smem_room(void) {
  return ((size_t)sim_device()->smem_optin + 65535) & ~(size_t)65535;
}

// Dynamic shared memory between two guard pages; it ends at the upper one if smem is a multiple of
// 1024, else up to 1023 bytes before it.
static unsigned char *map_smem(void) {
  size_t bytes = smem_room();
  unsigned char *map =
      mmap(NULL, bytes + 2 * kRedZone, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (map == MAP_FAILED) return NULL;
  mprotect(map, kRedZone, PROT_NONE);
  mprotect(map + kRedZone + bytes, kRedZone, PROT_NONE);
  return map + kRedZone + bytes; // its end
}

// By rank in a cluster; null: not mapped yet.
static __thread unsigned char *smem_ends[kMostCluster];

static void free_worker(void *data) { // when its thread exits
  Worker *worker = data;
  for (int i = 0; i < worker->nfibers; i++) fiber_free(worker->fibers[i]);
  free(worker->fibers);
  free(worker->scratch);
  watchdog_close(worker);
  fault_thread_end(worker);
  for (int r = 0; r < kMostCluster && smem_ends[r]; r++)
    munmap(smem_ends[r] - smem_room() - kRedZone, smem_room() + 2 * kRedZone);
  for (int r = 1; r < kMostCluster; r++) free(worker->cluster.blocks[r]);
  free(worker);
  sim_worker = NULL;
}

static pthread_key_t worker_key;

static void make_key(void) {
  pthread_key_create(&worker_key, free_worker);
}

static Worker *worker_here(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  if (sim_worker) return sim_worker;
  Worker *worker = aligned_alloc(64, (sizeof *worker + 63) & ~(size_t)63);
  if (!worker) return NULL;
  memset(worker, 0, sizeof *worker);
  smem_ends[0] = map_smem();
  if (!smem_ends[0]) return free(worker), NULL;
  worker->cluster.blocks[0] = &worker->block;
  fault_thread(worker);
  pthread_once(&once, make_key);
  pthread_setspecific(worker_key, worker);
  return sim_worker = worker;
}

static unsigned smem_bytes(const Launch *launch) {
  return launch->smem_static + launch->smem;
}

// Room for as many blocks as a cluster has; false: no memory.
static bool make_blocks(Worker *worker, const Launch *launch) {
  Cluster *c = &worker->cluster;
  c->size = (int)(launch->total / launch->units);
  for (int r = 1; r < c->size; r++) {
    if (!c->blocks[r]) c->blocks[r] = calloc(1, sizeof *c->blocks[r]);
    if (!smem_ends[r]) smem_ends[r] = map_smem();
    if (!c->blocks[r] || !smem_ends[r]) return false;
  }
  return true;
}

static void place_smem(Worker *worker, const Launch *launch) {
  const struct CUmod_st *module = launch->function->module;
  size_t rounded =
      ((size_t)smem_bytes(launch) + kSmemAlignment - 1) & ~(size_t)(kSmemAlignment - 1);
  for (int r = 0; r < worker->cluster.size; r++) worker->cluster.smem[r] = smem_ends[r] - rounded;
  worker->tls_bytes = module->tls_bytes;
  TlsIndex index = {module->tls_module, 0};
  worker->tls_shared = module->tls_bytes ? __tls_get_addr(&index) : NULL;
}

// The beginning of the area before dynamic shared memory: one alignment, or down to the guard.
static unsigned char *smem_low(const Worker *worker, int rank) {
  unsigned char *begin = smem_ends[rank] - smem_room(), *smem = worker->cluster.smem[rank];
  return smem - begin < kSmemAlignment ? begin : smem - kSmemAlignment;
}

static void poison(Worker *worker, const Launch *launch) {
  if (!sim_settings()->basic) return;
  for (int r = 0; r < worker->cluster.size && smem_bytes(launch); r++) {
    unsigned char *low = smem_low(worker, r);
    memset(low, kPoisonByte, (size_t)(smem_ends[r] - low));
  }
  if (worker->tls_bytes) memset(worker->tls_shared, kPoisonByte, worker->tls_bytes + kTlsGuard);
}

static bool is_poison(const unsigned char *from, const unsigned char *end) {
  while (from < end && *from == kPoisonByte) from++;
  return from == end;
}

// No page right next to shared memory can be guarded: its bytes are checked afterwards.
static void check_guards(const Worker *worker, const Launch *launch) {
  if (!sim_settings()->basic) return;
  const unsigned char *guard = worker->tls_shared + worker->tls_bytes;
  if (worker->tls_bytes && !is_poison(guard, guard + kTlsGuard))
    fault_shared(&worker->block, "past the end of static", worker->tls_bytes);
  for (int r = 0; r < worker->cluster.size && smem_bytes(launch); r++) {
    const unsigned char *smem = worker->cluster.smem[r];
    if (!is_poison(smem + smem_bytes(launch), smem_ends[r]))
      fault_shared(worker->cluster.blocks[r], "past the end of dynamic", smem_bytes(launch));
    if (!is_poison(smem_low(worker, r), smem))
      fault_shared(worker->cluster.blocks[r], "before the beginning of dynamic",
                   smem_bytes(launch));
  }
}

static bool next_in_order(Launch *launch, unsigned long *index) {
  unsigned long i;
  while ((i = atomic_fetch_add(&launch->next, 1)) < launch->units) {
    *index = (i * launch->order_mul + launch->order_add) % launch->units;
    if (lower_claim(launch, *index)) return true;
  }
  return false;
}

static void run_clusters(Launch *launch, bool (*next)(Launch *, unsigned long *)) {
  Worker *worker = worker_here();
  if (!worker || !make_blocks(worker, launch)) {
    int none = 0;
    atomic_compare_exchange_strong(&launch->error, &none, CUDA_ERROR_OUT_OF_MEMORY);
    return;
  }
  fenv_t host; // kernels round to nearest and trap nothing, independent of the program's settings
  fegetenv(&host);
  fesetenv(FE_DFL_ENV);
  place_smem(worker, launch);
  watchdog_start(worker);
  unsigned long i;
  while (!atomic_load_explicit(&launch->error, memory_order_relaxed) &&
         next(launch, &i)) {
    poison(worker, launch);
    cluster_run(worker, launch, i);
    check_guards(worker, launch);
  }
  watchdog_stop(worker);
  fesetenv(&host);
}

static void run_blocks(Launch *launch) {
  run_clusters(launch, next_in_order);
}

void launch_run_lower(Launch *launch) {
  lower_begin(launch);
  run_clusters(launch, lower_next);
}

// ---- the pool -----------------------------------------------------------------------------------

static struct {
  pthread_mutex_t lock;
  pthread_cond_t work, done;
  Launch *launch;
  int helpers, wanted, busy;
  unsigned long serial; // of the launch; a helper takes part in each at most once
} pool = {.lock = PTHREAD_MUTEX_INITIALIZER,
          .work = PTHREAD_COND_INITIALIZER,
          .done = PTHREAD_COND_INITIALIZER};

// The blocks of a cooperative launch start together: one that spins for the others occupies a
// processor, and starting them one by one through the pool's lock would take a time slice each.
static struct {
  sem_t open;
  atomic_int arrived;
} gate;

static void gate_pass(const Launch *launch) {
  int all = (int)launch->units;
  if (!launch->cooperative || all == 1) return;
  if (atomic_fetch_add(&gate.arrived, 1) + 1 == all)
    for (int i = 1; i < all; i++) sem_post(&gate.open);
  else
    while (sem_wait(&gate.open) != 0) {} // interrupted
}

static void gate_close(void) {
  sem_init(&gate.open, 0, 0);
  atomic_store(&gate.arrived, 0);
}

static void *helper(void *unused) {
  (void)unused;
  unsigned long seen = 0;
  pthread_mutex_lock(&pool.lock);
  for (;;) {
    while (!pool.launch || pool.wanted == 0 || pool.serial == seen)
      pthread_cond_wait(&pool.work, &pool.lock);
    Launch *launch = pool.launch;
    seen = pool.serial;
    pool.wanted--;
    pool.busy++;
    pthread_mutex_unlock(&pool.lock);
    gate_pass(launch);
    run_blocks(launch);
    pthread_mutex_lock(&pool.lock);
    if (--pool.busy == 0) pthread_cond_signal(&pool.done);
  }
  return NULL;
}

static bool ensure_helpers(int count) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_t thread;
  while (pool.helpers < count && pthread_create(&thread, &attributes, helper, NULL) == 0)
    pool.helpers++;
  pthread_attr_destroy(&attributes);
  return pool.helpers >= count;
}

// The blocks of a cooperative launch wait for each other, so each gets its own OS thread. False:
// there are not enough.
static bool invite_helpers(Launch *launch) {
  unsigned long most = sim_settings()->race ? 1 : (unsigned long)sim_settings()->threads;
  if (launch->cooperative) most = launch->units;
  int wanted = (int)(launch->units < most ? launch->units : most) - 1;
  if (wanted <= 0) return true;
  pthread_mutex_lock(&pool.lock);
  bool enough = ensure_helpers(wanted);
  if (enough || !launch->cooperative) {
    gate_close();
    pool.launch = launch;
    pool.wanted = wanted;
    pool.serial++;
    pthread_cond_broadcast(&pool.work);
  }
  pthread_mutex_unlock(&pool.lock);
  return enough || !launch->cooperative;
}

static void await_helpers(void) {
  pthread_mutex_lock(&pool.lock);
  pool.launch = NULL;
  while (pool.busy) pthread_cond_wait(&pool.done, &pool.lock);
  pthread_mutex_unlock(&pool.lock);
}

static unsigned long gcd(unsigned long a, unsigned long b) {
  return b ? gcd(b, a % b) : a;
}

static void choose_order(Launch *launch) {
  uint64_t seed = sim_settings()->seed * 0x9e3779b97f4a7c15ull;
  launch->order_add = 0;
  launch->order_mul = 1;
  if (!seed || launch->units < 2 || launch->units > 0xffffffff) return;
  launch->order_add = (seed >> 33) % launch->units;
  unsigned long mul = (seed >> 11) % launch->units | 1;
  while (gcd(mul, launch->units) != 1) mul++;
  launch->order_mul = mul;
}

// Threads that cannot wait for each other need no fibers, unless their order is to be random.
static bool can_loop(const Launch *launch) {
  const struct CUfunc_st *function = launch->function;
  return function->kernel->loop && !function->module->waits && !sim_settings()->seed &&
         launch->units == launch->total;
}

static void reset(Launch *launch) {
  atomic_store(&launch->next, 0);
  atomic_store(&launch->error, 0);
  atomic_store(&launch->grid_arrived, 0);
  memset(&launch->workspace, 0, sizeof launch->workspace);
  launch->workspace.bytes = sizeof launch->workspace;
  launch->loops = can_loop(launch);
  choose_order(launch);
  lower_make(launch);
}

static CUresult count(Launch *launch) {
  lower_end(launch);
  launch->function->counters->launches++;
  launch->function->counters->loops += launch->loops;
  return (CUresult)atomic_load(&launch->error);
}

// ---- launches that begin early ------------------------------------------------------------------

static void *run_alone(void *launch) {
  run_blocks(launch);
  return NULL;
}

// Runs the launch that this one allowed to start early, on another OS thread: this one's blocks
// stay where they are. The race check treats both as one launch.
static void run_before(Launch *launch) {
  static pthread_mutex_t once = PTHREAD_MUTEX_INITIALIZER;
  pthread_mutex_lock(&once);
  Launch *before = launch->before;
  launch->before = NULL;
  if (before) {
    pthread_t thread;
    reset(before);
    if (pthread_create(&thread, NULL, run_alone, before) == 0)
      pthread_join(thread, NULL);
    else
      atomic_store(&before->error, CUDA_ERROR_OUT_OF_MEMORY);
    int none = 0;
    if (count(before) != CUDA_SUCCESS)
      atomic_compare_exchange_strong(&launch->error, &none, atomic_load(&before->error));
  }
  pthread_mutex_unlock(&once);
}

// NOTE: no effect: that an image imports this is what counts (module->triggers).
void cusim_launch_dependents(void) {
}

void cusim_grid_wait(void) {
  Fiber *fiber = fiber_running();
  trace_leave(fiber);
  run_before(fiber->block->launch);
  if (atomic_load(&fiber->block->launch->error)) block_abandon();
  trace_grid(fiber->block);
}

CUresult launch_run(Launch *launch) {
  fault_install(block_abandon);
  watchdog_install();
  reset(launch);
  trace_launch();
  record_launch();
  if (!invite_helpers(launch)) return CUDA_ERROR_OUT_OF_MEMORY;
  gate_pass(launch);
  run_blocks(launch);
  await_helpers();
  if (launch->before) run_before(launch); // nothing waited for it
  trace_launch_end(launch);
  record_launch_end(launch);
  return count(launch);
}
