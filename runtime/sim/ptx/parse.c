// parse.c: parses a module of PTX; variables are in parse_variable.c, bodies of functions in
// parse_body.c.
#include "sim/ptx/parse.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// NOTE: CUDA 13.0 writes 9.0; Triton 3.9, whose assembler is newer, 9.4.
enum { kNewestVersion = 94, kOldestVersion = 30 };

void parse_fail(Parser *p, const char *format, ...) {
  char text[400];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  ptx_fail(p->ptx, CUDA_ERROR_INVALID_PTX, p->line ? p->line : p->now.line, "%s", text);
}

void parse_next(Parser *p) {
  p->p = p->now.begin + p->now.length;
  p->line = p->now.line;
  p->now = ptx_lex(p->ptx, p->p, p->now.line);
}

bool parse_is(const Parser *p, const char *word) {
  return strlen(word) == p->now.length && !memcmp(p->now.begin, word, p->now.length);
}

bool parse_take(Parser *p, const char *word) {
  if (!parse_is(p, word)) return false;
  parse_next(p);
  return true;
}

int parse_shown(const Parser *p) {
  return p->now.length < 60 ? (int)p->now.length : 60;
}

void parse_need(Parser *p, const char *word) {
  if (parse_take(p, word)) return;
  if (p->now.kind == TokEnd) parse_fail(p, "the text ends where `%s` is awaited", word);
  parse_fail(p, "`%s` is awaited before `%.*s`", word, parse_shown(p), p->now.begin);
}

char *parse_name(Parser *p) {
  if (p->now.kind != TokName || *p->now.begin == '.')
    parse_fail(p, "a name is awaited before `%.*s`", parse_shown(p), p->now.begin);
  char *name = ptx_string(p->ptx, p->now.begin, p->now.length);
  parse_next(p);
  return name;
}

// 12, 0x1f, 017, 0b1, 12U, 0f3F800000, 0d3FF0000000000000, 1.5; kind: how its bits are meant.
uint64_t parse_number(Parser *p, OperandKind *kind) {
  if (p->now.kind != TokNumber)
    parse_fail(p, "a number is awaited before `%.*s`", parse_shown(p), p->now.begin);
  char text[64], *end = text;
  snprintf(text, sizeof text, "%.*s", parse_shown(p), p->now.begin);
  uint64_t bits;
  *kind = OpInt;
  errno = 0;
  bool zero = text[0] == '0';
  if (zero && strchr("fF", text[1]) && text[1]) {
    *kind = OpFloat, bits = strtoull(text + 2, &end, 16);
  } else if (zero && strchr("dD", text[1]) && text[1]) {
    *kind = OpDouble, bits = strtoull(text + 2, &end, 16);
  } else if (zero && strchr("bB", text[1]) && text[1]) {
    bits = strtoull(text + 2, &end, 2);
  } else if (strpbrk(text, ".eE") && strncasecmp(text, "0x", 2) != 0) {
    double value = strtod(text, &end);
    memcpy(&bits, &value, sizeof bits);
    *kind = OpDouble;
  } else {
    bits = strtoull(text, &end, 0);
    end += *end == 'U' || *end == 'u';
  }
  if (*end) parse_fail(p, "`%s` is no number", text);
  if (errno == ERANGE && *kind == OpInt) parse_fail(p, "`%s` has more than 64 bits", text);
  parse_next(p);
  return bits;
}

uint64_t parse_integer(Parser *p) {
  OperandKind kind;
  bool minus = parse_take(p, "-");
  uint64_t n = parse_number(p, &kind);
  if (kind != OpInt) parse_fail(p, "a whole number is awaited");
  return minus ? -n : n;
}

PtxFunc *module_func(const PtxModule *module, const char *name) {
  int i = table_get(&module->names, 0, name);
  return i <= -2 ? module->funcs[-2 - i] : NULL;
}

PtxVar *module_var(const PtxModule *module, const char *name) {
  int i = table_get(&module->names, 0, name);
  return i >= 0 ? module->vars[i] : NULL;
}

void *list_more(Ptx *ptx, void *list, int count, size_t size) {
  if (count & (count - 1)) return list; // no power of two: there is room
  void *grown = ptx_alloc(ptx, (size_t)(count ? 2 * count : 1) * size);
  if (count) memcpy(grown, list, (size_t)count * size);
  return grown;
}

// ---- names of pieces ----------------------------------------------------------------------------

typedef enum Linkage { LinkLocal, LinkVisible, LinkExternal, LinkWeak } Linkage;

static const char *local_name(const Parser *p, const char *name) {
  char number[16];
  int digits = snprintf(number, sizeof number, ".%d", p->piece);
  size_t n = strlen(name);
  char *text = ptx_alloc(p->ptx, n + (size_t)digits + 1);
  memcpy(text, name, n);
  memcpy(text + n, number, (size_t)digits + 1);
  return text;
}

const char *parse_known_as(const Parser *p, const char *name) {
  if (!p->piece) return name;
  const char *local = local_name(p, name);
  return table_get(&p->module->names, 0, local) != -1 ? local : name;
}

static const char *key_of(const Parser *p, const char *name, Linkage linkage) {
  return p->piece && linkage == LinkLocal ? local_name(p, name) : name;
}

// ---- variables ----------------------------------------------------------------------------------

static void add_module_var(Parser *p, PtxVar *var, Linkage linkage) {
  PtxModule *m = p->module;
  const char *key = key_of(p, var->name, linkage);
  PtxVar *known = module_var(m, key);
  if (known && (var->external || (var->weak && !known->external))) return;
  if (known && (known->external || known->weak)) { // declared before it is defined
    *known = *var;
    return;
  }
  if (known || module_func(m, key)) parse_fail(p, "%s is defined twice", var->name);
  var->name = key;
  m->vars = list_more(p->ptx, m->vars, m->nvars, sizeof *m->vars);
  table_put(p->ptx, &m->names, 0, key, m->nvars);
  m->vars[m->nvars++] = var;
}

// NOTE: the 1024 reserved bytes, which a GPU uses for cooperative groups, are here after the
// kernel's variables and count as one of them.
PtxVar *parse_reserved(Parser *p, const char *name) {
  enum { kBytes = 288 }; // that cooperative groups count on
  PtxVar *var = module_var(p->module, name);
  if (var) return var;
  var = ptx_alloc(p->ptx, sizeof *var);
  *var = (PtxVar){.name = name, .space = SpaceShared, .type = ptx_type_of("b8"), .align = 16,
                  .line = p->line, .count = kBytes};
  var->c_name = ptx_string(p->ptx, name + 1, strlen(name + 1));
  add_module_var(p, var, LinkVisible);
  return var;
}

static void parse_module_variables(Parser *p, PtxSpace space, Linkage linkage) {
  parse_next(p);
  PtxVar *var = NULL;
  do {
    var = parse_variable(p, space, true, var);
    var->external = linkage == LinkExternal;
    var->weak = linkage == LinkWeak;
    add_module_var(p, var, linkage);
  } while (parse_take(p, ","));
  parse_need(p, ";");
}

// ---- functions ----------------------------------------------------------------------------------

static PtxVar **parse_params(Parser *p, bool entry, int *count) {
  PtxVar **list = NULL;
  *count = 0;
  parse_need(p, "(");
  while (!parse_is(p, ")")) {
    if (parse_take(p, "...")) parse_fail(p, "functions with any number of parameters");
    bool in_reg = !entry && parse_take(p, ".reg");
    if (!in_reg && !parse_take(p, ".param"))
      parse_fail(p, "`.param` is awaited before `%.*s`", parse_shown(p), p->now.begin);
    list = list_more(p->ptx, list, *count, sizeof *list);
    PtxVar *var = parse_variable(p, SpaceParam, false, NULL);
    if (in_reg && (var->count != 1 || var->type.bits < 8))
      parse_fail(p, "%s: of parameters in registers, numbers alone are done", var->name);
    var->in_reg = in_reg;
    list[(*count)++] = var;
    if (!parse_take(p, ",")) break;
  }
  parse_need(p, ")");
  return list;
}

int parse_signature(Parser *p, PtxFunc *func) {
  if (parse_is(p, "(")) func->returns = parse_params(p, func->entry, &func->nreturns);
  func->name = parse_name(p);
  if (parse_is(p, "(")) func->params = parse_params(p, func->entry, &func->nparams);
  return func->nparams;
}

static int product(Parser *p, int out[3]) {
  int all = 1;
  for (int i = 0; i < 3; i++) {
    int n = 1;
    if (i == 0 || parse_take(p, ",")) n = (int)parse_integer(p);
    if (out) out[i] = n;
    else if (n < 1) parse_fail(p, "a block has a thread at least");
    all *= n > 0 && n < 1 << 11 ? n : 1; // each is at most 1024, so the product does not overflow
  }
  return all;
}

static int positive(Parser *p) {
  int64_t n = parse_integer(p);
  if (n < 1) parse_fail(p, "a limit is 1 at least");
  return (int)n;
}

static bool take_cluster(Parser *p, const char *word) {
  if (!parse_is(p, word)) return false;
  if (p->module->arch < 90)
    parse_fail(p, "`%s` needs .target sm_90, not %s", word,
               p->module->target ? p->module->target : "none");
  return parse_take(p, word);
}

static void parse_limits(Parser *p, PtxFunc *func) {
  bool most = false, exact = false, rank = false, cluster = false; // were given
  for (;;) {
    if (parse_take(p, ".maxntid")) func->limits.threads = product(p, NULL), most = true;
    else if (parse_take(p, ".reqntid")) func->limits.threads = product(p, NULL), exact = true;
    else if (parse_take(p, ".minnctapersm")) func->limits.blocks = positive(p);
    else if (parse_take(p, ".maxnreg")) func->limits.registers = positive(p);
    else if (take_cluster(p, ".reqnctapercluster")) product(p, func->cluster), cluster = true;
    else if (take_cluster(p, ".maxclusterrank")) positive(p), rank = true;
    else if (parse_take(p, ".maxnctapersm")) parse_integer(p);
    else if (parse_take(p, ".pragma")) {
      while (!parse_take(p, ";") && p->now.kind != TokEnd) parse_next(p);
    } else if (!take_cluster(p, ".explicitcluster") && !parse_take(p, ".noreturn") &&
               !take_cluster(p, ".blocksareclusters") && !parse_take(p, ".unified"))
      break;
  }
  if ((most && exact) || (rank && cluster))
    parse_fail(p, "%s: a limit and a size that is required", func->name);
}

// One that was declared before, or a new one.
static PtxFunc *known_func(Parser *p, PtxFunc *func, Linkage linkage) {
  PtxModule *m = p->module;
  const char *key = key_of(p, func->name, func->entry ? LinkVisible : linkage);
  PtxFunc *known = module_func(m, key);
  if (known) return known;
  if (module_var(m, key)) parse_fail(p, "%s is defined twice", func->name);
  m->funcs = list_more(p->ptx, m->funcs, m->nfuncs, sizeof *m->funcs);
  table_put(p->ptx, &m->names, 0, key, -2 - m->nfuncs);
  return m->funcs[m->nfuncs++] = func;
}

static void parse_function(Parser *p, bool entry, Linkage linkage) {
  PtxFunc *func = ptx_alloc(p->ptx, sizeof *func);
  parse_next(p);
  func->line = p->now.line;
  func->entry = entry;
  func->external = linkage == LinkExternal;
  func->weak = linkage == LinkWeak;
  if (parse_take(p, ".attribute")) parse_fail(p, "attributes of functions");
  parse_signature(p, func);
  parse_limits(p, func);
  PtxFunc *known = known_func(p, func, linkage);
  if (parse_take(p, ";")) return;
  if (known->defined && !known->weak && !func->weak)
    parse_fail(p, "%s is defined twice", func->name);
  if (known->defined && func->weak) { // the one before it stays
    parse_body(p, func);
    return;
  }
  if (known != func) *known = *func;
  known->defined = true;
  parse_body(p, known);
}

// ---- the module ---------------------------------------------------------------------------------

static void parse_version(Parser *p) {
  char text[16];
  snprintf(text, sizeof text, "%.*s", parse_shown(p), p->now.begin);
  char *dot = strchr(text, '.');
  int line = p->now.line;
  if (p->now.kind != TokNumber || !dot) parse_fail(p, "`%s` is no version", text);
  p->module->version = (int)fmin(strtod(text, NULL), 1e6) * 10 + (atoi(dot + 1) & 0xffff);
  parse_next(p);
  if (p->module->version > kNewestVersion || p->module->version < kOldestVersion)
    ptx_fail(p->ptx, CUDA_ERROR_UNSUPPORTED_PTX_VERSION, line,
             "PTX of version %s; from %d.%d to %d.%d are known", text, kOldestVersion / 10,
             kOldestVersion % 10, kNewestVersion / 10, kNewestVersion % 10);
}

// The first version of PTX that has the target.
static int first_version(int arch) {
  static const struct {
    int arch, version;
  } known[] = {{50, 40}, {52, 41}, {53, 42}, {60, 50}, {70, 60}, {72, 61}, {75, 63}, {80, 70},
               {86, 71}, {87, 74}, {89, 78}, {90, 78}, {100, 86}, {120, 87}};
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (known[i].arch == arch) return known[i].version;
  return 0;
}

static void parse_target(Parser *p) {
  p->module->target = parse_name(p);
  const char *digits = strchr(p->module->target, '_');
  p->module->arch = digits ? atoi(digits + 1) : 0;
  if (strncmp(p->module->target, "sm_", 3) != 0 || p->module->arch < 10)
    parse_fail(p, "`%s` is no target", p->module->target);
  int first = first_version(p->module->arch), version = p->module->version;
  if (version < first)
    parse_fail(p, "%s needs PTX of version %d.%d, not %d.%d", p->module->target, first / 10,
               first % 10, version / 10, version % 10);
  while (parse_take(p, ",")) {
    const char *option = parse_name(p);
    if (!strcmp(option, "texmode_unified") || !strcmp(option, "texmode_independent"))
      parse_fail(p, "textures are not modelled");
  }
}

// NVRTC puts its working folder before a program's file names; reports use the program's names.
static const char *relative(Parser *p, const char *path) {
  char folder[1024];
  size_t n = getcwd(folder, sizeof folder) ? strlen(folder) : 0;
  bool inside = n > 1 && !strncmp(path, folder, n) && path[n] == '/';
  return inside ? ptx_string(p->ptx, path + n + 1, strlen(path + n + 1)) : path;
}

static void parse_file(Parser *p) {
  PtxModule *m = p->module;
  int number = (int)parse_integer(p);
  if (number < 0 || number > 1 << 16 || p->now.kind != TokString) parse_fail(p, "`.file` of what?");
  while (m->nfiles <= number) {
    m->files = list_more(p->ptx, m->files, m->nfiles, sizeof *m->files);
    m->files[m->nfiles++] = NULL;
  }
  m->files[number] = relative(p, ptx_string(p->ptx, p->now.begin + 1, p->now.length - 2));
  parse_next(p);
  while (parse_take(p, ",")) parse_integer(p);
}

// `.section .debug_info { ... }`: debug information, which the C compiler makes anew.
static void skip_section(Parser *p) {
  while (!parse_is(p, "{") && p->now.kind != TokEnd) parse_next(p);
  while (!parse_is(p, "}") && p->now.kind != TokEnd) parse_next(p);
  parse_need(p, "}");
}

static void parse_definition(Parser *p) {
  Linkage linkage = LinkLocal;
  for (;; parse_next(p)) {
    if (parse_is(p, ".extern")) linkage = LinkExternal;
    else if (parse_is(p, ".weak") || parse_is(p, ".common")) linkage = LinkWeak;
    else if (parse_is(p, ".visible")) linkage = LinkVisible;
    else break;
  }
  PtxSpace space = parse_space(p);
  if (parse_is(p, ".entry") || parse_is(p, ".func"))
    parse_function(p, parse_is(p, ".entry"), linkage);
  else if (space == SpaceGlobal || space == SpaceConst || space == SpaceShared)
    parse_module_variables(p, space, linkage);
  else
    parse_fail(p, "`%.*s` is nothing that stands in a module", parse_shown(p), p->now.begin);
}

// `.alias name, function;`: another name of a function that the module defines.
static void parse_alias(Parser *p) {
  const char *name = parse_name(p);
  parse_need(p, ",");
  const char *of = parse_name(p);
  parse_need(p, ";");
  int function = table_get(&p->module->names, 0, parse_known_as(p, of));
  if (function > -2) parse_fail(p, "%s is no function", of);
  table_put(p->ptx, &p->module->names, 0, name, function);
}

static void parse_top(Parser *p) {
  if (parse_take(p, ".version")) {
    parse_version(p);
    p->piece += p->piece > 0;
  }
  else if (parse_take(p, ".target")) parse_target(p);
  else if (parse_take(p, ".address_size")) {
    if (parse_integer(p) != 64) parse_fail(p, "addresses of 64 bits alone are modelled");
  } else if (parse_take(p, ".file")) parse_file(p);
  else if (parse_take(p, ".section")) skip_section(p);
  else if (parse_take(p, ".alias")) parse_alias(p);
  else if (parse_take(p, ".pragma")) {
    parse_next(p);
    parse_need(p, ";");
  } else if (parse_is(p, ".tex") || parse_is(p, ".texref") || parse_is(p, ".surfref") ||
             parse_is(p, ".samplerref"))
    parse_fail(p, "textures and surfaces are not modelled");
  else
    parse_definition(p);
}

PtxModule *ptx_parse(Ptx *ptx, const char *text) {
  PtxModule *module = ptx_alloc(ptx, sizeof *module);
  Parser *p = ptx_alloc(ptx, sizeof *p);
  module->ptx = ptx;
  *p = (Parser){.ptx = ptx, .module = module, .p = text};
  p->now = ptx_lex(ptx, text, 1);
  module->locs = ptx_alloc(ptx, sizeof *module->locs);
  module->nlocs = 1;
  if (!parse_is(p, ".version")) parse_fail(p, "a module begins with .version");
  p->piece = strstr(p->now.begin + 1, "\n.version") != NULL;
  while (p->now.kind != TokEnd) parse_top(p);
  if (!module->target) parse_fail(p, "the module names no .target");
  return module;
}
