// train_eval.c: an evaluation on the test split by the entry `eval`. If the model returns an
// embedding, also the share of nearest neighbours of the same class (entry `neighbours`); if it
// returns pictures, a PNG of some.
#include "train.h"

#include <stdlib.h>
#include <string.h>

static int open_entry(Train *t, const char *entry, Metrics *m, Replay **replay, Error *err) {
  train_forget(m);
  if (*replay) return ExitOk;
  int code = tap_open(t->loaded, m->tensor, m->count, &m->tap, err);
  return code ? code : replay_capture(t->loaded, entry, replay, err);
}

// Takes the oldest pending results: adds `scale` times them, and `weight` to the number of
// examples.
static int take(Metrics *m, double weight, double scale, Error *err) {
  int code = tap_take(m->tap, m->value, err);
  for (int i = 0; !code && i < m->count; i++) m->sum[i] += scale * m->value[i];
  m->weight += weight;
  return code;
}

// ---- pictures ---------------------------------------------------------------------------------

// FOLDER/reconstructions_0001.png: pictures of the first batch, their reconstructions below.
static int write_pictures(Train *t, const Batch *batch, int64_t epoch, Error *err) {
  enum { kMost = 8 };
  char path[4096];
  if (t->picture < 0 || batch->index || t->silent) return ExitOk;
  const PlanTensor *made = &t->plan->tensors[t->picture];
  const PlanTensor *given = &t->plan->tensors[t->images];
  int columns = batch->valid < kMost ? batch->valid : kMost;
  uint8_t *all = base_alloc((size_t)made->bytes, 1);
  PictureRow rows[] = {{batch->images, {0}}, {all, {0}}};
  memcpy(rows[0].shape, given->shape + 1, sizeof rows[0].shape);
  memcpy(rows[1].shape, made->shape + 1, sizeof rows[1].shape);
  range_push(t->device, "reconstructions");
  int code = tensor_read(t->loaded, t->picture, all, (size_t)made->bytes, err);
  snprintf(path, sizeof path, "%s/reconstructions_%04lld.png", t->folder, (long long)epoch);
  Error failed = {0};
  if (!code && picture_grid(path, rows, 2, columns, &failed))
    log_to_stderr().write(NULL, LogWarning, failed.message);
  range_pop(t->device);
  free(all);
  return code;
}

// ---- neighbours -------------------------------------------------------------------------------

static int collect(Train *t, int64_t row, Error *err) {
  int all = tensor_find(t->plan, "neighbours.embeddings"),
      classes = tensor_find(t->plan, "neighbours.classes");
  if (t->embedding < 0 || all < 0 || classes < 0) return ExitOk;
  int code = tensor_put_rows(t->loaded, t->embedding, all, row, err);
  return code ? code : tensor_put_rows(t->loaded, t->labels, classes, row, err);
}

static int find_neighbours(Train *t, Error *err) {
  int64_t count = dataset_count(t->test);
  int first = tensor_find(t->plan, "neighbours.first"),
      total = tensor_find(t->plan, "neighbours.count");
  if (!t->near.count || first < 0 || total < 0) return ExitOk;
  double zero = 0, examples = (double)count;
  range_push(t->device, "mar_at_5");
  int code = open_entry(t, "neighbours", &t->near, &t->replay_near, err);
  if (!code) code = tensor_write_doubles(t->loaded, first, &zero, 1, err);
  if (!code) code = tensor_write_doubles(t->loaded, total, &examples, 1, err);
  for (int64_t row = 0; !code && row < count && !train_signal(); row += t->batch) {
    code = replay_enqueue(t->replay_near, err); // the entry advances `first`
    if (!code) code = tap_put(t->near.tap, err);
    if (!code && tap_pending(t->near.tap) == TapDepth) code = take(&t->near, 0, 1, err);
  }
  while (!code && tap_pending(t->near.tap)) code = take(&t->near, 0, 1, err);
  t->near.weight = examples;
  range_pop(t->device);
  return code;
}

// ---- batches ----------------------------------------------------------------------------------

// The number of examples in batch `index`, without the padding of the last batch.
static double weight_of(const Train *t, int64_t index) {
  int64_t left = dataset_count(t->test) - index * t->batch;
  return (double)(left < t->batch ? left : t->batch);
}

static int take_batch(Train *t, int64_t *taken, Error *err) {
  double weight = weight_of(t, (*taken)++);
  return take(&t->eval, weight, weight, err);
}

static int one_batch(Train *t, const Batch *batch, int64_t epoch, Error *err) {
  range_push(t->device, "data_unpack");
  int code = train_put_batch(t, batch, err);
  range_pop(t->device);
  range_push(t->device, "forward");
  if (!code) code = replay_enqueue(t->replay_eval, err);
  if (!code) code = tap_put(t->eval.tap, err);
  if (!code) code = collect(t, batch->index * t->batch, err);
  range_pop(t->device);
  return code ? code : write_pictures(t, batch, epoch, err);
}

static int all_batches(Train *t, Loader *loader, int64_t epoch, Error *err) {
  Batch batch;
  bool end = false;
  int64_t taken = 0;
  int code = ExitOk;
  while (!code && !train_signal()) {
    code = feed_wait(t->feed, err);
    if (!code) code = loader_next(loader, &batch, &end, err);
    if (code || end) break;
    code = one_batch(t, &batch, epoch, err);
    if (!code && tap_pending(t->eval.tap) == TapDepth) code = take_batch(t, &taken, err);
  }
  while (!code && tap_pending(t->eval.tap)) code = take_batch(t, &taken, err);
  return code ? code : feed_wait(t->feed, err);
}

int train_evaluate(Train *t, int64_t epoch, Error *err) {
  Loader *loader = NULL;
  LoaderOptions options = {
      .batch = (int)t->batch, .take = pinned_take, .give = pinned_give, .user = t->device};
  range_push(t->device, "validation");
  int code = open_entry(t, "eval", &t->eval, &t->replay_eval, err);
  if (!code) code = feed_wait(t->feed, err);
  if (!code) code = loader_open(t->test, &options, &loader, err);
  if (!code) code = all_batches(t, loader, epoch, err);
  loader_close(loader);
  if (!code && !train_signal()) code = find_neighbours(t, err);
  range_pop(t->device);
  return code;
}
