// cli.c: the command line. `nngen MODEL.lua` with no verb is `nngen run MODEL.lua`.
#include "cli.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum Kind { KindFlag, KindValue, KindFolder, KindSet, KindInput };

typedef struct Option {
  const char *name;
  enum Kind kind;
  size_t offset;     // in Cli
  const char *verbs; // that take it, separated by spaces
  const char *value; // what the help calls its value
  const char *help;
} Option;

#define AT(field) offsetof(Cli, field)
static const Option options[] = {
    {"set", KindSet, 0, "run show tune", "NAME=VALUE ...",
     "settings of the model (nn.config); dtype=... too"},
    {"dtype", KindValue, AT(dtype), "run show tune", "fp32|tf32|fp16|bf16",
     "storage and tensor-core precision (fp32)"},
    {"lowering", KindValue, AT(lowering), "run show tune", "fused|unfused",
     "fused kernels, or one per layer call (fused)"},
    {"device", KindValue, AT(device), "run tune", "auto|cuda|sim",
     "a GPU if there is one, else the simulator (auto)"},
    {"ordinal", KindValue, AT(ordinal), "run tune", "N", "which GPU (0)"},
    {"sim-frontend", KindValue, AT(sim_frontend), "run", "cxx|nvrtc",
     "simulator: who reads the CUDA, the host's C++ compiler or NVIDIA's NVRTC (cxx)"},
    {"arch", KindValue, AT(arch), "run show", "sm_80|sm_90a|sm_100a",
     "compile for this GPU, run nothing"},
    {"tuning", KindValue, AT(tuning), "run show tune", "FILE",
     "measured tiles (CACHE/tuning.json; none: do not use any)"},
    {"candidate", KindValue, AT(candidate), "run show", "N",
     "contractions take the tile that the model puts in place N (1)"},
    {"weights", KindValue, AT(weights), "run", "FILE",
     "safetensors; without it, seeded random weights"},
    {"input", KindInput, 0, "run", "[NAME=]FILE",
     "a .png or .npy; without it, a generated image or noise"},
    {"output", KindFolder, AT(output), "run", "DIR", "write each output as DIR/NAME.npy"},
    {"labels", KindValue, AT(labels), "run", "FILE", "a name per line: prints the five best"},
    {"check-finite", KindFlag, AT(check_finite), "run", NULL,
     "refuse weights that hold NaN or infinity"},
    {"seed", KindValue, AT(seed), "run", "N", "of weights and inputs (0)"},
    {"entry", KindValue, AT(entry), "run", "NAME", "which entry of the model runs (infer)"},
    {"save", KindValue, AT(save), "run", "FILE",
     "write parameters and states after the run, as safetensors"},
    {"graph", KindFlag, AT(graph), "run", NULL, "replay one captured CUDA graph"},
    {"repeat", KindValue, AT(repeat), "run", "N", "time N runs"},
    {"warmup", KindValue, AT(warmup), "run", "N", "runs before the timed ones (3)"},
    {"nvtx", KindValue, AT(nvtx), "run", "off|model|layer", "ranges for profilers (layer)"},
    {"check", KindFlag, AT(check), "run", NULL, "compare every kernel with the oracle"},
    {"no-check", KindFlag, AT(no_check), "run", NULL,
     "do not (default on a GPU when the plan was run before)"},
    {"dump", KindFolder, AT(dump), "run", "DIR",
     "write the generated kernels, their images, the plan"},
    {"explain", KindValue, AT(explain), "run", "KERNEL",
     "say why this kernel, or this layer's, is as it is; nothing runs"},
    {"count", KindFlag, AT(count), "run", NULL,
     "simulator: count accesses, sectors and bank conflicts"},
    {"json", KindFlag, AT(json), "run show doctor cache tune", NULL, "results as JSON on stdout"},
    {"quiet", KindFlag, AT(quiet), "run tune", NULL, "no progress"},
    {"cache-dir", KindFolder, AT(cache_dir), "run cache tune", "DIR",
     "where compiled kernels are kept"},
    {"no-cache", KindFlag, AT(no_cache), "run tune", NULL, "compile every kernel"},
    {"cuda-path", KindFolder, AT(cuda_path), "run doctor tune", "DIR",
     "search CUDA libraries here first"},
    {"stage", KindValue, AT(stage), "show", "PASS", "front shape simp prec layout fuse sched emit"},
    {"cuda", KindFlag, AT(cuda), "show", NULL, "the generated CUDA"},
    {"kernel", KindValue, AT(kernel), "show", "KERNEL",
     "of this kernel only, or of this layer's: layer1.0.conv1"},
    {"costs", KindFlag, AT(costs), "show", NULL,
     "what the model expects of each kernel, its floor, its padding (--json too)"},
    {"plan", KindFlag, AT(plan), "show", NULL, "the plan, as JSON"},
    {"dot", KindFlag, AT(dot), "show", NULL, "a drawing for graphviz: | dot -Tsvg"},
    {"help", KindFlag, AT(help), "run show doctor cache tune", NULL, "this"},
};
enum { kOptions = sizeof options / sizeof options[0] };

static bool has_word(const char *list, const char *word) {
  size_t n = strlen(word);
  for (const char *at = list; (at = strstr(at, word)); at += n)
    if ((at == list || at[-1] == ' ') && (at[n] == ' ' || !at[n])) return true;
  return false;
}

static const Option *find_option(const char *name, const char *verb) {
  for (int i = 0; i < kOptions; i++)
    if (!strcmp(options[i].name, name) && has_word(options[i].verbs, verb)) return &options[i];
  return NULL;
}

static int unknown_option(const char *name, const char *verb, Error *err) {
  const char *names[kOptions];
  int count = 0;
  for (int i = 0; i < kOptions; i++)
    if (has_word(options[i].verbs, verb)) names[count++] = options[i].name;
  const char *near = text_nearest(name, names, count);
  if (near) return err_set(err, ExitUsage, "unknown option --%s; did you mean --%s?", name, near);
  return err_set(err, ExitUsage, "unknown option --%s; see nngen %s --help", name, verb);
}

// ---- values -----------------------------------------------------------------------------------

static int take_set(Cli *cli, char *text, Error *err) {
  char *equal = strchr(text, '=');
  if (!equal || equal == text)
    return err_set(err, ExitUsage, "--set wants NAME=VALUE, not '%s'", text);
  if (cli->nset == kMostSets) return err_set(err, ExitUsage, "more than %d --set", kMostSets);
  *equal = 0;
  if (!strcmp(text, "dtype")) { // DESIGN of the command line: a setting of every model
    cli->dtype = equal + 1;
    return ExitOk;
  }
  cli->set_name[cli->nset] = text;
  cli->set_value[cli->nset++] = equal + 1;
  return ExitOk;
}

static int take_value(Cli *cli, const Option *o, char *value, Error *err) {
  struct stat info;
  switch (o->kind) {
  case KindSet:
    return take_set(cli, value, err);
  case KindFolder:
    if (!stat(value, &info) && !S_ISDIR(info.st_mode))
      return err_set(err, ExitUsage, "--%s %s: is a file; it wants a folder", o->name, value);
    break;
  case KindInput:
    if (cli->ninput == kMostInputs)
      return err_set(err, ExitUsage, "more than %d --input", kMostInputs);
    cli->input[cli->ninput++] = value;
    return ExitOk;
  default:
    break;
  }
  *(const char **)((char *)cli + o->offset) = value;
  return ExitOk;
}

// One --option at argv[i]; returns an ExitCode, *i is left at its last word.
static int take_option(Cli *cli, int argc, char **argv, int *i, Error *err) {
  char name[64];
  const char *word = argv[*i] + 2;
  char *equal = strchr(argv[*i], '=');
  snprintf(name, sizeof name, "%.*s", (int)strcspn(word, "="), word);
  const Option *o = find_option(name, cli->verb);
  if (!o) return unknown_option(name, cli->verb, err);
  if (o->kind == KindFlag) {
    if (equal) return err_set(err, ExitUsage, "--%s takes no value", name);
    *(bool *)((char *)cli + o->offset) = true;
    return ExitOk;
  }
  if (!equal && (*i + 1 == argc || !strncmp(argv[*i + 1], "--", 2)))
    return err_set(err, ExitUsage, "--%s wants a value: %s", name, o->value);
  int code = take_value(cli, o, equal ? equal + 1 : argv[++*i], err);
  while (!code && o->kind == KindSet && !equal && *i + 1 < argc && argv[*i + 1][0] != '-' &&
         strchr(argv[*i + 1], '='))
    code = take_set(cli, argv[++*i], err); // --set a=1 b=2
  return code;
}

static const Verb *find_verb(const Verb *verbs, const char *name) {
  for (const Verb *v = verbs; v->name; v++)
    if (!strcmp(v->name, name)) return v;
  return NULL;
}

static int pick_verb(int argc, char **argv, Cli *cli, int *first, Error *err) {
  cli->verb = "run";
  *first = 1;
  if (argc < 2 || !strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") ||
      !strcmp(argv[1], "help")) {
    cli->help = true;
    cli->verb = NULL;
    return ExitOk;
  }
  const char *word = argv[1];
  if (!strcmp(word, "--version")) {
    cli->version = true;
    cli->verb = NULL;
    return ExitOk;
  }
  size_t n = strlen(word);
  if (find_verb(cli->verbs, word)) {
    cli->verb = word;
    *first = 2;
    return ExitOk;
  }
  if (word[0] == '-' || (n > 4 && !strcmp(word + n - 4, ".lua")) || strchr(word, '/'))
    return ExitOk;
  const char *names[32];
  int count = 0;
  for (const Verb *v = cli->verbs; v->name && count < 32; v++) names[count++] = v->name;
  const char *near = text_nearest(word, names, count);
  if (near)
    return err_set(err, ExitUsage, "'%s' is no verb and no model file (.lua); did you mean '%s'?",
                   word, near);
  return err_set(err, ExitUsage, "'%s' is no verb and no model file (.lua); see nngen --help",
                 word);
}

// --arch compiles for a GPU that is not here: what needs a run would be passed over.
static int check_arch(const Cli *cli, Error *err) {
  const struct {
    const char *name;
    bool given;
  } need_run[] = {{"device", strcmp(cli->device, "auto")},
                  {"ordinal", cli->ordinal},
                  {"sim-frontend", cli->sim_frontend},
                  {"weights", cli->weights},
                  {"input", cli->ninput > 0},
                  {"output", cli->output},
                  {"labels", cli->labels},
                  {"check-finite", cli->check_finite},
                  {"seed", cli->seed},
                  {"graph", cli->graph},
                  {"repeat", cli->repeat},
                  {"warmup", cli->warmup},
                  {"check", cli->check},
                  {"count", cli->count}};
  for (size_t i = 0; i < sizeof need_run / sizeof need_run[0]; i++)
    if (need_run[i].given)
      return err_set(err, ExitUsage,
                     "--arch %s only compiles, and --%s needs a run: leave out one of them",
                     cli->arch, need_run[i].name);
  return ExitOk;
}

int cli_parse(const Verb *verbs, int argc, char **argv, Cli *cli, Error *err) {
  *cli = (Cli){
      .verbs = verbs, .lowering = "fused", .dtype = "fp32", .device = "auto", .nvtx = "layer"};
  int i, code = pick_verb(argc, argv, cli, &i, err);
  if (code || !cli->verb) return code;
  for (; !code && i < argc; i++) {
    if (!strncmp(argv[i], "--", 2))
      code = take_option(cli, argc, argv, &i, err);
    else if (!cli->model)
      cli->model = argv[i];
    else
      code = err_set(err, ExitUsage, "'%s': one model at a time ('%s' was given)", argv[i],
                     cli->model);
  }
  if (!code && !cli->help && find_verb(cli->verbs, cli->verb)->takes_model && !cli->model)
    code =
        err_set(err, ExitUsage, "nngen %s wants a model file, as in: nngen %s models/resnet18.lua",
                cli->verb, cli->verb);
  if (!code && cli->arch && !strcmp(cli->verb, "run")) code = check_arch(cli, err);
  if (!code && cli->explain && cli->json)
    code = err_set(err, ExitUsage, "--explain is text: leave out --json");
  return code;
}

int cli_number(const char *option, const char *text, int64_t fallback, int64_t *value, Error *err) {
  *value = fallback;
  if (!text) return ExitOk;
  char *end;
  *value = strtoll(text, &end, 10);
  if (end == text || *end || *value < 0 || *value > 1000000000)
    return err_set(err, ExitUsage, "--%s wants a whole number, not '%s'", option, text);
  return ExitOk;
}

static int one_of(const char *option, const char *value, const char *const *allowed, Error *err) {
  for (int i = 0; allowed[i]; i++)
    if (!strcmp(allowed[i], value)) return ExitOk;
  char list[128] = "";
  for (int i = 0; allowed[i]; i++) {
    if (i) strcat(list, ", ");
    strcat(list, allowed[i]);
  }
  return err_set(err, ExitUsage, "--%s %s: wants one of %s", option, value, list);
}

int cli_options(const Cli *cli, Options *o, Error *err) {
  static const char *const dtypes[] = {"fp32", "tf32", "fp16", "bf16", NULL};
  static const char *const lowerings[] = {"fused", "unfused", NULL};
  static const char *const stages[] = {"front", "shape", "simp", "prec", "layout",
                                       "fuse",  "sched", "emit", NULL};
  int code = one_of("dtype", cli->dtype, dtypes, err);
  if (!code) code = one_of("lowering", cli->lowering, lowerings, err);
  if (!code && cli->stage) code = one_of("stage", cli->stage, stages, err);
  if (code) return code;
  *o = (Options){.model = cli->model,
                 .lowering = cli->lowering,
                 .dtype = cli->dtype,
                 .arch = arch_default(),
                 .nset = cli->nset,
                 .set_name = (const char **)cli->set_name,
                 .set_value = (const char **)cli->set_value,
                 .stage = cli->stage};
  if (cli->arch && !(o->arch = arch_find(cli->arch)))
    return err_set(err, ExitUsage, "--arch %s: wants one of sm_80, sm_90a, sm_100a", cli->arch);
  int64_t candidate = 0;
  code = cli->candidate ? cli_number("candidate", cli->candidate, 1, &candidate, err) : ExitOk;
  o->candidate = (int)(candidate % 1000000);
  return code;
}

void cli_tell_tuning(const Cli *cli, const Tuning *tuning, const char *device) {
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

void cli_help(FILE *file, const Verb *verbs, const char *verb) {
  if (!verb) {
    fputs("nngen: neural networks as fused CUDA kernels\n\nusage: nngen [VERB] MODEL.lua "
          "[options]\n\n",
          file);
    for (const Verb *v = verbs; v->name; v++) fprintf(file, "  %-8s %s\n", v->name, v->help);
    fputs("\nnngen VERB --help lists the options of a verb; nngen --version.\n", file);
    return;
  }
  const Verb *v = find_verb(verbs, verb);
  fprintf(file, "nngen %s%s: %s\n\n", verb, v->takes_model ? " MODEL.lua" : "", v->help);
  for (int i = 0; i < kOptions; i++) {
    if (!has_word(options[i].verbs, verb)) continue;
    char left[64];
    snprintf(left, sizeof left, "--%s%s%s", options[i].name, options[i].value ? " " : "",
             options[i].value ? options[i].value : "");
    fprintf(file, "  %-32s %s\n", left, options[i].help);
  }
}
