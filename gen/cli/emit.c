// emit.c: `nngen emit`: a network as C and CUDA sources that build without nngen: from the command
// line to a plan.
#include "cli.h"
#include "nngen_image.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// ---- options ---------------------------------------------------------------------------------

static int number_of(const Arch *arch) {
  return atoi(arch->name + strlen("sm_"));
}

static void add_arch(Emission *e, const Arch *arch) { // sorted
  int at = e->narchs;
  for (int i = 0; i < e->narchs; i++)
    if (e->arch[i] == arch) return;
  for (; at && number_of(e->arch[at - 1]) > number_of(arch); at--) e->arch[at] = e->arch[at - 1];
  e->arch[at] = arch;
  e->narchs++;
}

// The GPU of this machine, when there is one that nngen knows.
static void add_present(Emission *e) {
  DeviceOptions options = {.kind = DeviceCuda, .cuda_path = e->cli->cuda_path};
  Device *device;
  Error none = {0};
  if (device_open(&options, &device, &none)) return;
  const Arch *arch = arch_find(device_info(device)->arch);
  if (arch) add_arch(e, arch);
  device_close(device);
}

static int pick_archs(Emission *e, Error *err) {
  if (!e->cli->arch) {
    add_arch(e, arch_find("sm_80"));
    add_arch(e, arch_find("sm_90a"));
    add_present(e);
  }
  char word[64];
  for (const char *at = e->cli->arch; at && *at;) {
    size_t n = strcspn(at, ",");
    snprintf(word, sizeof word, "%.*s", (int)n, at);
    const Arch *arch = arch_find(word);
    if (!arch)
      return err_set(err, ExitUsage, "--arch %s: expected a list of sm_80, sm_90a, sm_100a", word);
    if (e->narchs == kMostArchs) return err_set(err, ExitUsage, "--arch: too many");
    add_arch(e, arch);
    at += n + (at[n] == ',');
  }
  if (!e->narchs) return err_set(err, ExitUsage, "--arch: expected some of sm_80, sm_90a, sm_100a");
  for (int i = 0; i < e->narchs; i++) e->targets[i] = e->arch[i]->name;
  return ExitOk;
}

// PTX of the lowest GPU: for all newer ones, or, if kernels use wgmma, which only that generation
// has, only for it.
static int pick_ptx(Emission *e, Error *err) {
  bool groups = false;
  for (int i = 0; i < e->plan->nkernels; i++)
    groups = groups || strstr(e->plan->kernels[i].source, "wgmma.cuh\"");
  if (groups && e->narchs > 1)
    return err_set(err, ExitUsage,
                   "--arch: kernels for %s have products of warp groups, which %s lacks: add "
                   "sm_80, or emit each separately",
                   e->arch[0]->name, e->arch[1]->name);
  snprintf(e->ptx, sizeof e->ptx, "compute_%d%s", number_of(e->arch[0]), groups ? "a" : "");
  e->targets[e->narchs] = e->ptx;
  return ExitOk;
}

static void join_settings(Emission *e) {
  size_t used = 0;
  for (int i = 0; i < e->cli->nset && used < sizeof e->settings; i++)
    used += (size_t)snprintf(e->settings + used, sizeof e->settings - used, "%s%s=%s", i ? " " : "",
                             e->cli->set_name[i], e->cli->set_value[i]);
}

// The prefix of symbols: --name, else the model's name, with _net appended where C or a header
// reserves that word.
static int pick_name(Emission *e, Error *err) {
  const char *given = e->cli->name, *model = e->plan->model;
  snprintf(e->name, sizeof e->name, "%s%.100s", given || isalpha((unsigned char)*model) ? "" : "m",
           given ? given : model);
  bool good = isalpha((unsigned char)e->name[0]);
  for (const char *s = e->name; *s; s++) good = good && (isalnum((unsigned char)*s) || *s == '_');
  if (!good)
    return err_set(err, ExitUsage, "--name %s: expected letters, digits and _, a letter first",
                   e->name);
  if (!embed_reserves(e->name)) return ExitOk;
  if (given)
    return err_set(err, ExitUsage, "--name %s: is reserved by C or a header; choose another",
                   given);
  strcat(e->name, "_net");
  return ExitOk;
}

// ---- from the model to texts --------------------------------------------------------------------

static bool in_entry(const Plan *plan, const char *name, int kernel) {
  for (int i = 0; i < plan->nentries; i++)
    for (int j = 0; !strcmp(plan->entries[i].name, name) && j < plan->entries[i].nsteps; j++) {
      const PlanStep *step = &plan->entries[i].steps[j];
      if (step->kind == StepLaunch && step->kernel == kernel) return true;
    }
  return false;
}

// True if outputs depend only on parameters: `init` writes them, and infer copies them.
static bool made_by_init(const Plan *plan) {
  for (int i = 0; i < plan->nkernels; i++)
    for (int j = 0; j < plan->kernels[i].nargs; j++) {
      const PlanArg *arg = &plan->kernels[i].args[j];
      bool output = plan->tensors[arg->tensor].role == RoleOutput;
      if (arg->written && output && in_entry(plan, "init", i)) return true;
    }
  return false;
}

// Empty entries, as `infer` of a model compiled for training, become no functions.
static void drop_empty(Plan *plan) {
  int count = 0;
  for (int i = 0; i < plan->nentries; i++) {
    PlanEntry *entry = &plan->entries[i];
    bool constant = !strcmp(entry->name, "infer") && made_by_init(plan);
    if (entry->nsteps || constant || !strcmp(entry->name, "init")) {
      plan->entries[count++] = *entry;
      continue;
    }
    free(entry->name);
    free(entry->steps);
  }
  plan->nentries = count;
}

// --entry must name an entry of the model; train and eval compile it for training (cli_options).
static int check_entry(const Cli *cli, const Plan *plan, Error *err) {
  char list[256] = "";
  for (int i = 0; i < plan->nentries; i++) {
    const char *name = plan->entries[i].name;
    if (!cli->entry || !strcmp(cli->entry, name)) return ExitOk;
    size_t used = strlen(list);
    if (strcmp(name, "init"))
      snprintf(list + used, sizeof list - used, "%s%.100s", used ? ", " : "", name);
  }
  return err_set(err, ExitUsage, "--entry %s: the model has: %s", cli->entry, list);
}

// Compiles a plan with the options of the command line, and one of several `batch` sizes.
static int compile_one(Emission *e, const char *batch, Plan **plan, Error *err) {
  Cli cli = *e->cli;
  Options options;
  cli.arch = NULL;
  for (int i = 0; i < cli.nset; i++)
    if (batch && !strcmp(cli.set_name[i], "batch")) cli.set_value[i] = batch;
  int code = cli_options(&cli, &options, err);
  options.arch = e->arch[0]; // kernels for the lowest GPU run on newer ones
  options.device = options.arch->gpu;
  options.tuning = e->tuning;
  int at = e->ncompilers;
  if (!code) {
    code = compile_model(&e->compilers[at], &options, err);
    e->ncompilers++;
  }
  if (code) return code;
  drop_empty(*plan = plan_build(&e->compilers[at]));
  for (int i = 0; i < (*plan)->nentries; i++)
    e->entries_of[at] += strcmp((*plan)->entries[i].name, "init") != 0;
  return check_entry(e->cli, *plan, err);
}

// image_twins over the kernels of all plans, concatenated.
static int find_twins(Plan *const *plans, int count, int *same, Error *err) {
  Plan all = {.headers = plans[0]->headers, .nheaders = plans[0]->nheaders};
  for (int i = 0; i < count; i++) all.nkernels += plans[i]->nkernels;
  all.kernels = base_alloc((size_t)all.nkernels + 1, sizeof *all.kernels);
  for (int i = 0, at = 0; i < count; at += plans[i++]->nkernels)
    memcpy(all.kernels + at, plans[i]->kernels, sizeof *all.kernels * (size_t)plans[i]->nkernels);
  int code = image_twins(&all, same, err);
  free(all.kernels);
  return code;
}

static int merge(Emission *e, Plan *const *plans, const char *const *tags, int count, Error *err) {
  int kernels = 0;
  for (int i = 0; i < count; i++) kernels += plans[i]->nkernels;
  int *same = base_alloc((size_t)kernels + 1, sizeof *same);
  int code = find_twins(plans, count, same, err);
  if (!code) code = embed_merge((const Plan *const *)plans, tags, count, same, &e->plan, err);
  free(same);
  return code;
}

// --set batch=1,8,32: a plan for each, on one copy of the parameters.
static int compile_batches(Emission *e, const char *list, Error *err) {
  Plan *plans[kMostBatches] = {0};
  char batch[kMostBatches][16], tag[kMostBatches][20];
  const char *tags[kMostBatches];
  int count = 0, code = ExitOk;
  for (const char *at = list; !code && *at; at += strspn(at, ",")) {
    size_t n = strcspn(at, ",");
    if (count == kMostBatches || !n || n > 9 || strspn(at, "0123456789") != n) {
      code = err_set(err, ExitUsage, "--set batch=%s: expected up to %d whole numbers", list,
                     kMostBatches);
      break;
    }
    snprintf(batch[count], sizeof batch[count], "%.*s", (int)n, at);
    snprintf(tag[count], sizeof tag[count], "b%.*s", (int)n, at);
    for (int i = 0; i < count; i++)
      if (!strcmp(batch[i], batch[count]))
        return err_set(err, ExitUsage, "--set batch=%s: %s is given twice", list, batch[i]);
    tags[count] = tag[count];
    code = compile_one(e, batch[count], &plans[count], err);
    count++;
    at += n;
  }
  if (!code) code = merge(e, plans, tags, count, err);
  for (int i = 0; i < count; i++) plan_free(plans[i]);
  return code;
}

static int compile(Emission *e, Error *err) {
  const char *batches = NULL;
  int code = pick_archs(e, err);
  if (!code) code = cli_tuning(e->cli, false, &e->tuning, err);
  if (!code) cli_warn_tuning(e->cli, e->tuning, e->arch[0]->gpu);
  for (int i = 0; i < e->cli->nset; i++)
    if (!strcmp(e->cli->set_name[i], "batch") && strchr(e->cli->set_value[i], ','))
      batches = e->cli->set_value[i];
  if (!code && batches) code = compile_batches(e, batches, err);
  if (!code && !batches) code = compile_one(e, NULL, &e->plan, err);
  if (!code) code = pick_ptx(e, err);
  return code ? code : pick_name(e, err);
}

// True if memory suffices for the oracle, which computes the stored results.
static bool affords_check(const Emission *e) {
  double need = 0;
  for (int i = 0; i < e->ncompilers; i++)
    need = fmax(need, (double)check_bytes(e->compilers[i].original));
  double have = (double)sysconf(_SC_AVPHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
  if (e->cli->no_check || e->cli->kernels_only || e->cli->diff) return false;
  if (need < have) return true;
  fprintf(
      stderr,
      "nngen: no stored results: the oracle needs about %.1f GB, this machine has %.1f GB free\n",
      need * 1e-9, have * 1e-9);
  return false;
}

static int open_embed(Emission *e, Error *err) {
  e->same = base_alloc((size_t)e->plan->nkernels + 1, sizeof *e->same);
  int code = image_twins(e->plan, e->same, err);
  if (code) return code;
  join_settings(e);
  e->options = (EmbedOptions){.name = e->name,
                              .file = e->cli->model,
                              .settings = e->settings,
                              .archs = e->targets,
                              .narchs = e->narchs,
                              .ptx = e->ptx,
                              .same = e->same,
                              .weights_in_code = e->cli->weights_in_code,
                              .runtime_api = emit_has_lang(e->cli, "cuda-runtime"),
                              .check = affords_check(e),
                              .gate = check_model_gate(e->plan->dtype)};
  e->embed = embed_open(e->plan, &e->options);
  return ExitOk;
}

static int open_params(Emission *e, Error *err) {
  int64_t seed;
  int code = cli_number("seed", e->cli->seed, 0, 0, &seed, err);
  if (!code) code = params_open(e->cli->weights, (uint64_t)seed, &e->params, err);
  if (!code) cli_choose_params(e->params, &e->compilers[0]);
  return code;
}

static void close_all(Emission *e) {
  if (e->params) params_close(e->params);
  embed_close(e->embed);
  free(e->same);
  plan_free(e->plan);
  for (int i = 0; i < e->ncompilers; i++) compile_close(&e->compilers[i]);
  tuning_free(e->tuning);
}

static bool begins_list(const char *list, const char *name) {
  size_t n = strlen(name);
  return !strncmp(list, name, n) && (!list[n] || list[n] == ',');
}

static bool is_lang(const char *list) {
  return begins_list(list, "c") || begins_list(list, "cpp") || begins_list(list, "cuda-runtime");
}

bool emit_has_lang(const Cli *cli, const char *name) {
  for (const char *at = cli->lang; at; at = strchr(at, ','), at = at ? at + 1 : NULL)
    if (begins_list(at, name)) return true;
  return false;
}

static int check_options(const Cli *cli, Error *err) {
  if (cli->kernels_only && cli->weights_in_code)
    return err_set(err, ExitUsage, "--kernels-only and --weights-in-code: one of the two");
  if (cli->kernels_only && cli->lang)
    return err_set(err, ExitUsage,
                   "--kernels-only and --lang: one of the two; there is no host code");
  const char *at = cli->lang;
  for (bool more = at; more; at += strcspn(at, ","), more = *at == ',', at += more)
    if (!is_lang(at))
      return err_set(err, ExitUsage, "--lang %s: expected c, cpp, cuda-runtime or cpp,cuda-runtime",
                     cli->lang);
  if (cli->output && cli->diff)
    return err_set(err, ExitUsage, "--diff writes nothing: omit -o");
  if (cli->output || cli->diff) return ExitOk;
  return err_set(err, ExitUsage, "nngen emit: expected a folder, as in: nngen emit %s -o out",
                 cli->model);
}

int verb_emit(const Cli *cli, Error *err) {
  Emission e = {.cli = cli, .dir = cli->output};
  int code = check_options(cli, err);
  if (!code) code = compile(&e, err);
  if (!code) code = open_embed(&e, err);
  if (!code && cli->diff)
    code = emit_diff(&e, err);
  else if (!code)
    code = open_params(&e, err);
  if (!code && !cli->diff) code = emit_files(&e, err);
  close_all(&e);
  return code;
}
