//@ local entries, most, uses, states = {}, 1, {}, false
//@ for _, entry in ipairs(k.entries) do
//@   if #entry.outputs + #entry.states > 0 then entries[#entries + 1] = entry end
//@   for _, t in ipairs(entry.outputs) do most, uses[t.dtype] = math.max(most, t.count), true end
//@   for _, t in ipairs(entry.states) do states, uses[t.dtype] = true, true end
//@ end
//@ local as_double = {f16 = "of_half(%s)", bf16 = "of_bf16(%s)"}
//@ local function element(t, name)
//@   return string.format(as_double[t.dtype] or "(double)%s", name .. "[i]")
//@ end
// $(k.name)_check.c: runs $(k.name) on stored inputs, compares its outputs with those that nngen
// computed in double precision, and prints pass or fail$(#entries > 1 and " for each function" or ""). By nngen emit.
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
  fprintf(stderr, "$(k.name)_check.bin: is truncated\n");
  exit(1);
}

static void report(const char *name, int finite, double relative, double gate) {
  int passed = finite && relative <= gate;
  printf("%s: %s, relative error %.2e, allowed %.0e\n", name, passed ? "pass" : "fail", relative,
         gate);
  failed += !passed;
}

static void compare(const char *name, const double *wanted, const double *got, long count,
                    double gate) {
  double error = 0, norm = 0;
  int finite = 1;
  for (long i = 0; i < count; i++) {
    error += (got[i] - wanted[i]) * (got[i] - wanted[i]);
    norm += wanted[i] * wanted[i];
    finite = finite && got[i] - got[i] == 0;
  }
  double relative = norm > 0 ? sqrt(error / norm) : sqrt(error);
  report(name, finite, relative, gate);
}

//@ if states then
// The error of the states that a function writes, relative to how far the function changes them.
static const double kStateGate = 0.1;
static double state_error, state_change;

static void add_state(double before, double wanted, double got) {
  state_error += (got - wanted) * (got - wanted);
  state_change += (wanted - before) * (wanted - before);
}

static void read_state($(k.name) *net, $(k.name)_state state, void *to) {
  $(k.name)_status status = $(k.name)_state_read(net, state, to, NULL);
  if (!status) status = $(k.name)_synchronize(net, NULL);
  if (!status) return;
  fprintf(stderr, "$(k.name): %s: %s\n", $(k.name)_error_string(status), $(k.name)_message(net));
  exit(1);
}

//@ end
// A network ready to run$(#k.states > 0 and ", with initial states" or ""); failure ends the program.
static $(k.name) *open_net(void) {
  char message[256] = "";
  $(k.name) *net = NULL;
  $(k.name)_options options = $(k.name)_default_options();
  options.message = message;
  options.message_bytes = sizeof message;
  $(k.name)_status status = $(k.name)_create(&net, &options);
  if (!status) return net;
  fprintf(stderr, "$(k.name): %s: %s\n", $(k.name)_error_string(status), message);
  exit(1);
}
//@ for _, entry in ipairs(entries) do

static void check_$(entry.ident)(FILE *file) {
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
//@ for _, t in ipairs(entry.states) do
  double *wanted_$(t.ident) = (double *)read_next(file, sizeof(double) * $(t.count)); // $(t.shape)
  $(t.type) *before_$(t.ident) = ($(t.type) *)malloc($(t.bytes));
  $(t.type) *after_$(t.ident) = ($(t.type) *)malloc($(t.bytes));
//@ end
//@ if #entry.outputs > 0 then
  double *got = (double *)malloc(sizeof(double) * $(most));
//@ end
  $(k.name) *net = open_net();
//@ for _, t in ipairs(entry.states) do
  read_state(net, $(k.NAME)_STATE_$(string.upper(t.ident)), before_$(t.ident));
//@ end
//@ local pass = ""
//@ for _, kind in ipairs{"inputs", "outputs"} do
//@   if #names[kind] > 0 then
  $(k.struct(entry, "host_" .. kind)) $(kind) = {$(table.concat(names[kind], ", "))};
//@     pass = pass .. "&" .. kind .. ", "
//@   end
//@ end
  $(k.name)_status status = $(k.name)_$(entry.ident)_host(net, $(pass)NULL);
  if (status) {
    fprintf(stderr, "$(k.name): %s: %s\n", $(k.name)_error_string(status), $(k.name)_message(net));
    exit(1);
  }
//@ local prefix = #entries > 1 and entry.ident .. ": " or ""
//@ for _, t in ipairs(entry.outputs) do
//@   local gate = (as_double[t.dtype] or t.dtype == "f32" or t.dtype == "f64") and "kGate" or "0"
  for (long i = 0; i < $(t.count); i++) got[i] = $(element(t, t.ident));
  compare("$(prefix .. t.name)", wanted_$(t.ident), got, $(t.count), $(gate));
//@ end
//@ if #entry.states > 0 then
  state_error = state_change = 0;
//@   for _, t in ipairs(entry.states) do
  read_state(net, $(k.NAME)_STATE_$(string.upper(t.ident)), after_$(t.ident));
  for (long i = 0; i < $(t.count); i++)
    add_state($(element(t, "before_" .. t.ident)), wanted_$(t.ident)[i],
              $(element(t, "after_" .. t.ident)));
//@   end
  double error = state_change > 0 ? sqrt(state_error / state_change) : sqrt(state_error);
  report("$(prefix)change of $(#entry.states) state$(#entry.states > 1 and "s" or "")",
         error - error == 0, error, kStateGate);
//@ end
//@ if #entry.outputs > 0 then
  free(got);
//@ end
//@ for _, t in ipairs(entry.states) do
  free(wanted_$(t.ident));
  free(before_$(t.ident));
  free(after_$(t.ident));
//@ end
//@ for _, t in ipairs(entry.inputs) do
  free($(t.ident));
//@ end
//@ for _, t in ipairs(entry.outputs) do
  free($(t.ident));
  free(wanted_$(t.ident));
//@ end
  $(k.name)_destroy(net);
}
//@ end

int main(void) {
  char mark[17] = "";
  FILE *file = fopen("$(k.name)_check.bin", "rb");
  if (!file || fread(mark, 1, 16, file) != 16) {
    fprintf(stderr, "$(k.name)_check.bin: cannot be read\n");
    return 1;
  }
//@ for _, entry in ipairs(entries) do
  check_$(entry.ident)(file);
//@ end
  fclose(file);
  return failed != 0;
}
