// cli_options.c: the compiler's options from the command line; the file of tuned tiles.
#include "cli.h"

#include <stdlib.h>
#include <string.h>

static int one_of(const char *option, const char *value, const char *const *allowed, Error *err) {
  for (int i = 0; allowed[i]; i++)
    if (!strcmp(allowed[i], value)) return ExitOk;
  char list[128] = "";
  for (int i = 0; allowed[i]; i++) {
    if (i) strcat(list, ", ");
    strcat(list, allowed[i]);
  }
  return err_set(err, ExitUsage, "--%s %s: expected one of %s", option, value, list);
}

// Parses 500000000, 500M (times 10^6) or 2G.
static int bytes_of(const char *option, const char *text, int64_t *bytes, Error *err) {
  static const char units[] = "KMGT";
  char *end;
  double value = strtod(text, &end);
  const char *unit = *end ? strchr(units, *end) : NULL;
  for (const char *u = units; unit && u <= unit; u++) value *= 1e3;
  if (end == text || (*end && (!unit || end[1])) || !(value >= 1) || value > 1e15)
    return err_set(err, ExitUsage, "--%s %s: expected bytes, for example 500M or 2G", option, text);
  *bytes = (int64_t)value;
  return ExitOk;
}

int cli_options(const Cli *cli, Options *o, Error *err) {
  static const char *const dtypes[] = {"fp32", "tf32", "fp16", "bf16", NULL};
  static const char *const lowerings[] = {"fused", "unfused", NULL};
  static const char *const stages[] = {"front", "shape", "simp",  "prec", "recompute", "layout",
                                       "fuse",  "sched", "order", "emit", NULL};
  static const char *const recomputes[] = {"none", "auto", "all", NULL};
  int code = one_of("dtype", cli->dtype, dtypes, err);
  if (!code) code = one_of("lowering", cli->lowering, lowerings, err);
  if (!code && cli->stage) code = one_of("stage", cli->stage, stages, err);
  if (!code && cli->recompute) code = one_of("recompute", cli->recompute, recomputes, err);
  int64_t memory = 0;
  if (!code && cli->memory) code = bytes_of("memory", cli->memory, &memory, err);
  if (code) return code;
  *o = (Options){.model = cli->model,
                 .lowering = cli->lowering,
                 .dtype = cli->dtype,
                 .arch = arch_default(),
                 .nset = cli->nset,
                 .set_name = (const char **)cli->set_name,
                 .set_value = (const char **)cli->set_value,
                 .set_flag = (const char **)cli->set_flag,
                 .stage = cli->stage,
                 .no_flash = cli->no_flash,
                 .recompute = cli->recompute,
                 .memory = memory,
                 .read_numbers = cli_read_numbers,
                 .embeds = !strcmp(cli->verb, "emit"),
                 .trains =
                     !strcmp(cli->verb, "train") ||
                     (cli->entry && (!strcmp(cli->entry, "train") || !strcmp(cli->entry, "eval")))};
  if (cli->arch && !(o->arch = arch_find(cli->arch)))
    return err_set(err, ExitUsage, "--arch %s: expected one of sm_80, sm_90a, sm_100a", cli->arch);
  int64_t candidate = 0;
  code = cli->candidate ? cli_number("candidate", cli->candidate, 1, 1, &candidate, err) : ExitOk;
  o->candidate = (int)(candidate % 1000000);
  return code;
}

void cli_warn_tuning(const Cli *cli, const Tuning *tuning, const char *device) {
  const char *other;
  int own, others = tuning_count(tuning, device, &own, &other);
  if (!cli->tuning || !others || own) return;
  fprintf(stderr, "nngen: --tuning %s: no tiles for %s; for other devices (%s): %d\n", cli->tuning,
          device, other, others);
}

int cli_tuning(const Cli *cli, bool fallback, Tuning **tuning, Error *err) {
  *tuning = NULL;
  if (cli->tuning)
    return strcmp(cli->tuning, "none") ? tuning_read(cli->tuning, false, tuning, err) : ExitOk;
  char *path = fallback && !cli->no_cache ? tuning_default_path(cli->cache_dir) : NULL;
  int code = path ? tuning_read(path, true, tuning, err) : ExitOk;
  free(path);
  return code;
}
