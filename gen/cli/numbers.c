// numbers.c: reads the .npy file of nn.tensor("places.npy") in a model file.
#include "cli.h"

#include <stdlib.h>
#include <string.h>

int cli_read_numbers(const char *path, Numbers *numbers, Error *err) {
  Npy npy;
  int code = npy_read(path, &npy, err);
  if (code) return code;
  numbers->rank = npy.rank;
  numbers->whole = npy.integers;
  memcpy(numbers->shape, npy.shape, sizeof numbers->shape);
  numbers->values = base_alloc((size_t)npy.count + 1, sizeof *numbers->values);
  for (int64_t i = 0; i < npy.count; i++)
    numbers->values[i] = npy.exact ? npy.exact[i] : (double)npy.values[i];
  npy_free(&npy);
  return ExitOk;
}
