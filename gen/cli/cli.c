// cli.c: the command line. `nngen MODEL.lua` with no verb is `nngen run MODEL.lua`.
#include "cli.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum Kind {
  KindFlag,
  KindValue,
  KindFolder,
  KindOldFolder,
  KindSet,
  KindInput,
  KindSetting,
  KindList,
  KindSweep,
  KindOnce // a value; given again, an error
};

typedef struct Option {
  const char *name;
  enum Kind kind;
  size_t offset;     // in Cli
  const char *verbs; // the verbs that accept it, separated by spaces
  const char *value; // placeholder of its value in the help
  const char *help;
} Option;

#define AT(field) offsetof(Cli, field)
static const Option options[] = {
    {"set", KindSet, 0, "run show train tune emit", "NAME=VALUE ...",
     "settings of the model (nn.config); dtype=... too"},
    {"dtype", KindValue, AT(dtype), "run show train tune emit", "fp32|tf32|fp16|bf16",
     "storage and tensor-core precision (fp32)"},
    {"lowering", KindValue, AT(lowering), "run show train tune emit", "fused|unfused",
     "fused kernels, or one per layer call (fused)"},
    {"device", KindValue, AT(device), "run train tune", "auto|cuda|sim",
     "a GPU if there is one, else the simulator (auto)"},
    {"ordinal", KindValue, AT(ordinal), "run train tune", "N", "which GPU (0)"},
    {"sim-frontend", KindValue, AT(sim_frontend), "run train", "cxx|nvrtc",
     "simulator: the front end for CUDA C++, the host's C++ compiler or NVIDIA's NVRTC (cxx)"},
    {"arch", KindValue, AT(arch), "emit", "sm_80,sm_90a,..",
     "machine code for these GPUs (sm_80, sm_90a and the local one), PTX of the lowest"},
    {"arch", KindValue, AT(arch), "run show", "sm_80|sm_90a|sm_100a",
     "compile for this GPU, run nothing"},
    {"tuning", KindValue, AT(tuning), "run show train tune emit", "FILE",
     "measured tiles (CACHE/tuning.json; none: do not use any)"},
    {"candidate", KindValue, AT(candidate), "run show", "N",
     "use the N-th best tile of each contraction by the cost model (1)"},
    {"no-flash", KindFlag, AT(no_flash), "run show train tune emit", NULL,
     "attention as separate kernels for scores, softmax and values"},
    {"recompute", KindValue, AT(recompute), "run show train emit", "none|auto|all",
     "what the backward pass recomputes: as little as --memory allows, or all it can (auto)"},
    {"memory", KindValue, AT(memory), "run show train emit", "BYTES",
     "limit of the activations' memory, for example 500M or 2G (none)"},
    {"weights", KindValue, AT(weights), "run emit", "FILE",
     "safetensors, or an index of several (.json); else seeded random weights"},
    {"input", KindInput, 0, "run", "[NAME=]FILE",
     "a .png or .npy; without it, a generated image or noise"},
    {"output", KindFolder, AT(output), "run", "DIR", "write each output as DIR/NAME.npy"},
    {"labels", KindValue, AT(labels), "run", "FILE", "a name per line: prints the five best"},
    {"check-finite", KindFlag, AT(check_finite), "run train", NULL,
     "refuse weights that hold NaN or infinity"},
    {"seed", KindValue, AT(seed), "run emit", "N", "of weights and inputs (0)"},
    {"entry", KindValue, AT(entry), "run show", "NAME",
     "which entry of the model runs (infer); train and eval: the model as it trains"},
    {"entry", KindValue, AT(entry), "emit", "NAME",
     "train or eval: the model as it trains, with both; all entries are written"},
    {"save", KindValue, AT(save), "run", "FILE",
     "write parameters and states after the run, as safetensors"},
    {"graph", KindFlag, AT(graph), "run", NULL, "replay one captured CUDA graph"},
    {"steps", KindValue, AT(steps), "run", "N",
     "N runs, each from the states of the one before; outputs are written after the last (1)"},
    {"repeat", KindValue, AT(repeat), "run", "N", "time N runs"},
    {"warmup", KindValue, AT(warmup), "run", "N", "runs before the timed ones (3)"},
    {"nvtx", KindValue, AT(nvtx), "run train", "off|model|layer",
     "NVTX ranges for profilers (layer; train: model, where layer launches kernels without a "
     "graph)"},
    {"check", KindFlag, AT(check), "run", NULL, "compare every kernel with the oracle"},
    {"no-check", KindFlag, AT(no_check), "run", NULL,
     "do not compare (default on a GPU when all kernels come from the cache)"},
    {"no-check", KindFlag, AT(no_check), "emit", NULL,
     "no stored results, and no program for them"},
    {"dump", KindFolder, AT(dump), "run", "DIR",
     "write the generated kernels, their images, the plan"},
    {"explain", KindValue, AT(explain), "run", "KERNEL",
     "print the candidate tiles of this kernel, or of this layer's, term by term; nothing runs"},
    {"count", KindFlag, AT(count), "run", NULL,
     "simulator: count accesses, sectors and bank conflicts"},
    {"data", KindOnce, AT(data), "train", "PATH|synthetic",
     "CIFAR-10 or CIFAR-100, folders of PNGs by class (scaled to the model's), or .npy arrays"},
    {"epochs", KindSetting, 0, "train", "N", "passes over the training data (the model's)"},
    {"batch", KindSetting, 0, "train", "N", "examples in a step (the model's)"},
    {"lr", KindSetting, 0, "train", "X", "learning rate (the model's)"},
    {"warmup", KindSetting, 0, "train", "N", "steps of learning rate warmup (the model's)"},
    {"label-smoothing", KindSetting, 0, "train", "X", "weight spread evenly over all classes (0)"},
    {"optimizer", KindSetting, 0, "train", "NAME",
     "sgd, adam, adamw, adamax, nadam, radam, rmsprop, adagrad, adadelta, rprop, asgd, lion or "
     "muon (the model's)"},
    {"schedule", KindSetting, 0, "train", "NAME",
     "of the learning rate: constant, step, linear, polynomial, cosine, exponential, "
     "inverse_sqrt or one_cycle (the model's)"},
    {"clip-norm", KindSetting, 0, "train", "X",
     "largest norm of the gradient; 0: any (the model's)"},
    {"weight-decay", KindSetting, 0, "train", "X",
     "default weight decay (the model's)"},
    {"freeze", KindList, AT(freeze), "train", "PATTERN,..",
     "parameters that are not trained: 'layer1.*'"},
    {"accumulate", KindSetting, 0, "train", "N",
     "gradient accumulation: an update every N steps, by their mean gradient (1)"},
    {"ema", KindSetting, 0, "train", "X",
     "evaluate and save a moving average of the weights, e.g. 0.999 (the model's)"},
    {"amp", KindValue, AT(amp), "train", "fp16|bf16",
     "mixed precision; fp16 with dynamic loss scaling"},
    {"init", KindValue, AT(weights), "train", "FILE", "safetensors to start from"},
    {"reset", KindList, AT(reset), "train", "PATTERN,..",
     "with --init: parameters, or a layer, initialized from the seed instead: fc"},
    {"seed", KindValue, AT(seed), "train", "N", "of weights, order and augmentation (0)"},
    {"steps", KindValue, AT(steps), "train", "N",
     "stop after N steps (all epochs; without data 100 steps an epoch)"},
    {"workers", KindValue, AT(workers), "train", "N", "threads that read data (2)"},
    {"out-dir", KindFolder, AT(output), "train", "DIR", "checkpoints, log, weights (MODEL_train)"},
    {"resume", KindFlag, AT(resume), "train", NULL, "continue from the checkpoint in --out-dir"},
    {"save-every", KindValue, AT(save_every), "train", "N", "epochs between checkpoints (1)"},
    {"patience", KindValue, AT(patience), "train", "N",
     "stop after N evaluations without improvement (0: never)"},
    {"log-every", KindValue, AT(log_every), "train", "N", "steps between progress lines (50)"},
    {"tensorboard", KindFlag, AT(tensorboard), "train", NULL, "write TensorBoard event files too"},
    {"profile-one-step", KindFlag, AT(profile_step), "train", NULL,
     "run warmup steps, then one step in an NVTX range, then stop"},
    {"warmup-iters", KindValue, AT(warmup_iters), "train", "N",
     "warmup steps of --profile-one-step (10)"},
    {"profile-iter", KindValue, AT(profile_iter), "train", "N",
     "the step that --profile-one-step marks, from 1 (the first after the warmup steps)"},
    {"sweep", KindSweep, 0, "train", "NAME=A,B ...",
     "a short run (--steps, 20) for each combination of settings, models, --amp and --dtype: "
     "batch=16,32 model=resnet18,resnet34"},
    {"json", KindFlag, AT(json), "run show doctor cache train tune", NULL,
     "results as JSON on stdout"},
    {"markdown", KindFlag, AT(markdown), "help", NULL, "all functions, as in models/README.md"},
    {"quiet", KindFlag, AT(quiet), "run train tune emit", NULL, "no progress lines"},
    {"cache-dir", KindFolder, AT(cache_dir), "run cache train tune emit", "DIR",
     "where compiled kernels are kept"},
    {"no-cache", KindFlag, AT(no_cache), "run train tune emit", NULL,
     "neither read nor write compiled kernels"},
    {"cuda-path", KindOldFolder, AT(cuda_path), "run doctor train tune emit", "DIR",
     "search CUDA libraries here first"},
    {"stage", KindValue, AT(stage), "show", "PASS",
     "front shape simp prec recompute layout fuse sched order emit"},
    {"cuda", KindFlag, AT(cuda), "show", NULL, "the generated CUDA"},
    {"kernel", KindValue, AT(kernel), "show", "KERNEL",
     "the CUDA of this kernel only, or of this layer's: layer1.0.conv1"},
    {"costs", KindFlag, AT(costs), "show", NULL,
     "modelled time of each kernel, its lower bound, its padding (--json too)"},
    {"plan", KindFlag, AT(plan), "show", NULL, "the plan, as JSON"},
    {"dot", KindFlag, AT(dot), "show", NULL, "a drawing for graphviz: | dot -Tsvg"},
    {"out", KindFolder, AT(output), "emit", "DIR", "where the files go; -o DIR too"},
    {"name", KindValue, AT(name), "emit", "NAME", "name of files, prefix of symbols (the model's)"},
    {"weights-in-code", KindFlag, AT(weights_in_code), "emit", NULL,
     "parameters as an array in the program, not as a file"},
    {"kernels-only", KindFlag, AT(kernels_only), "emit", NULL,
     "the kernels and the list of launches, for your own host code"},
    {"lang", KindValue, AT(lang), "emit", "c|cpp|cuda-runtime",
     "host code over the driver API (c) or the runtime API; cpp: a header for C++20, too"},
    {"diff", KindFolder, AT(diff), "emit", "OLD",
     "write nothing: which kernels differ from those in this folder, and why"},
    {"help", KindFlag, AT(help), "run show doctor cache train tune emit help", NULL,
     "print these options"},
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

static int add_set(Cli *cli, const char *name, const char *value, const char *flag, Error *err) {
  if (cli->nset == kMostSets) return err_set(err, ExitUsage, "more than %d --set", kMostSets);
  cli->set_name[cli->nset] = name;
  cli->set_flag[cli->nset] = flag;
  cli->set_value[cli->nset++] = value;
  return ExitOk;
}

// A setting of the model (nn.config) with its own option: --label-smoothing sets label_smoothing.
static const char *setting_name(Cli *cli, const char *option) {
  char *name = cli->setting[cli->nset % kMostSets];
  snprintf(name, sizeof cli->setting[0], "%s", option);
  for (char *s = name; *s; s++)
    if (*s == '-') *s = '_';
  return name;
}

static int take_set(Cli *cli, char *text, Error *err) {
  char *equal = strchr(text, '=');
  if (!equal || equal == text)
    return err_set(err, ExitUsage, "--set: expected NAME=VALUE, got '%s'", text);
  *equal = 0;
  if (!strcmp(text, "dtype")) { // every model has this setting
    cli->dtype = equal + 1;
    return ExitOk;
  }
  return add_set(cli, text, equal + 1, NULL, err);
}

// Comma-separated list; if the option is given again, the lists are joined.
static int add_to_list(Cli *cli, const Option *o, const char *value, Error *err) {
  const char **list = (const char **)((char *)cli + o->offset);
  size_t room = sizeof cli->joined - cli->njoined;
  char *both = cli->joined + cli->njoined;
  if (!*list) return *list = value, ExitOk;
  size_t length = (size_t)snprintf(both, room, "%s,%s", *list, value);
  if (length >= room) return err_set(err, ExitUsage, "--%s: the list is too long", o->name);
  cli->njoined += length + 1;
  *list = both;
  return ExitOk;
}

static int take_value(Cli *cli, const Option *o, char *value, Error *err) {
  struct stat info;
  switch (o->kind) {
  case KindSet:
    return take_set(cli, value, err);
  case KindSetting:
    return add_set(cli, setting_name(cli, o->name), value, o->name, err);
  case KindList:
    return add_to_list(cli, o, value, err);
  case KindSweep:
    if (cli->nsweep == kMostSweeps || !strchr(value, '='))
      return err_set(err, ExitUsage, "--sweep: expected up to %d of NAME=A,B,..., got '%s'",
                     kMostSweeps, value);
    cli->sweep[cli->nsweep++] = value;
    return ExitOk;
  case KindOnce:
    if (*(const char **)((char *)cli + o->offset))
      return err_set(err, ExitUsage, "--%s %s and --%s %s: one of the two", o->name,
                     *(const char **)((char *)cli + o->offset), o->name, value);
    break;
  case KindOldFolder: // which must be there
    if (stat(value, &info) || !S_ISDIR(info.st_mode))
      return err_set(err, ExitUsage, "--%s %s: no such folder", o->name, value);
    break;
  case KindFolder:
    if (!stat(value, &info) && !S_ISDIR(info.st_mode))
      return err_set(err, ExitUsage, "--%s %s: is a file; expected a folder", o->name, value);
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

// Parses the option at argv[*i]; leaves *i at its last argument. Returns an ExitCode.
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
    return err_set(err, ExitUsage, "--%s: expected a value: %s", name, o->value);
  int code = take_value(cli, o, equal ? equal + 1 : argv[++*i], err);
  while (!code && o->kind == KindSet && !equal && *i + 1 < argc && argv[*i + 1][0] != '-' &&
         strchr(argv[*i + 1], '='))
    code = take_set(cli, argv[++*i], err); // --set a=1 b=2
  while (!code && o->kind == KindSweep && !equal && *i + 1 < argc && argv[*i + 1][0] != '-' &&
         strchr(argv[*i + 1], '='))
    code = take_value(cli, o, argv[++*i], err);
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
      (argc == 2 && !strcmp(argv[1], "help"))) {
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
    return err_set(err, ExitUsage,
                   "'%s' is neither a verb nor a model file (.lua); did you mean '%s'?", word,
                   near);
  return err_set(err, ExitUsage, "'%s' is neither a verb nor a model file (.lua); see nngen --help",
                 word);
}

// --arch compiles for a GPU that is not here: options that need a run are refused.
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
                  {"save", cli->save},
                  {"steps", cli->steps},
                  {"graph", cli->graph},
                  {"repeat", cli->repeat},
                  {"warmup", cli->warmup},
                  {"check", cli->check},
                  {"count", cli->count}};
  for (size_t i = 0; i < sizeof need_run / sizeof need_run[0]; i++)
    if (need_run[i].given)
      return err_set(err, ExitUsage,
                     "--arch %s only compiles, and --%s needs a run: omit one of them",
                     cli->arch, need_run[i].name);
  return ExitOk;
}

// An argument that is not an option: the model file, or the argument of help and cache.
static int take_argument(Cli *cli, const char *word, Error *err) {
  if (!strcmp(word, "-h")) {
    cli->help = true;
    return ExitOk;
  }
  if (word[0] == '-')
    return err_set(err, ExitUsage, "unknown option %s; see nngen %s --help", word, cli->verb);
  if (!strcmp(cli->verb, "doctor"))
    return err_set(err, ExitUsage, "'%s': nngen doctor takes no argument, only options", word);
  if (!cli->model) {
    cli->model = word;
    return ExitOk;
  }
  if (!strcmp(cli->verb, "help"))
    return err_set(err, ExitUsage, "'%s': help of one function at a time", word);
  if (!strcmp(cli->verb, "cache"))
    return err_set(err, ExitUsage, "'%s': one of ls, verify and clear at a time ('%s' was given)",
                   word, cli->model);
  return err_set(err, ExitUsage, "'%s': one model at a time ('%s' was given)", word, cli->model);
}

int cli_parse(const Verb *verbs, int argc, char **argv, Cli *cli, Error *err) {
  *cli = (Cli){
      .verbs = verbs, .lowering = "fused", .dtype = "fp32", .device = "auto", .nvtx = "layer"};
  int i, code = pick_verb(argc, argv, cli, &i, err);
  if (code || !cli->verb) return code;
  if (!strcmp(cli->verb, "train")) cli->nvtx = "model";
  for (; !code && i < argc; i++) {
    if (!strcmp(argv[i], "-o") && !strcmp(cli->verb, "emit")) argv[i] = (char *)"--out";
    if (!strncmp(argv[i], "--", 2))
      code = take_option(cli, argc, argv, &i, err);
    else
      code = take_argument(cli, argv[i], err);
  }
  if (!code && !cli->help && find_verb(cli->verbs, cli->verb)->takes_model && !cli->model)
    code =
        err_set(err, ExitUsage, "nngen %s: expected a model file, as in: nngen %s models/lenet.lua",
                cli->verb, cli->verb);
  if (!code && cli->arch && !strcmp(cli->verb, "run")) code = check_arch(cli, err);
  if (!code && cli->explain && cli->json)
    code = err_set(err, ExitUsage, "--explain prints text: omit --json");
  return code;
}

int cli_number(const char *option, const char *text, int64_t least, int64_t fallback,
               int64_t *value, Error *err) {
  enum { kLargest = 1000000000 };
  *value = fallback;
  if (!text) return ExitOk;
  char *end;
  *value = strtoll(text, &end, 10);
  if (end == text || *end || *value < least || *value > kLargest)
    return err_set(err, ExitUsage, "--%s: expected a whole number from %lld to %d, got '%s'",
                   option, (long long)least, kLargest, text);
  return ExitOk;
}

void cli_help(FILE *file, const Verb *verbs, const char *verb) {
  if (!verb) {
    fputs("nngen: neural networks as fused CUDA kernels\n\nusage: nngen [VERB] MODEL.lua "
          "[options]\n\n",
          file);
    for (const Verb *v = verbs; v->name; v++) fprintf(file, "  %-8s %s\n", v->name, v->help);
    fputs("\nnngen VERB --help lists the options of a verb; nngen --version.\n"
          "nngen help nn lists the functions of model files; nngen help NAME describes one.\n",
          file);
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
