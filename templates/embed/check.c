//@ local entry = k.main
//@ local function largest(list)
//@   local most = 1
//@   for _, t in ipairs(list) do most = math.max(most, t.count) end
//@   return most
//@ end
//@ local as_double = {f16 = "of_half(%s)", bf16 = "of_bf16(%s)"}
//@ local uses = {}
//@ for _, t in ipairs(entry.outputs) do uses[t.dtype] = true end
// $(k.name)_check.c: runs $(k.name) on stored inputs, compares what it makes with what nngen computed in double
// precision, and prints pass or fail. By nngen emit.
//
//   ./$(k.name)_check       where $(k.name)_check.bin$(k.weights_in_code and " is" or " and " .. k.name .. ".safetensors are")
#include "$(k.name).h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const double kGate = $(k.gate); // the relative error that $(k.dtype) may have, in the L2 norm
//@ if uses.f16 then

static double of_half(uint16_t bits) {
  int exponent = bits >> 10 & 31;
  double fraction = bits & 1023;
  double value = exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24);
  if (exponent == 31) value = fraction != 0 ? NAN : INFINITY;
  return bits & 0x8000 ? -value : value;
}
//@ end
//@ if uses.bf16 then

static double of_bf16(uint16_t bits) {
  union {
    uint32_t bits;
    float value;
  } word;
  word.bits = (uint32_t)bits << 16;
  return word.value;
}
//@ end

static int failed; // outputs

static void *read_next(FILE *file, size_t bytes) {
  void *data = malloc(bytes);
  if (data && fread(data, 1, bytes, file) == bytes) return data;
  fprintf(stderr, "$(k.name)_check.bin: is cut short\n");
  exit(1);
}

static void compare(const char *name, const double *wanted, const double *got, long count, double gate) {
  double error = 0, norm = 0;
  int finite = 1;
  for (long i = 0; i < count; i++) {
    error += (got[i] - wanted[i]) * (got[i] - wanted[i]);
    norm += wanted[i] * wanted[i];
    finite = finite && got[i] - got[i] == 0;
  }
  double relative = norm > 0 ? sqrt(error / norm) : sqrt(error);
  int passed = finite && relative <= gate;
  printf("%s: %s, relative error %.2e, may be %.0e\n", name, passed ? "pass" : "fail", relative, gate);
  failed += !passed;
}

int main(void) {
  char mark[17] = "", message[256] = "";
  FILE *file = fopen("$(k.name)_check.bin", "rb");
  if (!file || fread(mark, 1, 16, file) != 16) {
    fprintf(stderr, "$(k.name)_check.bin: cannot be read\n");
    return 1;
  }
//@ local names = {inputs = {}, outputs = {}}
//@ for i, t in ipairs(entry.inputs) do
//@   names.inputs[i] = t.ident
  $(t.type) *$(t.ident) = ($(t.type) *)read_next(file, $(t.bytes)); // $(t.what)
//@ end
//@ for i, t in ipairs(entry.outputs) do
//@   names.outputs[i] = t.ident
  double *wanted_$(t.ident) = (double *)read_next(file, sizeof(double) * $(t.count)); // $(t.shape)
  $(t.type) *$(t.ident) = ($(t.type) *)malloc($(t.bytes));
//@ end
  fclose(file);

  $(k.name) *net;
  $(k.name)_options options = $(k.name)_default_options();
  options.message = message;
  options.message_bytes = sizeof message;
  $(k.name)_status status = $(k.name)_create(&net, &options);
//@ local pass = ""
//@ for _, kind in ipairs{"inputs", "outputs"} do
//@   if #names[kind] > 0 then
  $(k.struct(entry, "host_" .. kind)) $(kind) = {$(table.concat(names[kind], ", "))};
//@     pass = pass .. "&" .. kind .. ", "
//@   end
//@ end
  if (!status) status = $(k.name)_$(entry.ident)_host(net, $(pass)NULL);
  if (status) {
    fprintf(stderr, "$(k.name): %s: %s\n", $(k.name)_error_string(status), net ? $(k.name)_message(net) : message);
    return 1;
  }

  double *got = (double *)malloc(sizeof(double) * $(largest(entry.outputs)));
  if (!got) return 1;
//@ for _, t in ipairs(entry.outputs) do
  for (long i = 0; i < $(t.count); i++) got[i] = $(as_double[t.dtype] and string.format(as_double[t.dtype], t.ident .. "[i]") or "(double)" .. t.ident .. "[i]");
  compare("$(t.name)", wanted_$(t.ident), got, $(t.count), $(as_double[t.dtype] and "kGate" or (t.dtype == "f32" or t.dtype == "f64") and "kGate" or "0"));
//@ end
  free(got);
//@ for _, t in ipairs(entry.inputs) do
  free($(t.ident));
//@ end
//@ for _, t in ipairs(entry.outputs) do
  free($(t.ident));
  free(wanted_$(t.ident));
//@ end
  $(k.name)_destroy(net);
  return failed != 0;
}
