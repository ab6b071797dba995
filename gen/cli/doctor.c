// doctor.c: `nngen doctor` and `nngen cache`: libraries, device and cache of this machine.
#include "cli.h"

#include <jansson.h>
#include <string.h>
#include <time.h>

// ---- doctor -----------------------------------------------------------------------------------

static void print_library(const FoundLibrary *l) {
  if (l->path)
    printf("%-12s %s%s%s (%s)\n", l->role, l->path, *l->version ? ", version " : "", l->version,
           l->how);
  else
    printf("%-12s not found\n", l->role);
  for (int i = 0; !l->path && i < l->nsearched; i++)
    printf("             searched %s\n", l->searched[i]);
  bool repeats = !l->path && l->note && !strcmp(l->note, "not found");
  if (l->note && *l->note && !repeats) printf("             %s\n", l->note);
}

static void print_device(const Cli *cli) {
  DeviceOptions options = {.kind = DeviceAuto, .cuda_path = cli->cuda_path};
  Device *device;
  Error err = {0};
  if (device_open(&options, &device, &err)) {
    printf("%-12s none: %s\n", "device", err.message);
    return;
  }
  const DeviceInfo *d = device_info(device);
  if (d->kind == DeviceSim) // its name has the architecture
    printf("%-12s %s (simulated on the CPU)\n", "device", d->name);
  else
    printf("%-12s %s, %s\n", "device", d->name, d->arch);
  device_close(device);
}

static json_t *json_report(const FindReport *r) {
  json_t *list = json_array();
  for (int i = 0; i < r->nlibraries; i++) {
    const FoundLibrary *l = &r->libraries[i];
    json_array_append_new(list, json_pack("{s:s s:s? s:s s:s? s:s?}", "role", l->role, "path",
                                          l->path, "version", l->version ? l->version : "", "how",
                                          l->how, "note", l->note));
  }
  return json_pack("{s:i s:o s:b s:s s:s}", "schema_version", 1, "libraries", list, "nvtx", r->nvtx,
                   "host_compiler", r->host_compiler ? r->host_compiler : "", "cache_dir",
                   r->cache_dir ? r->cache_dir : "");
}

static int print_json(json_t *o, Error *err) {
  int failed = json_dumpf(o, stdout, JSON_INDENT(2));
  json_decref(o);
  printf("\n");
  return failed ? err_set(err, ExitBadInput, "stdout cannot be written") : ExitOk;
}

int verb_doctor(const Cli *cli, Error *err) {
  int code = ExitOk;
  FindReport r;
  find_report(cli->cuda_path, &r);
  if (cli->json) {
    code = print_json(json_report(&r), err);
  } else {
    for (int i = 0; i < r.nlibraries; i++) print_library(&r.libraries[i]);
    printf("%-12s %s\n", "compiler",
           r.host_compiler && *r.host_compiler
               ? r.host_compiler
               : "none: libcusim cannot build kernels; install g++");
    printf("%-12s %s\n", "NVTX",
           r.nvtx ? "built in" : "not built in: the CUDA toolkit's headers were absent");
    printf("%-12s %s\n", "cache", r.cache_dir ? r.cache_dir : "none");
    print_device(cli);
  }
  find_report_free(&r);
  return code;
}

// ---- cache ------------------------------------------------------------------------------------

static void print_entries(const CacheList *list, bool verified) {
  for (int i = 0; i < list->nentries; i++) {
    const CacheEntry *e = &list->entries[i];
    char when[32];
    time_t used = (time_t)e->used;
    strftime(when, sizeof when, "%Y-%m-%d %H:%M", localtime(&used));
    printf("%.16s  %-8s %9lld  %s  %s%s\n", e->name, e->arch, (long long)e->bytes, when, e->kernel,
           verified ? (e->valid ? "  ok" : "  BROKEN") : "");
  }
  printf("%d entries, %.1f MB, in %s\n", list->nentries, (double)list->bytes * 1e-6, list->dir);
}

static json_t *json_entries(const CacheList *list, bool verified) {
  json_t *entries = json_array();
  for (int i = 0; i < list->nentries; i++) {
    const CacheEntry *e = &list->entries[i];
    json_t *o = json_pack("{s:s s:s s:s s:I s:I}", "name", e->name, "kernel", e->kernel, "arch",
                          e->arch, "bytes", (json_int_t)e->bytes, "used", (json_int_t)e->used);
    if (verified) json_object_set_new(o, "valid", json_boolean(e->valid));
    json_array_append_new(entries, o);
  }
  return json_pack("{s:i s:s s:I s:o}", "schema_version", 1, "dir", list->dir, "bytes",
                   (json_int_t)list->bytes, "entries", entries);
}

static int clear(const Cli *cli, Error *err) {
  int removed;
  int code = cache_clear(cli->cache_dir, &removed, err);
  if (!code && cli->json)
    return print_json(json_pack("{s:i s:i}", "schema_version", 1, "removed", removed), err);
  if (!code) printf("%d entries removed\n", removed);
  return code;
}

int verb_cache(const Cli *cli, Error *err) {
  const char *what = cli->model ? cli->model : "ls";
  bool verify = !strcmp(what, "verify");
  if (!strcmp(what, "clear")) return clear(cli, err);
  if (!verify && strcmp(what, "ls"))
    return err_set(err, ExitUsage, "nngen cache %s: expected ls, verify or clear", what);
  CacheList list;
  int code =
      verify ? cache_verify(cli->cache_dir, &list, err) : cache_list(cli->cache_dir, &list, err);
  if (code) return code;
  if (cli->json)
    code = print_json(json_entries(&list, verify), err);
  else
    print_entries(&list, verify);
  int broken = 0;
  for (int i = 0; i < list.nentries; i++) broken += verify && !list.entries[i].valid;
  cache_list_free(&list);
  if (code || !broken) return code;
  return err_set(err, ExitMismatch,
                 "%d cache entries are broken; they are recompiled when next used", broken);
}
