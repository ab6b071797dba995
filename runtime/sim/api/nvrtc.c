// nvrtc.c: NVRTC's API over the host compiler. A "cubin" is an ELF shared object for this host; the
// "PTX" is the same image.
#include "sim/api/api.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { kProgramMagic = 0x6e767274, kVersionMajor = 13, kVersionMinor = 0 };

struct _nvrtcProgram {
  unsigned magic;
  char *source, *name;
  int count;
  char **headers, **header_names;
  int nexpressions;
  char **expressions; // ended by null
  char **lowered;     // as many, filled on demand
  bool compiled;
  Text image, log;
  Text ptx; // of NVIDIA's front end; else the image is given for it
};

static bool is_program(nvrtcProgram p) {
  return p && p->magic == kProgramMagic;
}

const char *nvrtcGetErrorString(nvrtcResult result) {
#define CASE(name, code)                                                                           \
  case code:                                                                                       \
    return #name;
  switch ((int)result) {
    NVRTC_ERRORS(CASE)
  default:
    return "NVRTC_ERROR unknown";
  }
#undef CASE
}

nvrtcResult nvrtcVersion(int *major, int *minor) {
  if (!major || !minor) return NVRTC_ERROR_INVALID_INPUT;
  if (sim_settings()->nvrtc) return frontend_version(major, minor);
  *major = kVersionMajor;
  *minor = kVersionMinor;
  return NVRTC_SUCCESS;
}

static const int archs[] = {75, 80, 86, 87, 88, 89, 90, 100, 103, 110, 120, 121};

nvrtcResult nvrtcGetNumSupportedArchs(int *count) {
  if (!count) return NVRTC_ERROR_INVALID_INPUT;
  *count = sizeof archs / sizeof *archs;
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetSupportedArchs(int *list) {
  if (!list) return NVRTC_ERROR_INVALID_INPUT;
  memcpy(list, archs, sizeof archs);
  return NVRTC_SUCCESS;
}

// ---- programs -----------------------------------------------------------------------------------

static void free_list(char **list, int count) {
  for (int i = 0; list && i < count; i++) free(list[i]);
  free(list);
}

static void free_program(nvrtcProgram p) {
  free(p->source);
  free(p->name);
  free_list(p->headers, p->count);
  free_list(p->header_names, p->count);
  free_list(p->expressions, p->nexpressions);
  free_list(p->lowered, p->nexpressions);
  text_free(&p->image);
  text_free(&p->log);
  text_free(&p->ptx);
  p->magic = 0;
  free(p);
}

static bool copy_headers(nvrtcProgram p, int count, const char *const *headers,
                         const char *const *names) {
  p->headers = calloc((size_t)count + 1, sizeof *p->headers);
  p->header_names = calloc((size_t)count + 1, sizeof *p->header_names);
  if (!p->headers || !p->header_names) return false;
  for (p->count = 0; p->count < count; p->count++) {
    int i = p->count;
    p->headers[i] = strdup(headers[i]);
    p->header_names[i] = strdup(names[i]);
    if (!p->headers[i] || !p->header_names[i]) return p->count++, false;
  }
  return true;
}

nvrtcResult nvrtcCreateProgram(nvrtcProgram *out, const char *source, const char *name, int count,
                               const char *const *headers, const char *const *include_names) {
  if (!out) return NVRTC_ERROR_INVALID_PROGRAM;
  if (!source || count < 0 || (count && (!headers || !include_names)))
    return NVRTC_ERROR_INVALID_INPUT;
  nvrtcProgram p = calloc(1, sizeof *p);
  if (!p) return NVRTC_ERROR_OUT_OF_MEMORY;
  p->magic = kProgramMagic;
  p->source = strdup(source);
  p->name = strdup(name ? name : "default_program");
  if (!p->source || !p->name || !copy_headers(p, count, headers, include_names))
    return free_program(p), NVRTC_ERROR_OUT_OF_MEMORY;
  *out = p;
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcDestroyProgram(nvrtcProgram *p) {
  if (!p || !is_program(*p)) return NVRTC_ERROR_INVALID_PROGRAM;
  free_program(*p);
  *p = NULL;
  return NVRTC_SUCCESS;
}

// ---- options ------------------------------------------------------------------------------------

typedef struct Options {
  char *list[128]; // for the host compiler, ended by null
  int count;
  int arch;      // 90
  int registers; // of -maxrregcount
} Options;

// NVRTC options and their translation for the host compiler. With a value, which follows after = or
// as the next argument; %s is the value. An empty translation drops the option: README.md lists
// these.
static const struct {
  const char *name;
  bool value;
  const char *host;
} translations[] = {
    {"-D", true, "-D%s"},
    {"--define-macro", true, "-D%s"},
    {"-U", true, "-U%s"},
    {"--undefine-macro", true, "-U%s"},
    {"-I", true, "-I%s"},
    {"--include-path", true, "-I%s"},
    {"-include", true, "-include%s"},
    {"--pre-include", true, "-include%s"},
    {"-std", true, "std"},
    {"--std", true, "std"},
    {"-fmad", true, "fmad"},
    {"--fmad", true, "fmad"},
    {"-arch", true, "arch"},
    {"--gpu-architecture", true, "arch"},
    {"-G", false, "debug"},
    {"--device-debug", false, "debug"},
    {"-lineinfo", false, ""},
    {"--generate-line-info", false, ""},
    {"-use_fast_math", false, ""},
    {"--use_fast_math", false, ""},
    {"-ftz", true, ""},
    {"--ftz", true, ""},
    {"-prec-div", true, ""},
    {"--prec-div", true, ""},
    {"-prec-sqrt", true, ""},
    {"--prec-sqrt", true, ""},
    {"-maxrregcount", true, "registers"},
    {"--maxrregcount", true, "registers"},
    {"-default-device", false, ""},
    {"--device-as-default-execution-space", false, ""},
    {"-dc", false, ""},
    {"-rdc", true, ""},
    {"--relocatable-device-code", true, ""},
    {"-restrict", false, ""},
    {"--restrict", false, ""},
    {"-w", false, ""},
    {"--disable-warnings", false, ""},
    {"-minimal", false, ""},
    {"--minimal", false, ""},
    {"-ptxas-options", true, ""},
    {"--ptxas-options", true, ""},
    {"-Xptxas", true, ""},
    {"--extra-device-vectorization", false, ""},
    {"--split-compile", true, ""},
    {"-no-source-include", false, ""},
    {"--no-source-include", false, ""},
    {"-diag-suppress", true, ""},
    {"--diag-suppress", true, ""},
};

static bool add_option(Options *o, const char *format, const char *value) {
  if (o->count + 1 >= (int)(sizeof o->list / sizeof *o->list)) return false;
  char *text = NULL;
  if (!strcmp(format, "fmad")) {
    text = strdup(!strcmp(value, "false") ? "-ffp-contract=off" : "-ffp-contract=fast");
  } else {
    const char *hole = strstr(format, "%s");
    int n = hole ? (int)(hole - format) : (int)strlen(format);
    if (asprintf(&text, "%.*s%s", n, format, hole ? value : "") < 0) text = NULL;
  }
  o->list[o->count] = text;
  return text && ++o->count;
}

static bool parse_arch(Options *o, const char *value) {
  const char *digits = strchr(value, '_');
  int arch = digits ? atoi(digits + 1) : 0;
  size_t i = 0, n = sizeof archs / sizeof *archs;
  while (i < n && archs[i] != arch) i++;
  if (i == n) return false;
  o->arch = arch;
  if (value[strlen(value) - 1] != 'a') return true;
  char name[64];
  snprintf(name, sizeof name, "__CUDA_ARCH_FEAT_SM%d_ALL", arch);
  return add_option(o, "-D%s", name);
}

static bool parse_registers(Options *o, const char *value) {
  char *end;
  long registers = strtol(value, &end, 10);
  o->registers = (int)registers;
  return end > value && !*end && registers >= 0 && registers < 1 << 16;
}

// NOTE: cusim.h is C++17; older standards differ from it in little that a kernel uses.
static bool add_standard(Options *o, const char *value) {
  const char *older[] = {"c++03", "c++11", "c++14"};
  for (size_t i = 0; i < sizeof older / sizeof *older; i++)
    if (!strcmp(value, older[i])) value = "c++17";
  return add_option(o, "-std=%s", value);
}

// Adds an include folder, as an absolute path: the compiler runs in another folder.
static bool add_folder(Options *o, const char *path) {
  char *whole = realpath(path, NULL);
  bool ok = add_option(o, "-I%s", whole ? whole : path);
  free(whole);
  return ok;
}

static bool apply(Options *o, const char *host, const char *value, Text *log) {
  if (!strcmp(host, "arch")) {
    if (parse_arch(o, value)) return true;
    text_print(log, "nvrtc: error: invalid value for --gpu-architecture (-arch): %s\n", value);
    return false;
  }
  if (!strcmp(host, "registers")) {
    if (parse_registers(o, value)) return true;
    text_print(log, "nvrtc: error: invalid value for --maxrregcount (-maxrregcount): %s\n", value);
    return false;
  }
  if (!strcmp(host, "debug")) return add_option(o, "-O0", "") && add_option(o, "-g", "");
  if (!strcmp(host, "std")) return add_standard(o, value);
  if (!strcmp(host, "-I%s")) return add_folder(o, value);
  return !*host || add_option(o, host, value);
}

// Parses one option with its value. Returns the number of arguments used; 0 if not an option.
static int parse_option(Options *o, const char *const *words, int left, Text *log) {
  for (size_t i = 0; i < sizeof translations / sizeof *translations; i++) {
    const char *name = translations[i].name;
    size_t n = strlen(name);
    if (strncmp(words[0], name, n) != 0) continue;
    const char *rest = words[0] + n;
    if (!translations[i].value) {
      if (*rest) continue;
      return apply(o, translations[i].host, "", log);
    }
    if (*rest == '=') return apply(o, translations[i].host, rest + 1, log);
    if (*rest && n == 2) return apply(o, translations[i].host, rest, log); // -Dname, -Ipath
    if (!*rest && left > 1) return apply(o, translations[i].host, words[1], log) ? 2 : 0;
  }
  return 0;
}

static void free_options(Options *o) {
  for (int i = 0; i < o->count; i++) free(o->list[i]);
}

static bool parse_options(Options *o, int count, const char *const *words, Text *log) {
  for (int i = 0; i < count;) {
    char word[4096]; // without leading and trailing blanks
    snprintf(word, sizeof word, "%s", words[i] + strspn(words[i], " "));
    while (*word && isspace((unsigned char)word[strlen(word) - 1])) word[strlen(word) - 1] = 0;
    const char *pair[2] = {word, i + 1 < count ? words[i + 1] : NULL};
    int taken = *word ? parse_option(o, pair, pair[1] ? 2 : 1, log) : 1;
    if (!taken) {
      text_print(log, "nvrtc: error: unrecognized option %s found\n", word);
      return false;
    }
    i += taken;
  }
  return true;
}

// ---- compiling ----------------------------------------------------------------------------------

static nvrtcResult compile(nvrtcProgram p, Options *o, int count, const char *const *words) {
  const Settings *settings = sim_settings();
  CompileJob job = {.source = p->source,
                    .name = p->name,
                    .header_count = p->count,
                    .headers = (const char *const *)p->headers,
                    .header_names = (const char *const *)p->header_names,
                    .expressions = (const char *const *)p->expressions,
                    .options = (const char *const *)o->list,
                    .arch = o->arch,
                    .registers = o->registers,
                    .checks =
                        (settings->trace ? CusimTrace : 0) | (settings->count ? CusimCount : 0),
                    .optimize = settings->optimize};
  if (settings->nvrtc)
    return frontend_compile(&job, count, words, p->lowered, &p->ptx, &p->image, &p->log);
  return host_compile(&job, &p->image, &p->log);
}

nvrtcResult nvrtcCompileProgram(nvrtcProgram p, int count, const char *const *words) {
  if (!is_program(p)) return NVRTC_ERROR_INVALID_PROGRAM;
  if (count < 0 || (count && !words)) return NVRTC_ERROR_INVALID_INPUT;
  text_free(&p->image);
  text_free(&p->log);
  text_free(&p->ptx);
  Options o = {.arch = 75};
  nvrtcResult r = NVRTC_ERROR_INVALID_OPTION;
  if (parse_options(&o, count, words, &p->log)) r = compile(p, &o, count, words);
  free_options(&o);
  p->compiled = r == NVRTC_SUCCESS;
  return r;
}

static nvrtcResult get_size(nvrtcProgram p, size_t *bytes) {
  if (!is_program(p)) return NVRTC_ERROR_INVALID_PROGRAM;
  if (!bytes) return NVRTC_ERROR_INVALID_INPUT;
  *bytes = p->compiled ? p->image.length : 0;
  return p->compiled ? NVRTC_SUCCESS : NVRTC_ERROR_INVALID_PROGRAM;
}

static nvrtcResult get_image(nvrtcProgram p, char *out) {
  if (!is_program(p) || !p->compiled) return NVRTC_ERROR_INVALID_PROGRAM;
  if (!out) return NVRTC_ERROR_INVALID_INPUT;
  memcpy(out, p->image.data, p->image.length);
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetPTXSize(nvrtcProgram p, size_t *bytes) {
  nvrtcResult r = get_size(p, bytes);
  if (r == NVRTC_SUCCESS && p->ptx.length) *bytes = p->ptx.length + 1;
  return r;
}
nvrtcResult nvrtcGetPTX(nvrtcProgram p, char *out) {
  if (is_program(p) && p->compiled && out && p->ptx.length)
    return memcpy(out, p->ptx.data, p->ptx.length + 1), NVRTC_SUCCESS;
  return get_image(p, out);
}
nvrtcResult nvrtcGetCUBINSize(nvrtcProgram p, size_t *bytes) {
  return get_size(p, bytes);
}
nvrtcResult nvrtcGetCUBIN(nvrtcProgram p, char *out) {
  return get_image(p, out);
}

nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram p, size_t *bytes) {
  if (!is_program(p)) return NVRTC_ERROR_INVALID_PROGRAM;
  if (!bytes) return NVRTC_ERROR_INVALID_INPUT;
  *bytes = p->log.length + 1;
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetProgramLog(nvrtcProgram p, char *out) {
  if (!is_program(p)) return NVRTC_ERROR_INVALID_PROGRAM;
  if (!out) return NVRTC_ERROR_INVALID_INPUT;
  memcpy(out, p->log.data ? p->log.data : "", p->log.length + 1);
  return NVRTC_SUCCESS;
}

// ---- names --------------------------------------------------------------------------------------

nvrtcResult nvrtcAddNameExpression(nvrtcProgram p, const char *expression) {
  if (!is_program(p)) return NVRTC_ERROR_INVALID_PROGRAM;
  if (!expression) return NVRTC_ERROR_INVALID_INPUT;
  if (p->compiled) return NVRTC_ERROR_NO_NAME_EXPRESSIONS_AFTER_COMPILATION;
  size_t room = (size_t)p->nexpressions + 2;
  char **expressions = realloc(p->expressions, room * sizeof *expressions);
  if (expressions) p->expressions = expressions;
  char **lowered = realloc(p->lowered, room * sizeof *lowered);
  if (lowered) p->lowered = lowered;
  char *copy = strdup(expression);
  if (!expressions || !lowered || !copy) return free(copy), NVRTC_ERROR_OUT_OF_MEMORY;
  expressions[p->nexpressions] = copy;
  lowered[p->nexpressions++] = NULL;
  expressions[p->nexpressions] = NULL;
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetLoweredName(nvrtcProgram p, const char *expression, const char **name) {
  if (!is_program(p)) return NVRTC_ERROR_INVALID_PROGRAM;
  if (!expression || !name) return NVRTC_ERROR_INVALID_INPUT;
  if (!p->compiled) return NVRTC_ERROR_NO_LOWERED_NAMES_BEFORE_COMPILATION;
  int i = 0;
  while (i < p->nexpressions && strcmp(p->expressions[i], expression) != 0) i++;
  if (i == p->nexpressions) return NVRTC_ERROR_NAME_EXPRESSION_NOT_VALID;
  if (!p->lowered[i])
    p->lowered[i] = module_lower_name(p->image.data, expression + strspn(expression, "& "));
  *name = p->lowered[i];
  return *name ? NVRTC_SUCCESS : NVRTC_ERROR_NAME_EXPRESSION_NOT_VALID;
}
