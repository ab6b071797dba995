// renote.c: renote FILE KEY VALUE: a checkpoint whose metadata has this value, with checksums that
// are right: what a run wrote that had such a number.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/data.h"

static int rewrite(const char *path, const Weights *weights, const char *key, const char *value,
                   Error *err) {
  const char **pairs, *kept[64] = {NULL};
  int code = weights_metadata_pairs(weights, &pairs, err), count = 0;
  for (int i = 0; !code && pairs[i] && count < 60; i += 2) {
    if (!strncmp(pairs[i], "xxh3", 4)) continue;
    kept[count++] = pairs[i];
    kept[count++] = strcmp(pairs[i], key) ? pairs[i + 1] : value;
  }
  if (!code)
    code = checkpoint_write(path, weights_at(weights, 0), weights_count(weights), kept, err);
  if (!code) free(pairs);
  return code;
}

int main(int argc, char **argv) {
  Error err = {0};
  Weights *weights = NULL;
  if (argc != 4) return 2;
  int code = weights_open(argv[1], &weights, &err);
  if (!code) code = rewrite(argv[1], weights, argv[2], argv[3], &err);
  weights_close(weights);
  if (code) fprintf(stderr, "renote: %s\n", err.message);
  return code;
}
