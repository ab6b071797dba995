// loader.c: batches of a data set, read ahead by threads.
//
// Two slots alternate: the caller has the batch of one while threads fill the other. A thread
// takes the next few places of the oldest unfinished batch, so a batch's contents do not
// depend on the number of threads: the order of an epoch depends only on seed and epoch.
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "data/data.h"

enum { Slots = 2, UsualThreads = 2, PlacesAtOnce = 8, Alignment = 64 };

typedef struct Slot { // a batch being read
  void *memory;       // images, then labels
  uint8_t *images;
  int32_t *labels;
  int64_t *pictures; // of the data set, by place in the batch
  int taken, done;   // places that threads have started, and finished
  int failed;        // the first place that could not be read, or -1
  Error err;         // of it
} Slot;

struct Loader {
  const Dataset *dataset;
  LoaderOptions options;
  int64_t count, batches; // pictures and batches per epoch
  size_t bytes;           // of a picture
  int64_t *order, epoch;  // shuffled pictures of this epoch; -1: no epoch yet
  Slot slots[Slots];      // batch n, counted over all epochs, is in slot n % Slots
  int64_t next, started;  // batches: the next for the caller, the first that is in no slot yet
  pthread_mutex_t lock;   // guards everything below and the slots' counts
  pthread_cond_t work, full;
  pthread_t threads[LoaderMaxThreads];
  int nthreads;
  bool stop;
};

// ---- which pictures ----------------------------------------------------------------------------

// Fisher-Yates shuffle; a number below n is the high half of n times 64 random bits.
static void shuffle(Loader *loader, int64_t epoch) {
  uint64_t key = random_at(loader->options.seed, (uint64_t)epoch);
  int64_t *order = loader->order;
  for (int64_t i = 0; i < loader->count; i++) order[i] = i;
  for (int64_t i = loader->count - 1; i > 0; i--) {
    uint64_t bits = random_at(key, (uint64_t)i);
    int64_t other = (int64_t)((unsigned __int128)bits * (uint64_t)(i + 1) >> 64), kept = order[i];
    order[i] = order[other];
    order[other] = kept;
  }
  loader->epoch = epoch;
}

// Makes the next batch available to the threads if there is one and its slot is free.
static bool start(Loader *loader) {
  int64_t number = loader->started, batch = loader->options.batch;
  if (number == loader->next + Slots) return false;
  if (!loader->options.train && number >= loader->batches) return false;
  Slot *slot = &loader->slots[number % Slots];
  int64_t epoch = number / loader->batches, first = number % loader->batches * batch;
  if (loader->options.train && epoch != loader->epoch) shuffle(loader, epoch);
  for (int64_t i = 0; i < batch; i++) {
    int64_t at = first + i < loader->count ? first + i : loader->count - 1;
    slot->pictures[i] = loader->options.train ? loader->order[at] : at;
  }
  slot->taken = slot->done = 0;
  slot->failed = -1;
  loader->started++;
  pthread_cond_broadcast(&loader->work);
  return true;
}

// ---- threads -----------------------------------------------------------------------------------

static Slot *find_work(Loader *loader) { // in the oldest batch that has some
  int64_t oldest = loader->started - Slots, first = loader->options.first;
  for (int64_t i = oldest < first ? first : oldest; i < loader->started; i++)
    if (loader->slots[i % Slots].taken < loader->options.batch) return &loader->slots[i % Slots];
  return NULL;
}

// Reads some places of a batch; returns the first that could not be read, or -1.
static int read_places(const Loader *loader, const Slot *slot, int begin, int end, Error *err) {
  for (int i = begin; i < end; i++)
    if (dataset_read(loader->dataset, slot->pictures[i], slot->images + (size_t)i * loader->bytes,
                     &slot->labels[i], err))
      return i;
  return -1;
}

static void *run_thread(void *argument) {
  Loader *loader = argument;
  Error err;
  pthread_mutex_lock(&loader->lock);
  while (!loader->stop) {
    Slot *slot = find_work(loader);
    if (!slot) {
      pthread_cond_wait(&loader->work, &loader->lock);
      continue;
    }
    int begin = slot->taken, left = loader->options.batch - begin;
    int end = slot->taken += left < PlacesAtOnce ? left : PlacesAtOnce;
    pthread_mutex_unlock(&loader->lock);
    int failed = read_places(loader, slot, begin, end, &err);
    pthread_mutex_lock(&loader->lock);
    if (failed >= 0 && (slot->failed < 0 || failed < slot->failed))
      slot->failed = failed, slot->err = err;
    slot->done += end - begin;
    if (slot->done == loader->options.batch) pthread_cond_broadcast(&loader->full);
  }
  pthread_mutex_unlock(&loader->lock);
  return NULL;
}

// Starts the threads with signals blocked: they stay with the program's threads.
static int start_threads(Loader *loader, Error *err) {
  int wanted = loader->options.threads ? loader->options.threads : UsualThreads, rc = 0;
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  while (loader->nthreads < wanted && !rc) {
    rc = pthread_create(&loader->threads[loader->nthreads], NULL, run_thread, loader);
    if (!rc) loader->nthreads++;
  }
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (!rc) return ExitOk;
  return err_set(err, ExitNoDevice, "loader: cannot start thread %d of %d: %s; use fewer",
                 loader->nthreads + 1, wanted, strerror(rc));
}

// ---- opening and closing -----------------------------------------------------------------------

static int check(const Dataset *dataset, const LoaderOptions *options, Error *err) {
  if (options->batch < 1 || options->first < 0)
    return err_set(err, ExitUsage, "loader: batch %d, first batch %lld: neither can be less",
                   options->batch, (long long)options->first);
  if (options->threads < 0 || options->threads > LoaderMaxThreads)
    return err_set(err, ExitUsage, "loader: %d threads; give 1 to %d, or 0 for %d",
                   options->threads, LoaderMaxThreads, UsualThreads);
  if (options->train && dataset->count < options->batch)
    return err_set(err, ExitBadInput,
                   "data set '%s': its %lld pictures are fewer than a batch of %d; take a smaller "
                   "batch",
                   dataset->path, (long long)dataset->count, options->batch);
  return ExitOk;
}

static bool make_slot(const Loader *loader, Slot *slot) {
  const LoaderOptions *options = &loader->options;
  size_t batch = (size_t)options->batch, images, bytes;
  if (__builtin_mul_overflow(batch, loader->bytes, &images) ||
      __builtin_add_overflow(images, Alignment - 1, &images))
    return false;
  images -= images % Alignment;
  if (__builtin_add_overflow(images, batch * sizeof *slot->labels, &bytes)) return false;
  slot->pictures = heap_alloc(batch, sizeof *slot->pictures);
  slot->memory = options->take ? options->take(options->user, bytes) : heap_alloc(bytes, 1);
  slot->images = slot->memory;
  if (slot->memory) slot->labels = (int32_t *)(void *)(slot->images + images);
  return slot->pictures && slot->memory;
}

static int make(Loader *loader, Error *err) {
  bool enough = true;
  if (loader->options.train) {
    loader->order = heap_alloc((size_t)loader->count, sizeof *loader->order);
    enough = loader->order;
  }
  for (int i = 0; i < Slots && enough; i++) enough = make_slot(loader, &loader->slots[i]);
  if (!enough) return heap_error(err, "the batches of a data set");
  while (start(loader)) {
  }
  return start_threads(loader, err);
}

int loader_open(const Dataset *dataset, const LoaderOptions *options, Loader **out, Error *err) {
  *out = NULL;
  int rc = check(dataset, options, err);
  if (rc) return rc;
  Loader *loader = heap_alloc(1, sizeof *loader);
  if (!loader) return heap_error(err, "the loader of a data set");
  loader->dataset = dataset;
  loader->options = *options;
  loader->count = dataset->count;
  loader->batches = dataset->count / options->batch;
  if (!options->train && dataset->count % options->batch) loader->batches++;
  loader->bytes = (size_t)(dataset->shape[0] * dataset->shape[1] * dataset->shape[2]);
  loader->epoch = -1;
  loader->next = loader->started = options->first;
  pthread_mutex_init(&loader->lock, NULL);
  pthread_cond_init(&loader->work, NULL);
  pthread_cond_init(&loader->full, NULL);
  rc = make(loader, err);
  if (rc)
    loader_close(loader);
  else
    *out = loader;
  return rc;
}

static void free_slot(const LoaderOptions *options, Slot *slot) {
  if (slot->memory && options->take)
    options->give(options->user, slot->memory);
  else
    free(slot->memory);
  free(slot->pictures);
}

void loader_close(Loader *loader) {
  if (!loader) return;
  pthread_mutex_lock(&loader->lock);
  loader->stop = true;
  pthread_cond_broadcast(&loader->work);
  pthread_mutex_unlock(&loader->lock);
  for (int i = 0; i < loader->nthreads; i++) pthread_join(loader->threads[i], NULL);
  for (int i = 0; i < Slots; i++) free_slot(&loader->options, &loader->slots[i]);
  pthread_cond_destroy(&loader->full);
  pthread_cond_destroy(&loader->work);
  pthread_mutex_destroy(&loader->lock);
  free(loader->order);
  free(loader);
}

// ---- batches -----------------------------------------------------------------------------------

int64_t loader_batches(const Loader *loader) {
  return loader->batches;
}

static void describe(const Loader *loader, const Slot *slot, Batch *batch) {
  int64_t index = loader->next % loader->batches, size = loader->options.batch;
  int64_t left = loader->count - index * size;
  *batch = (Batch){.images = slot->images,
                   .labels = slot->labels,
                   .valid = (int)(left < size ? left : size),
                   .index = index,
                   .epoch = loader->next / loader->batches};
}

int loader_next(Loader *loader, Batch *batch, bool *end, Error *err) {
  *end = !loader->options.train && loader->next >= loader->batches;
  if (*end) return ExitOk;
  Slot *slot = &loader->slots[loader->next % Slots];
  pthread_mutex_lock(&loader->lock);
  while (start(loader)) { // the caller is done with the batch before
  }
  while (slot->done < loader->options.batch) pthread_cond_wait(&loader->full, &loader->lock);
  bool failed = slot->failed >= 0;
  if (!failed) describe(loader, slot, batch), loader->next++;
  pthread_mutex_unlock(&loader->lock);
  if (failed) *err = slot->err;
  return failed ? err->code : ExitOk;
}
