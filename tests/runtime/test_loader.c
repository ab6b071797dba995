// test_loader.c: the order of batches, with any number of threads; the end of a data set; errors.
#include "runtime/dataset.h"

// ---- data sets whose pictures tell their number ------------------------------------------------

static Dataset *open_numbered(int count) { // picture n: the bytes of n, label n
  char name[32], file[64];
  Error err = {0};
  snprintf(name, sizeof name, "n%d", count);
  uint8_t *images = malloc((size_t)count * 2);
  int32_t *labels = malloc((size_t)count * sizeof *labels);
  for (int i = 0; i < count; i++)
    images[2 * i] = (uint8_t)i, images[2 * i + 1] = (uint8_t)(i >> 8), labels[i] = i;
  if (mkdir(temp_path(name), 0777) == 0) {
    snprintf(file, sizeof file, "%s/train_images.npy", name);
    assert_int_equal(
        npy_write_stored(temp_path(file), DtU8, images, 3, (int64_t[]){count, 1, 2}, &err), ExitOk);
    snprintf(file, sizeof file, "%s/train_labels.npy", name);
    assert_int_equal(npy_write_stored(temp_path(file), DtI32, labels, 1, (int64_t[]){count}, &err),
                     ExitOk);
  }
  free(images), free(labels);
  return open_set(name, kTrain);
}

static Loader *open_loader(const Dataset *dataset, LoaderOptions options) {
  Error err = {0};
  Loader *loader = NULL;
  if (loader_open(dataset, &options, &loader, &err)) fail_msg("%s", err.message);
  return loader;
}

// The numbers of the next batch's pictures.
static Batch next_batch(Loader *loader, int size, int *numbers) {
  Error err = {0};
  Batch batch;
  bool end = true;
  if (loader_next(loader, &batch, &end, &err)) fail_msg("%s", err.message);
  assert_false(end);
  for (int i = 0; i < size; i++) {
    numbers[i] = batch.images[2 * i] | batch.images[2 * i + 1] << 8;
    assert_int_equal(batch.labels[i], numbers[i]);
  }
  return batch;
}

enum { Count = 103, Size = 10, PerEpoch = Count / Size, Epochs = 3 };

// The numbers of so many batches from `first` on.
static void record(LoaderOptions options, int batches, int *numbers) {
  Dataset *dataset = open_numbered(Count);
  options.batch = Size, options.train = true;
  Loader *loader = open_loader(dataset, options);
  assert_int_equal(loader_batches(loader), PerEpoch);
  for (int i = 0; i < batches; i++) {
    Batch batch = next_batch(loader, Size, numbers + i * Size);
    int64_t number = options.first + i;
    assert_int_equal(batch.valid, Size);
    assert_true(batch.index == number % PerEpoch && batch.epoch == number / PerEpoch);
  }
  loader_close(loader), dataset_close(dataset);
}

// ---- training ----------------------------------------------------------------------------------

static void order_is_of_the_seed(void **state) {
  (void)state;
  static const int threads[] = {0, 1, 2, 5};
  static int first[Epochs * PerEpoch * Size], other[Epochs * PerEpoch * Size];
  record((LoaderOptions){.seed = 7, .threads = 1}, Epochs * PerEpoch, first);
  for (int i = 0; i < COUNT(threads); i++) {
    record((LoaderOptions){.seed = 7, .threads = threads[i]}, Epochs * PerEpoch, other);
    assert_memory_equal(first, other, sizeof first);
  }
  record((LoaderOptions){.seed = 8}, Epochs * PerEpoch, other);
  assert_memory_not_equal(first, other, PerEpoch * Size * sizeof(int));
}

static void epochs_hold_each_picture_once(void **state) {
  (void)state;
  static int numbers[Epochs][PerEpoch * Size];
  record((LoaderOptions){.seed = 7}, Epochs * PerEpoch, numbers[0]);
  for (int e = 0; e < Epochs; e++) {
    int seen[Count] = {0}, in_place = 0;
    for (int i = 0; i < PerEpoch * Size; i++) {
      assert_int_equal(seen[numbers[e][i]]++, 0);
      in_place += numbers[e][i] == i;
    }
    assert_true(in_place < 10); // shuffled: one is expected
    if (e) assert_memory_not_equal(numbers[e], numbers[e - 1], sizeof numbers[e]);
  }
}

// Over many seeds, each picture comes first about as often as any other.
static void shuffle_is_even(void **state) {
  (void)state;
  enum { Pictures = 5, Seeds = 1000 };
  int first[Pictures] = {0}, numbers[Pictures];
  Dataset *dataset = open_numbered(Pictures);
  for (uint64_t seed = 0; seed < Seeds; seed++) {
    Loader *loader = open_loader(
        dataset, (LoaderOptions){.batch = Pictures, .train = true, .threads = 1, .seed = seed});
    next_batch(loader, Pictures, numbers);
    first[numbers[0]]++;
    loader_close(loader);
  }
  for (int i = 0; i < Pictures; i++) assert_in_range(first[i], 150, 250); // 200, deviation 13
  dataset_close(dataset);
}

static void resume_goes_on(void **state) {
  (void)state;
  static const int firsts[] = {1, PerEpoch - 1, PerEpoch, PerEpoch + 3};
  static int whole[2 * PerEpoch * Size], rest[2 * PerEpoch * Size];
  record((LoaderOptions){.seed = 7}, 2 * PerEpoch, whole);
  for (int i = 0; i < COUNT(firsts); i++) {
    int batches = 2 * PerEpoch - firsts[i];
    record((LoaderOptions){.seed = 7, .first = firsts[i]}, batches, rest);
    assert_memory_equal(rest, whole + firsts[i] * Size, (size_t)(batches * Size) * sizeof(int));
  }
}

// ---- evaluation --------------------------------------------------------------------------------

static void evaluate(int count, int size, int threads, int first) {
  Dataset *dataset = open_numbered(count);
  Loader *loader =
      open_loader(dataset, (LoaderOptions){.batch = size, .threads = threads, .first = first});
  int *numbers = malloc((size_t)size * sizeof *numbers), total = first * size;
  Error err = {0};
  Batch batch;
  bool end;
  assert_int_equal(loader_batches(loader), (count + size - 1) / size);
  for (int i = first; i < loader_batches(loader); i++) {
    batch = next_batch(loader, size, numbers);
    assert_true(batch.index == i && batch.epoch == 0);
    for (int k = 0; k < size; k++)
      assert_int_equal(numbers[k], k < batch.valid ? total + k : count - 1);
    total += batch.valid;
  }
  assert_int_equal(total, count);
  for (int i = 0; i < 2; i++) { // the end is the end
    assert_int_equal(loader_next(loader, &batch, &end, &err), ExitOk);
    assert_true(end);
  }
  free(numbers), loader_close(loader), dataset_close(dataset);
}

static void evaluation_is_in_order_and_padded(void **state) {
  (void)state;
  evaluate(Count, Size, 0, 0);
  evaluate(Count, Size, 5, 0);
  evaluate(Count, Size, 2, 4);
  evaluate(100, Size, 2, 0); // no padding
  evaluate(5, 8, 1, 0);      // less than a batch
  evaluate(5, 5, 3, 0);
  evaluate(5, 1, 3, 0);
}

// ---- the batches' memory -----------------------------------------------------------------------

static int taken;

static void *take(void *user, size_t bytes) {
  assert_string_equal(user, "user");
  if (taken == 3) return NULL;
  taken++;
  return malloc(bytes);
}

static void give(void *user, void *memory) {
  assert_string_equal(user, "user");
  taken--;
  free(memory);
}

static void memory_is_the_callers(void **state) {
  (void)state;
  Error err = {0};
  Dataset *dataset = open_numbered(Count);
  LoaderOptions options = {.batch = 64, .train = true, .take = take, .give = give, .user = "user"};
  int numbers[64];
  Loader *loader = open_loader(dataset, options), *second;
  assert_int_equal(taken, 2);
  next_batch(loader, 64, numbers);
  assert_int_equal(loader_open(dataset, &options, &second, &err), ExitNoDevice);
  assert_non_null(strstr(err.message, "out of host memory: the batches of a data set"));
  loader_close(loader);
  assert_int_equal(taken, 0);
  dataset_close(dataset);
}

static void a_batch_stays_until_the_next_call(void **state) {
  (void)state;
  Dataset *dataset = open_numbered(Count);
  Loader *loader = open_loader(dataset, (LoaderOptions){.batch = Size, .train = true});
  int numbers[Size];
  for (int i = 0; i < 20; i++) {
    Batch batch = next_batch(loader, Size, numbers);
    usleep(1000); // the threads read the next one
    for (int k = 0; k < Size; k++) {
      assert_int_equal(batch.labels[k], numbers[k]);
      assert_int_equal(batch.images[2 * k], numbers[k] & 255);
    }
  }
  loader_close(loader), dataset_close(dataset);
}

static void closing_in_the_middle(void **state) {
  (void)state;
  Dataset *dataset = open_numbered(Count);
  int numbers[Size];
  alarm(60); // a loader that hangs ends the test
  for (int i = 0; i < 200; i++) {
    Loader *loader =
        open_loader(dataset, (LoaderOptions){.batch = Size, .train = i % 2, .threads = 1 + i % 5});
    for (int k = 0; k < i % 4; k++) next_batch(loader, Size, numbers);
    loader_close(loader);
  }
  loader_close(NULL);
  alarm(0);
  dataset_close(dataset);
}

// ---- errors ------------------------------------------------------------------------------------

static void refuse_options(const Dataset *dataset, LoaderOptions options, int code,
                           const char *expected) {
  Error err = {0};
  Loader *loader;
  assert_int_equal(loader_open(dataset, &options, &loader, &err), code);
  assert_null(loader);
  assert_string_equal(err.message, expected);
}

static void options_are_checked(void **state) {
  (void)state;
  char message[300];
  Dataset *dataset = open_numbered(5);
  snprintf(message, sizeof message,
           "data set '%s': its 5 pictures are fewer than a batch of 6; take a smaller batch",
           temp_path("n5"));
  refuse_options(dataset, (LoaderOptions){.batch = 6, .train = true}, ExitBadInput, message);
  refuse_options(dataset, (LoaderOptions){.batch = 0}, ExitUsage,
                 "loader: batch 0, first batch 0: neither can be less");
  refuse_options(dataset, (LoaderOptions){.batch = 1, .first = -1}, ExitUsage,
                 "loader: batch 1, first batch -1: neither can be less");
  refuse_options(dataset, (LoaderOptions){.batch = 1, .threads = 257}, ExitUsage,
                 "loader: 257 threads; give 1 to 256, or 0 for 2");
  dataset_close(dataset);
}

static void write_picture(const char *name) {
  Error err = {0};
  uint8_t rgb[3] = {1, 2, 3};
  Image image = {1, 1, rgb};
  assert_int_equal(image_write(temp_path(name), &image, &err), ExitOk);
}

// The first picture in order that cannot be read is the one that is named, by any threads.
static void a_broken_picture_is_named(void **state) {
  (void)state;
  char name[64], expected[300];
  make_folder("p"), make_folder("p/train"), make_folder("p/train/a");
  for (int i = 0; i < 60; i++) {
    snprintf(name, sizeof name, "p/train/a/%02d.png", i);
    write_picture(name);
  }
  snprintf(expected, sizeof expected, "image '%s': is not a PNG", temp_path("p/train/a/33.png"));
  Dataset *dataset = open_set("p", kTrain);
  for (int i = 33; i < 49; i += 5) { // since it was opened
    snprintf(name, sizeof name, "p/train/a/%02d.png", i);
    write_bytes(temp_path(name), "junk", 4);
  }
  for (int threads = 1; threads < 6; threads++) {
    Loader *loader = open_loader(dataset, (LoaderOptions){.batch = 20, .threads = threads});
    Error err = {0};
    Batch batch;
    bool end;
    assert_int_equal(loader_next(loader, &batch, &end, &err), ExitOk);
    for (int again = 0; again < 2; again++) {
      err = (Error){0};
      assert_int_equal(loader_next(loader, &batch, &end, &err), ExitBadInput);
      assert_int_equal(strncmp(err.message, expected, strlen(expected)), 0);
    }
    loader_close(loader);
  }
  dataset_close(dataset);
}

static void no_memory(void **state) {
  (void)state;
  Dataset *dataset = open_numbered(Count);
  Loader *loader = NULL;
  for (int n = 0, rc = 1; rc; n++) {
    Error err = {0};
    heap_fail_after(n);
    rc = loader_open(dataset, &(LoaderOptions){.batch = Size, .train = true}, &loader, &err);
    heap_fail_after(-1);
    assert_true(rc ? strstr(err.message, "out of host memory") != NULL : n == 6);
  }
  loader_close(loader);
  dataset_close(dataset);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(order_is_of_the_seed),
      cmocka_unit_test(epochs_hold_each_picture_once),
      cmocka_unit_test(shuffle_is_even),
      cmocka_unit_test(resume_goes_on),
      cmocka_unit_test(evaluation_is_in_order_and_padded),
      cmocka_unit_test(memory_is_the_callers),
      cmocka_unit_test(a_batch_stays_until_the_next_call),
      cmocka_unit_test(closing_in_the_middle),
      cmocka_unit_test(options_are_checked),
      cmocka_unit_test(a_broken_picture_is_named),
      cmocka_unit_test(no_memory),
  };
  return cmocka_run_group_tests(tests, NULL, temp_clean);
}
