// embed_names.c: identifiers of an emitted network: valid and unique C names for tensors, kernels
// and entries.
#include "emit.h"

#include <ctype.h>
#include <string.h>

// The kernel's name without the model's prefix.
static const char *short_name(const Embed *e, const char *name) {
  size_t n = strlen(e->plan->model);
  return !strncmp(name, e->plan->model, n) && !strncmp(name + n, "__", 2) ? name + n + 2 : name;
}

// Shortens names of kernels that fuse many ops, at a word boundary.
static const char *member_name(Embed *e, const char *name) {
  enum { kMost = 48 };
  const char *text = short_name(e, name);
  size_t n = strlen(text);
  if (n <= kMost) return text;
  for (n = kMost; n > kMost / 2 && text[n] != '_'; n--) continue;
  return arena_printf(e->arena, "%.*s", (int)n, text);
}

// The first kernel that writes tensor t, or -1.
static int writer_of(const Plan *plan, int t) {
  for (int i = 0; i < plan->nkernels; i++)
    for (int j = 0; j < plan->kernels[i].nargs; j++)
      if (plan->kernels[i].args[j].tensor == t && plan->kernels[i].args[j].written) return i;
  return -1;
}

// Intermediate values have names like `relu`; the layer's name is prefixed.
static const char *tensor_name(Embed *e, int t) {
  const PlanTensor *tensor = &e->plan->tensors[t];
  int writer = writer_of(e->plan, t);
  if (tensor->role != RoleTemp || writer < 0) return tensor->name;
  const PlanKernel *kernel = &e->plan->kernels[writer];
  const char *within = short_name(e, tensor->name);
  if (within != tensor->name) return within; // scratch of a kernel
  if (tensor->space != SpaceArena) return arena_printf(e->arena, "%s_packed", tensor->name);
  size_t n = strlen(kernel->layer);
  if (!strncmp(tensor->name, kernel->layer, n)) return tensor->name;
  const char *last = strrchr(tensor->name, '.'); // layer1.0.relu, computed by layer1.0.conv1
  return arena_printf(e->arena, "%s_%s", kernel->layer, last ? last + 1 : tensor->name);
}

// An input and an output of the same name are fields of different structs.
static const char *border_ident(const Embed *e, int t) {
  const PlanTensor *tensors = e->plan->tensors;
  if (tensors[t].role != RoleInput && tensors[t].role != RoleOutput) return NULL;
  for (int i = 0; i < t; i++)
    if (tensors[i].role == tensors[t].role && !strcmp(tensors[i].name, tensors[t].name))
      return e->tensor[i];
  return NULL;
}

// Intermediate values are variables of their entry's function.
static void name_values(Embed *e, const PlanEntry *entry, Names *others) {
  Names *names = names_new(e->arena, others);
  for (int i = 0; i < entry->nsteps; i++) {
    const PlanStep *step = &entry->steps[i];
    const PlanKernel *kernel = &e->plan->kernels[step->kernel];
    for (int j = 0; step->kind == StepLaunch && j < kernel->nargs; j++) {
      int t = kernel->args[j].tensor;
      if (!e->tensor[t]) e->tensor[t] = names_take(names, tensor_name(e, t));
    }
  }
}

static const char *upper(Arena *arena, const char *text) {
  char *copy = arena_dup(arena, text);
  for (char *s = copy; *s; s++) *s = (char)toupper((unsigned char)*s);
  return copy;
}

// An entry's functions and structs begin with its name, and its constant is the name in capitals;
// none may collide.
static const char *take_entry(Embed *e, Names *functions, Names *constants, const char *wanted) {
  static const char *const ends[] = {"",        "_host",         "_inputs",       "_outputs",
                                     "_capture", "_profile",      "_host_inputs", "_host_outputs"};
  for (int n = 1;; n++) {
    const char *name = n == 1 ? wanted : arena_printf(e->arena, "%s_%d", wanted, n);
    const char *constant = arena_printf(e->arena, "%s_LAUNCHES", upper(e->arena, name));
    bool taken = names_has(constants, constant);
    for (size_t i = 0; i < LENGTH(ends) && (i == 0 || strcmp(name, "run")); i++)
      taken = taken || names_has(functions, arena_printf(e->arena, "%s%s", name, ends[i]));
    if (taken) continue;
    for (size_t i = 0; i < LENGTH(ends); i++)
      names_reserve(functions, arena_printf(e->arena, "%s%s", name, ends[i]));
    names_reserve(constants, constant);
    return name;
  }
}

// States are members, and constants in capitals.
static const char *take_state(Embed *e, Names *names, Names *constants, const char *wanted) {
  for (;;) {
    const char *name = names_take(names, wanted);
    const char *constant = arena_printf(e->arena, "STATE_%s", upper(e->arena, name));
    if (names_has(constants, constant)) continue;
    names_reserve(constants, constant);
    return name;
  }
}

void embed_name_all(Embed *e) {
  static const char *const words[] = {"at", "args", "in", "net", "out", "run", "scratch", "none"};
  static const char *const functions[] = {
      "allocator",   "capture",         "create",        "default_options", "destroy",
      "graph",       "inputs",          "memory",        "message",         "options",
      "parameters",  "profile",         "replay",        "error_string",    "outputs",
      "launch_time", "workspace",       "state_pointer", "state_read",      "state_write",
      "state",       "status",          "state_reset",   "state_bytes",     "graph_destroy",
      "host_inputs", "workspace_bytes", "host_outputs",  "memory_bytes",
      "synchronize", "Network",         "Graph",         "Error",
      "Free",        "get",             "check",         "check_size"};
  Names *names = names_new(e->arena, NULL), *entries = names_new(e->arena, NULL),
        *constants = names_new(e->arena, NULL);
  names_reserve_cpp(names);
  for (size_t i = 0; i < LENGTH(words); i++) names_reserve(names, words[i]);
  for (size_t i = 0; i < LENGTH(functions); i++) names_reserve(entries, functions[i]);
  const Plan *p = e->plan;
  e->tensor = arena_alloc(e->arena, sizeof *e->tensor * (size_t)(p->ntensors + 1));
  e->kernel = arena_alloc(e->arena, sizeof *e->kernel * (size_t)(p->nkernels + 1));
  e->entry = arena_alloc(e->arena, sizeof *e->entry * (size_t)(p->nentries + 1));
  for (int pass = 0; pass < 2; pass++) // names visible to users are chosen first
    for (int i = 0; i < p->ntensors; i++) {
      const PlanTensor *t = &p->tensors[i];
      const char *known = border_ident(e, i);
      if ((t->role == RoleTemp) == (pass == 0) || (pass && t->space == SpaceArena)) continue;
      e->tensor[i] = known                  ? known
                     : t->role == RoleState ? take_state(e, names, constants, tensor_name(e, i))
                                            : names_take(names, tensor_name(e, i));
    }
  for (int i = 0; i < p->nentries; i++) name_values(e, &p->entries[i], names);
  Names *kernels = names_new(e->arena, NULL);
  names_reserve_cpp(kernels);
  for (int i = 0; i < p->nkernels; i++)
    e->kernel[i] = names_take(kernels, member_name(e, p->kernels[i].name));
  for (int i = 0; i < p->nentries; i++)
    e->entry[i] = take_entry(e, entries, constants,
                             strcmp(p->entries[i].name, "infer") ? p->entries[i].name : "run");
}

// ---- the network's own name ---------------------------------------------------------------------

// A template's C code without comments, Lua, strings and template parameters.
static const char *bare_c(Arena *arena, const char *template) {
  char *out = arena_dup(arena, template), *to = out;
  for (const char *s = template; *s;) {
    if (!strncmp(s, "//", 2)) {
      s += strcspn(s, "\n");
    } else if (*s == '"') {
      s += 1 + strcspn(s + 1, "\"\n");
      s += *s == '"';
    } else if (!strncmp(s, "$(", 2)) {
      s += strcspn(s, ")\n");
      *to++ = ' ';
    } else {
      *to++ = *s++;
    }
  }
  *to = 0;
  return out;
}

// Standard headers: a file NAME.h would shadow them in programs that include from the folder. Also
// the example's own name.
static const char headers[] =
    "assert complex ctype errno fenv float inttypes iso646 limits locale math memory setjmp signal "
    "stdalign stdarg stdatomic stdbool stddef stdint stdio stdlib stdnoreturn string strings "
    "tgmath threads time uchar wchar wctype endian features unistd pthread dlfcn fcntl cuda cudart "
    "cublas cudnn nvrtc nvtx nvml cupti cuComplex cuda_runtime cuda_fp16 cuda_bf16 "
    "cuda_runtime_api vector_types builtin_types device_types driver_types example";

// Functions and constants of C and POSIX headers that emitted programs include, directly or not;
// NAME becomes a type.
static const char functions_of_c[] =
    "abort abs access acos acosh alarm asin asinh at_quick_exit atan atan2 atanh atexit atof atoi "
    "atol atoll bcmp bcopy bsearch bzero calloc cbrt ceil chdir chown clearenv clearerr clock "
    "close confstr copysign cos cosh crypt ctermid daemon difftime div drem dup dup2 dysize ecvt "
    "endusershell erand48 erf erfc execl execle execlp execv execve execvp exit exp exp2 expm1 "
    "fabs faccessat fchdir fchown fclose fcvt fdim feof ferror fflush ffs fgetc fgetpos fgets "
    "fileno finite flockfile floor fma fmax fmemopen fmin fmod fopen fork fpathconf fprintf fputc "
    "fputs fread free freopen frexp fscanf fseek fseeko fsetpos fsync ftell ftello ftruncate "
    "funlockfile fwrite gamma gcvt getc getchar getcwd getdelim getenv geteuid getgid getlogin "
    "getopt getpass getpid getppid getpriority gets getsubopt getuid getw getwd gmtime hypot "
    "ilogb index initstate isalnum isatty isinf isnan j0 j1 jn jrand48 kill l64a labs lchown "
    "lcong48 ldexp ldiv lgamma link llabs lldiv llrint llround localtime lockf log log10 log1p "
    "log2 logb lrand48 lrint lround lseek main malloc mblen mbstowcs mbtowc memccpy memchr memcmp "
    "memcpy memmem memmove memset mkdtemp mkstemp mktemp mktime modf mrand48 nan nearbyint "
    "nextafter nexttoward nice nrand48 nullptr_t on_exit open optarg opterr optind pathconf pause "
    "pclose perror pipe popen pow pread printf profil putc putchar putenv puts putw pwrite qecvt "
    "qsort raise rand random read readlink realloc remainder remove remquo rename rewind rindex "
    "rint rmdir round sbrk scalb scalbln scalbn scanf seed48 select setbuf setenv setgid setlocale "
    "setpgid setsid setstate setuid setvbuf sigaction signal significand sin sinh sleep snprintf "
    "sprintf sqrt srand srandom sscanf stderr stdin stdout stpcpy strcasecmp strcat strchr strcmp "
    "strcoll strcpy strcspn strdup strerror strftime strlen strncat strncmp strncpy strndup "
    "strnlen strpbrk strrchr strsep strsignal strspn strstr strtod strtof strtok strtol strtoll "
    "strtoul strtoull strxfrm swab symlink sync syscall sysconf system tan tanh tempnam tgamma "
    "time tmpfile tmpnam toupper tolower trunc truncate ttyname ualarm ungetc unlink unsetenv "
    "usleep valloc vfork vfprintf vprintf vscanf vsnprintf vsprintf vsscanf wait wcstombs wctomb "
    "write y0 y1 yn M_E M_LN10 M_LN2 M_LOG10E M_LOG2E M_PI M_PI_2 M_PI_4 M_SQRT1_2 M_SQRT2 byte "
    "errno environ std";

bool embed_reserves(const char *name) {
  Arena *arena = arena_new(NULL, NULL);
  Names *names = names_new(arena, NULL);
  size_t length;
  names_reserve_cpp(names);
  names_reserve_words(names, headers);
  names_reserve_words(names, functions_of_c);
  for (int i = 0; asset_name(i); i++) {
    const char *file = asset_name(i), *end = strrchr(file, '.');
    if (!strncmp(file, "templates/embed/", strlen("templates/embed/")) && end && !strcmp(end, ".c"))
      names_reserve_words(names, bare_c(arena, asset_text(arena, file, &length)));
  }
  bool taken = strcmp(names_take(names, name), name) != 0;
  arena_free(arena);
  return taken;
}
