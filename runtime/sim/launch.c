// launch.c: checks a launch, and runs its blocks on all cores.
//
// The calling thread and a pool of helpers take block after block from a counter. With a seed the
// order of blocks is a random permutation, so that nothing may rely on it.
#include "sim/work.h"

#include <fenv.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { kRedZone = 1 << 20, kSmemAlignment = 1024 };

__extension__ typedef struct TlsIndex { size_t module, offset; } TlsIndex;
extern void *__tls_get_addr(TlsIndex *index);

// ---- checks -------------------------------------------------------------------------------------

static CUresult check_shape(CUfunction function, const unsigned grid[3], const unsigned block[3]) {
  const unsigned grid_most[3] = {0x7fffffff, 65535, 65535}, block_most[3] = {1024, 1024, 64};
  const char *name = function->name;
  bool grid_fits = true, block_fits = true;
  for (int i = 0; i < 3; i++) {
    grid_fits &= grid[i] && grid[i] <= grid_most[i];
    block_fits &= block[i] && block[i] <= block_most[i];
  }
  unsigned long threads = (unsigned long)block[0] * block[1] * block[2];
  int bound = function->kernel->limits.threads, most = function_threads(function);
  if (!grid_fits)
    return sim_refuse(CUDA_ERROR_INVALID_VALUE,
                      "kernel %s: a grid of (%u,%u,%u) blocks is none from (1,1,1) to (%u,%u,%u)",
                      name, grid[0], grid[1], grid[2], grid_most[0], grid_most[1], grid_most[2]);
  if (!block_fits || threads > kMaxThreads)
    return sim_refuse(CUDA_ERROR_INVALID_VALUE,
                      "kernel %s: a block of (%u,%u,%u) threads is none from (1,1,1) to "
                      "(%u,%u,%u), of %d at most",
                      name, block[0], block[1], block[2], block_most[0], block_most[1],
                      block_most[2], kMaxThreads);
  if (bound > 0 && threads > (unsigned long)bound)
    return sim_refuse(CUDA_ERROR_INVALID_VALUE,
                      "kernel %s: a block of %lu threads is above its launch bounds, %d", name,
                      threads, bound);
  if ((int)threads > most)
    return sim_refuse(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES,
                      "kernel %s: there are registers for %d threads of a block, not for %lu",
                      name, most, threads);
  return CUDA_SUCCESS;
}

static CUresult check_smem(CUfunction function, unsigned smem) {
  size_t fixed = function->static_smem;
  size_t most = function->max_dynamic_smem ? (size_t)function->max_dynamic_smem
                                           : (size_t)sim_device()->smem_default - fixed;
  if (fixed > (size_t)sim_device()->smem_default)
    return sim_refuse(CUDA_ERROR_INVALID_VALUE,
                      "kernel %s: %zu bytes of static shared memory are more than %d",
                      function->name, fixed, sim_device()->smem_default);
  if (smem > most)
    return sim_refuse(CUDA_ERROR_INVALID_VALUE,
                      "kernel %s: %u bytes of dynamic shared memory are more than %zu, which "
                      "cuFuncSetAttribute(MAX_DYNAMIC_SHARED_SIZE_BYTES) raises to %d",
                      function->name, smem, most, sim_device()->smem_optin - (int)fixed);
  return CUDA_SUCCESS;
}

// The buffer of all parameters that `extra` names, and its size; false: it is not a list of these.
static bool read_extra(void **extra, const char **buffer, size_t *bytes) {
  bool sized = false;
  *buffer = NULL;
  for (; *extra != CU_LAUNCH_PARAM_END; extra += 2) {
    if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER)
      *buffer = extra[1];
    else if (*extra == CU_LAUNCH_PARAM_BUFFER_SIZE && (sized = extra[1]))
      *bytes = *(const size_t *)extra[1];
    else
      return false;
  }
  return *buffer && sized;
}

// NOTE: the size is that of the parameters, without the padding behind the last one that a struct
// of them has: a driver refuses the latter, too (llvm-project, pull request 172249). cuda.h calls
// arguments "of the wrong size" equivalent to too many; so a smaller buffer is answered alike.
static CUresult find_params(const Launch *launch, void **params, void **extra,
                            const char **buffer) {
  int count = launch->function->param_count;
  size_t bytes = 0;
  *buffer = NULL;
  if (!extra && count && !params)
    return sim_refuse(CUDA_ERROR_INVALID_VALUE, "kernel %s: it has %d parameters, none is given",
                      launch->function->name, count);
  if (!extra) return CUDA_SUCCESS;
  if (params || !read_extra(extra, buffer, &bytes)) return CUDA_ERROR_INVALID_VALUE;
  return bytes == launch->function->kernel->param_offsets[count]
             ? CUDA_SUCCESS
             : CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
}

// Copies the parameters' values: pointers first, the bytes behind them, each 16-aligned.
static CUresult take_params(Launch *launch, void **params, void **extra) {
  const CusimKernel *kernel = launch->function->kernel;
  const char *buffer;
  CUresult r = find_params(launch, params, extra, &buffer);
  if (r != CUDA_SUCCESS) return r;
  int count = launch->function->param_count;
  size_t bytes = (size_t)count * sizeof(void *) + 16;
  for (int i = 0; i < count; i++) bytes += (kernel->param_sizes[i] + 15) & ~15u;
  launch->params = aligned_alloc(16, (bytes + 15) & ~(size_t)15);
  if (!launch->params) return CUDA_ERROR_OUT_OF_MEMORY;
  launch->params_bytes = bytes;
  char *at = (char *)launch->params + (((size_t)count * sizeof(void *) + 15) & ~(size_t)15);
  for (int i = 0; i < count; i++) {
    const void *from = buffer ? buffer + kernel->param_offsets[i] : params[i];
    if (!from) {
      free(launch->params);
      launch->params = NULL;
      return CUDA_ERROR_INVALID_VALUE;
    }
    launch->params[i] = memcpy(at, from, kernel->param_sizes[i]);
    at += (kernel->param_sizes[i] + 15) & ~15u;
  }
  return CUDA_SUCCESS;
}

CUresult launch_make(Launch *launch, CUfunction function, const unsigned grid[3],
                     const unsigned block[3], unsigned smem, void **params, void **extra) {
  if (!module_owns(function)) return CUDA_ERROR_INVALID_HANDLE;
  *launch = (Launch){.function = function, .smem = smem};
  CUresult r = check_shape(function, grid, block);
  if (r == CUDA_SUCCESS) r = check_smem(function, smem);
  if (r != CUDA_SUCCESS) return r;
  memcpy(launch->grid, grid, sizeof launch->grid);
  memcpy(launch->block, block, sizeof launch->block);
  launch->total = (unsigned long)grid[0] * grid[1] * grid[2];
  return take_params(launch, params, extra);
}

void launch_free(Launch *launch) {
  free(launch->params);
  launch->params = NULL;
  names_release(launch->names);
  launch->names = NULL;
}

Launch *launch_copy(const Launch *from) {
  Launch *to = malloc(sizeof *to);
  if (!to) return NULL;
  memcpy(to, from, sizeof *to);
  if (take_params(to, from->params, NULL) != CUDA_SUCCESS) return free(to), NULL;
  names_keep(to->names);
  return to;
}

// ---- workers ------------------------------------------------------------------------------------

static size_t smem_room(void) {
  return ((size_t)sim_device()->smem_optin + 65535) & ~(size_t)65535;
}

// Dynamic shared memory between two guards; its end lies at the upper one when smem is a
// multiple of 1024, else up to 1023 bytes before it.
static unsigned char *map_smem(void) {
  size_t bytes = smem_room();
  unsigned char *map =
      mmap(NULL, bytes + 2 * kRedZone, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (map == MAP_FAILED) return NULL;
  mprotect(map, kRedZone, PROT_NONE);
  mprotect(map + kRedZone + bytes, kRedZone, PROT_NONE);
  return map + kRedZone + bytes; // its end
}

static __thread unsigned char *smem_end;

static void free_worker(void *data) { // when its thread exits
  Worker *worker = data;
  for (int i = 0; i < worker->nfibers; i++) fiber_free(worker->fibers[i]);
  free(worker->fibers);
  watchdog_close(worker);
  fault_thread_end(worker);
  munmap(smem_end - smem_room() - kRedZone, smem_room() + 2 * kRedZone);
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
  smem_end = map_smem();
  if (!smem_end) return free(worker), NULL;
  fault_thread(worker);
  pthread_once(&once, make_key);
  pthread_setspecific(worker_key, worker);
  return sim_worker = worker;
}

static void place_smem(Worker *worker, const Launch *launch) {
  const struct CUmod_st *module = launch->function->module;
  size_t rounded = ((size_t)launch->smem + kSmemAlignment - 1) & ~(size_t)(kSmemAlignment - 1);
  worker->smem = smem_end - rounded;
  worker->tls_bytes = module->tls_bytes;
  TlsIndex index = {module->tls_module, 0};
  worker->tls_shared = module->tls_bytes ? __tls_get_addr(&index) : NULL;
}

// What lies before dynamic shared memory: as much as one alignment, or up to the guard.
static unsigned char *smem_low(const Worker *worker) {
  unsigned char *begin = smem_end - smem_room();
  return worker->smem - begin < kSmemAlignment ? begin : worker->smem - kSmemAlignment;
}

static void poison(Worker *worker, const Launch *launch) {
  if (!sim_settings()->basic) return;
  if (launch->smem) memset(smem_low(worker), kPoisonByte, (size_t)(smem_end - smem_low(worker)));
  if (worker->tls_bytes) memset(worker->tls_shared, kPoisonByte, worker->tls_bytes + kTlsGuard);
}

static bool is_poison(const unsigned char *from, const unsigned char *end) {
  while (from < end && *from == kPoisonByte) from++;
  return from == end;
}

// Right beside shared memory no page can be guarded: what stands there is looked at afterwards.
static void check_guards(const Worker *worker, const Launch *launch) {
  if (!sim_settings()->basic) return;
  const unsigned char *guard = worker->tls_shared + worker->tls_bytes;
  if (worker->tls_bytes && !is_poison(guard, guard + kTlsGuard))
    fault_shared(worker, "past the end of static", worker->tls_bytes);
  if (!launch->smem) return;
  if (!is_poison(worker->smem + launch->smem, smem_end))
    fault_shared(worker, "past the end of dynamic", launch->smem);
  if (!is_poison(smem_low(worker), worker->smem))
    fault_shared(worker, "before the beginning of dynamic", launch->smem);
}

static void run_blocks(Launch *launch) {
  Worker *worker = worker_here();
  if (!worker) {
    int none = 0;
    atomic_compare_exchange_strong(&launch->error, &none, CUDA_ERROR_OUT_OF_MEMORY);
    return;
  }
  fenv_t host; // kernels round to nearest and trap nothing, whatever the program has set
  fegetenv(&host);
  fesetenv(FE_DFL_ENV);
  place_smem(worker, launch);
  watchdog_start(worker);
  unsigned long i;
  while (!atomic_load_explicit(&launch->error, memory_order_relaxed) &&
         (i = atomic_fetch_add(&launch->next, 1)) < launch->total) {
    poison(worker, launch);
    block_run(worker, launch, (i * launch->order_mul + launch->order_add) % launch->total);
    check_guards(worker, launch);
  }
  watchdog_stop(worker);
  fesetenv(&host);
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

// The blocks of a cooperative launch wait for each other, so each gets an OS thread of its own.
// False: there are not enough.
static bool invite_helpers(Launch *launch) {
  unsigned long most = sim_settings()->race ? 1 : (unsigned long)sim_settings()->threads;
  if (launch->cooperative) most = launch->total;
  int wanted = (int)(launch->total < most ? launch->total : most) - 1;
  if (wanted <= 0) return true;
  pthread_mutex_lock(&pool.lock);
  bool enough = ensure_helpers(wanted);
  if (enough || !launch->cooperative) {
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
  if (!seed || launch->total < 2 || launch->total > 0xffffffff) return;
  launch->order_add = (seed >> 33) % launch->total;
  unsigned long mul = (seed >> 11) % launch->total | 1;
  while (gcd(mul, launch->total) != 1) mul++;
  launch->order_mul = mul;
}

// Threads that cannot wait for each other need no fibers, unless their order is to be random.
static bool can_loop(const Launch *launch) {
  const struct CUfunc_st *function = launch->function;
  return function->kernel->loop && !function->module->waits && !sim_settings()->seed;
}

CUresult launch_run(Launch *launch) {
  fault_install();
  watchdog_install();
  atomic_store(&launch->next, 0);
  atomic_store(&launch->error, 0);
  launch->loops = can_loop(launch);
  choose_order(launch);
  trace_launch();
  if (!invite_helpers(launch)) return CUDA_ERROR_OUT_OF_MEMORY;
  run_blocks(launch);
  await_helpers();
  trace_launch_end(launch);
  launch->function->counters->launches++;
  launch->function->counters->loops += launch->loops;
  return (CUresult)atomic_load(&launch->error);
}

// ---- the API ------------------------------------------------------------------------------------

// All blocks of a cooperative launch must be on the device at once.
static bool fits_at_once(const Launch *launch) {
  const unsigned *block = launch->block;
  int threads = (int)(block[0] * block[1] * block[2]);
  int blocks = function_blocks_per_sm(launch->function, threads, launch->smem);
  return launch->total <= (unsigned long)blocks * (unsigned long)sim_device()->multiprocessors;
}

static CUresult submit(CUfunction function, const unsigned grid[3], const unsigned block[3],
                       unsigned smem, bool cooperative, CUstream stream, void **params,
                       void **extra) {
  CUresult r = sim_context_check();
  Launch *launch = r == CUDA_SUCCESS ? calloc(1, sizeof *launch) : NULL;
  struct LaunchNames *names = names_take();
  if (r == CUDA_SUCCESS && !launch) r = CUDA_ERROR_OUT_OF_MEMORY;
  if (r != CUDA_SUCCESS) return names_release(names), r;
  pthread_mutex_lock(&sim_lock);
  r = launch_make(launch, function, grid, block, smem, params, extra);
  launch->names = names;
  if (r == CUDA_SUCCESS && cooperative && !fits_at_once(launch))
    r = sim_refuse(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE,
                   "kernel %s: %lu blocks are not on the device at once", function->name,
                   launch->total);
  if (r != CUDA_SUCCESS) {
    launch_free(launch);
    free(launch);
  } else {
    launch->cooperative = cooperative;
    Work work = {WorkKernel, .launch = launch};
    r = stream_submit(stream, &work);
  }
  pthread_mutex_unlock(&sim_lock);
  return r;
}

CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                        unsigned block_x, unsigned block_y, unsigned block_z, unsigned smem,
                        CUstream stream, void **params, void **extra) {
  return submit(function, (unsigned[]){grid_x, grid_y, grid_z},
                (unsigned[]){block_x, block_y, block_z}, smem, false, stream, params, extra);
}

CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned grid_x, unsigned grid_y,
                                   unsigned grid_z, unsigned block_x, unsigned block_y,
                                   unsigned block_z, unsigned smem, CUstream stream,
                                   void **params) {
  return submit(function, (unsigned[]){grid_x, grid_y, grid_z},
                (unsigned[]){block_x, block_y, block_z}, smem, true, stream, params, NULL);
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function, void **params,
                          void **extra) {
  if (!config || (config->numAttrs && !config->attrs)) return CUDA_ERROR_INVALID_VALUE;
  bool cooperative = false;
  for (unsigned i = 0; i < config->numAttrs; i++) {
    const CUlaunchAttribute *a = &config->attrs[i];
    if (a->id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE) cooperative = a->value.cooperative != 0;
    if (a->id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION &&
        (unsigned long)a->value.clusterDim.x * a->value.clusterDim.y * a->value.clusterDim.z > 1)
      return CUDA_ERROR_NOT_SUPPORTED;
  }
  unsigned grid[3] = {config->gridDimX, config->gridDimY, config->gridDimZ};
  unsigned block[3] = {config->blockDimX, config->blockDimY, config->blockDimZ};
  return submit(function, grid, block, config->sharedMemBytes, cooperative, config->hStream, params,
                extra);
}
