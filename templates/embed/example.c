//@ local entry = k.main
//@ local ins, outs = #entry.inputs > 0, #entry.outputs > 0
// example.c: runs $(k.name) once, on inputs from files, or on zeros. By nngen emit; copy from it
// what you like.
//
//@ local usage = {}
//@ for i, t in ipairs(entry.inputs) do usage[i] = "[" .. string.upper(t.ident) .. "]" end
//@ if #usage > 4 then usage = {usage[1], usage[2], "..."} end
//   ./example $(table.concat(usage, " "))
//
// Each file holds the elements of an input without a header, as $(k.name).h describes it. Every
// output is written to NAME.bin in the same form, and its first elements are printed.
#include "$(k.name).h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Ends the program; the system frees its memory.
static void fail($(k.name)_status status, const char *message) {
  fprintf(stderr, "$(k.name): %s: %s\n", $(k.name)_error_string(status), message);
  exit(1);
}

//@ if ins then
static void *read_elements(const char *path, size_t bytes) {
  unsigned char *data = (unsigned char *)calloc(bytes, 1);
  FILE *file = path ? fopen(path, "rb") : NULL;
  if (data && file && fread(data, 1, bytes, file) == bytes && fgetc(file) == EOF) {
    fclose(file);
    return data;
  }
  if (path) fprintf(stderr, "%s: is not a file of %zu bytes\n", path, bytes);
  if (file) fclose(file);
  if (!path && data) return data; // zeros
  free(data);
  return NULL;
}

//@ end
//@ if outs then
static void write_elements(const char *path, const void *data, size_t bytes) {
  FILE *file = fopen(path, "wb");
  int failed = !file || fwrite(data, 1, bytes, file) != bytes;
  if (file && fclose(file)) failed = 1;
  if (failed) fprintf(stderr, "%s: cannot be written\n", path);
}

//@ end
int main(int argc, char **argv) {
  char message[256] = "";
  $(k.name) *net;
  $(k.name)_options options = $(k.name)_default_options();
  options.message = message;
  options.message_bytes = sizeof message;
  $(k.name)_status status = $(k.name)_create(&net, &options);
  if (status) fail(status, message);

//@ for i, t in ipairs(entry.inputs) do
  $(t.type) *$(t.ident) = ($(t.type) *)read_elements(argc > $(i) ? argv[$(i)] : NULL, $(t.bytes)); // $(t.what)
//@ end
//@ for _, t in ipairs(entry.outputs) do
  $(t.type) *$(t.ident) = ($(t.type) *)malloc($(t.bytes)); // $(t.what)
//@ end
//@ if not ins then
  (void)argc, (void)argv;
//@ end
//@ local all = {}
//@ for _, t in ipairs(entry.inputs) do all[#all + 1] = t.ident end
//@ for _, t in ipairs(entry.outputs) do all[#all + 1] = t.ident end
//@ if #all > 0 then
  if (!$(table.concat(all, " || !"))) exit(1);
//@ end

//@ local pass = ""
//@ for _, kind in ipairs{"inputs", "outputs"} do
//@   if #entry[kind] > 0 then
//@     local names = {}
//@     for i, t in ipairs(entry[kind]) do names[i] = t.ident end
  $(k.struct(entry, "host_" .. kind)) $(kind) = {$(table.concat(names, ", "))};
//@     pass = pass .. "&" .. kind .. ", "
//@   end
//@ end
  status = $(k.name)_$(entry.ident)_host(net, $(pass)NULL);
  if (status) fail(status, $(k.name)_message(net));

//@ for _, t in ipairs(entry.outputs) do
  write_elements("$(t.ident).bin", $(t.ident), $(t.bytes));
  printf("$(t.name):");
//@   local real = t.type == "float"
//@   local format, as = real and "%g" or "%lld", real and "double" or "long long"
  for (int i = 0; i < $(math.min(t.count, 10)); i++) printf(" $(format)", ($(as))$(t.ident)[i]);
  printf("\n");
//@ end
//@ for _, name in ipairs(all) do
  free($(name));
//@ end
  $(k.name)_destroy(net);
  return 0;
}
