// lower.c: blocks that wait for earlier ones, if a seed has started blocks in another order.
//
// A GPU starts blocks in order of their number, as far as is known, and programs let a block wait
// for earlier ones (look-back scans). A seed's order breaks that. So if a thread spins, the earlier
// blocks that have not started run on an additional OS thread, in order: each then waits only for
// blocks that have started. With the race check, which supports one worker at a time, the two
// alternate: the spinning one yields.
#include "sim/exec/exec.h"

#include <pthread.h>
#include <stdlib.h>

typedef struct Lower {
  pthread_mutex_t lock;
  pthread_cond_t passed;
  pthread_t thread;
  bool started;        // and not yet joined
  bool runs;
  bool turn;           // the thread's, where turns are taken
  bool alone;          // all other blocks have run
  unsigned long end;   // it runs clusters before this one
  atomic_ulong lowest; // all below it have begun
  atomic_uchar begun[]; // a bit for each cluster
} Lower;

static __thread bool is_lower __attribute__((tls_model("initial-exec")));

// Without memory for it blocks wait in vain.
void lower_make(Launch *launch) {
  launch->lower = NULL;
  if (!sim_settings()->seed || launch->units < 2 || launch->cooperative) return;
  Lower *l = calloc(1, sizeof *l + (launch->units + 7) / 8);
  if (!l) return;
  pthread_mutex_init(&l->lock, NULL);
  pthread_cond_init(&l->passed, NULL);
  launch->lower = l;
}

bool lower_claim(Launch *launch, unsigned long index) {
  unsigned char bit = (unsigned char)(1u << index % 8);
  return !launch->lower || !(atomic_fetch_or(&launch->lower->begun[index / 8], bit) & bit);
}

bool lower_next(Launch *launch, unsigned long *index) {
  Lower *l = launch->lower;
  unsigned long i = atomic_load(&l->lowest);
  while (i < l->end && !lower_claim(launch, i)) i++;
  atomic_store(&l->lowest, i);
  return (*index = i) < l->end;
}

static void *run_thread(void *data) {
  Launch *launch = data;
  Lower *l = launch->lower;
  is_lower = true;
  launch_run_lower(launch);
  pthread_mutex_lock(&l->lock);
  l->runs = l->turn = false;
  pthread_cond_broadcast(&l->passed);
  pthread_mutex_unlock(&l->lock);
  return NULL;
}

static void start(Lower *l, Launch *launch, unsigned long end) {
  if (l->started) pthread_join(l->thread, NULL); // it has ended
  l->end = end;
  l->runs = l->started = pthread_create(&l->thread, NULL, run_thread, launch) == 0;
}

void lower_spin(Block *block) {
  Launch *launch = block->launch;
  Lower *l = launch->lower;
  if (!l) return;
  pthread_mutex_lock(&l->lock);
  if (!l->runs && !is_lower && atomic_load(&l->lowest) < block->cluster->index)
    start(l, launch, block->cluster->index);
  if (l->runs && sim_settings()->race && !l->alone) {
    l->turn = !is_lower;
    pthread_cond_broadcast(&l->passed);
    while (l->runs && l->turn != is_lower && !l->alone) pthread_cond_wait(&l->passed, &l->lock);
  }
  pthread_mutex_unlock(&l->lock);
}

void lower_begin(Launch *launch) {
  Lower *l = launch->lower;
  pthread_mutex_lock(&l->lock);
  while (sim_settings()->race && !l->turn && !l->alone) pthread_cond_wait(&l->passed, &l->lock);
  pthread_mutex_unlock(&l->lock);
}

void lower_end(Launch *launch) {
  Lower *l = launch->lower;
  if (!l) return;
  pthread_mutex_lock(&l->lock);
  l->alone = true;
  pthread_cond_broadcast(&l->passed);
  pthread_mutex_unlock(&l->lock);
  if (l->started) pthread_join(l->thread, NULL);
  pthread_cond_destroy(&l->passed);
  pthread_mutex_destroy(&l->lock);
  free(l);
  launch->lower = NULL;
}
