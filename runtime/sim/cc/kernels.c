// kernels.c: the kernels of a program: how libcusim finds, limits and calls them.
//
// After each definition, instantiation and specialisation of a kernel a line is added, in its
// namespace: the type cusim_kernel_N, which knows how to call it, and its launch limits. The table
// at the end lists these. The limits of kernel templates, and of kernels declared before they are
// defined, are functions, which the host compiler chooses as it chooses the kernel: by parameters.
//   template <int N> constexpr CusimLimits cusim_limits_k(void (*)(float (*x)[N])) { .. }
#include "sim/cc/cc.h"

#include <stdlib.h>
#include <string.h>

struct Kernels {
  Text rows;      // of the table
  char **limited; // full names that have a limits function
  bool *early;    // it was made for a declaration, not for a definition
  char **listed;  // names of the rows
  int nlimited, nlisted, count;
  bool failed; // no memory
};

Kernels *kernels_make(void) {
  return calloc(1, sizeof(Kernels));
}

static void free_names(char **names, int count) {
  for (int i = 0; i < count; i++) free(names[i]);
  free(names);
}

void kernels_free(Kernels *kernels) {
  text_free(&kernels->rows);
  free_names(kernels->limited, kernels->nlimited);
  free_names(kernels->listed, kernels->nlisted);
  free(kernels->early);
  free(kernels);
}

bool kernels_any(const Kernels *kernels) {
  return kernels->failed || kernels->count || kernels->nlimited;
}

static bool add_name(char ***names, int *count, const char *name) {
  char **grown = realloc(*names, ((size_t)*count + 1) * sizeof *grown);
  if (grown) *names = grown;
  char *copy = grown ? strdup(name) : NULL;
  if (copy) grown[(*count)++] = copy;
  return copy;
}

static int find_limited(const Kernels *kernels, const char *full) {
  int i = 0;
  while (i < kernels->nlimited && strcmp(kernels->limited[i], full) != 0) i++;
  return i < kernels->nlimited ? i : -1;
}

static void add_limited(Kernels *kernels, const char *full, bool early) {
  bool *grown = realloc(kernels->early, ((size_t)kernels->nlimited + 1) * sizeof *grown);
  if (grown) {
    kernels->early = grown;
    grown[kernels->nlimited] = early;
  }
  if (!grown || !add_name(&kernels->limited, &kernels->nlimited, full)) kernels->failed = true;
}

static int length(Token t) {
  return (int)(t.end - t.begin);
}

// ---- limits -------------------------------------------------------------------------------------

static bool has_limits(const Declaration *d) {
  return length(d->bounds) || length(d->registers) || length(d->cluster);
}

static void print_own_limits(Text *out, const Declaration *d) {
  bool cluster = length(d->cluster) > 0;
  if (cluster) {
    text_print(out, "cusim::Clustered");
    declaration_copy(out, d->cluster);
    text_print(out, ".with(");
  }
  if (length(d->bounds) || length(d->registers)) {
    text_print(out, "cusim::%s", length(d->bounds) ? "bounded" : "registers_bounded");
    declaration_copy(out, length(d->bounds) ? d->bounds : d->registers);
  } else {
    text_print(out, "CusimLimits{}");
  }
  if (cluster) text_print(out, ")");
}

// Chosen if no function fits: for an overload without limits.
static void print_no_limits(Text *out, int n, const char *last) {
  text_print(out,
             " constexpr CusimLimits cusim_limits_%.*s(...) { return {}; }"
             " template <class...> constexpr CusimLimits cusim_limits_%.*s(...) { return {}; }"
             " template <auto...> constexpr CusimLimits cusim_limits_%.*s(...) { return {}; }",
             n, last, n, last, n, last);
}

// A declaration may be repeated, and the definition may repeat its limits; definitions of templates
// with one name are overloads.
static void print_limits_function(Kernels *kernels, const char *full, const Declaration *d,
                                  Text *out) {
  int known = find_limited(kernels, full);
  if (known >= 0 && (!d->defined || kernels->early[known])) return;
  text_print(out, " extern \"C++\" {"); // around it may be extern "C"
  if (known < 0) print_no_limits(out, length(d->last), d->last.begin);
  if (known < 0) add_limited(kernels, full, !d->defined);
  text_append(out, " ", 1);
  declaration_copy(out, d->header);
  text_print(out, " constexpr CusimLimits cusim_limits_%.*s(void (*)", length(d->last),
             d->last.begin);
  declaration_copy_params(out, d->params);
  text_print(out, ") { return ");
  print_own_limits(out, d);
  text_print(out, "; } }");
}

static void print_limits(const Kernels *kernels, const char *full, const Declaration *d,
                         Text *out) {
  if (has_limits(d)) {
    print_own_limits(out, d);
  } else if (find_limited(kernels, full) >= 0) {
    text_append(out, d->path.begin, (size_t)(d->last.begin - d->path.begin));
    text_print(out, "cusim_limits_%.*s", length(d->last), d->last.begin);
    declaration_copy(out, d->arguments);
    text_print(out, "((void (*)");
    declaration_copy_params(out, d->params);
    text_print(out, ")0)");
  } else {
    text_print(out, "CusimLimits{}");
  }
}

// ---- kernels ------------------------------------------------------------------------------------

// A row of the table, without the limits; d: the type that describes the kernel.
static void print_row(Text *out, const char *name, const char *d) {
  text_print(out,
             "  {R\"cusim(%s)cusim\", (const void *)%s::symbol, %s::enter, %s::loop, %s::sizes, "
             "%s::offsets, ",
             name, d, d, d, d, d);
}

static void print_kernel(Kernels *kernels, const char *scope, const char *full,
                         const Declaration *d, Text *out) {
  int n = kernels->count++;
  Text name = {0}, type = {0};
  text_print(&name, "%s", full);
  declaration_copy(&name, d->arguments);
  text_print(&type, "%scusim_kernel_%d", scope, n);
  if (name.failed || type.failed || !add_name(&kernels->listed, &kernels->nlisted, name.data)) {
    kernels->failed = true;
  } else {
    print_row(&kernels->rows, name.data, type.data);
    text_print(&kernels->rows, "%scusim_limits_of_%d},\n", scope, n);
  }
  text_free(&name);
  text_free(&type);
  text_print(out, " typedef cusim::Describe<void (*)");
  declaration_copy_params(out, d->params);
  text_append(out, ", ", 2);
  declaration_copy(out, (Token){d->path.begin, d->arguments.end});
  text_print(out, "> cusim_kernel_%d; constexpr CusimLimits cusim_limits_of_%d = ", n, n);
  print_limits(kernels, full, d, out);
  text_append(out, ";", 1);
}

void kernels_note(Kernels *kernels, const char *scope, const Declaration *d, Text *out) {
  if (!length(d->last) || !length(d->params)) return;
  Text full = {0};
  text_print(&full, "%s", scope);
  text_append(&full, d->path.begin, (size_t)length(d->path));
  if (full.failed) {
    kernels->failed = true;
    return;
  }
  if (length(d->bounds) && length(d->registers))
    text_print(out, " static_assert(false, \"The __launch_bounds__ and __maxnreg__ qualifiers "
                    "cannot be applied to the same kernel\");");
  bool concrete = !length(d->header) && (d->defined || d->instantiates);
  bool qualified = d->path.begin < d->last.begin; // of another namespace: no function can be added
  if (concrete)
    print_kernel(kernels, scope, full.data, d, out);
  else if (has_limits(d) && !qualified)
    print_limits_function(kernels, full.data, d, out);
  text_free(&full);
}

// ---- the table ----------------------------------------------------------------------------------

static bool is_listed(const Kernels *kernels, const char *name) {
  for (int i = 0; i < kernels->nlisted; i++)
    if (!strcmp(kernels->listed[i], name)) return true;
  return false;
}

// `name` is `base`, or ends in ::base.
static bool ends_in(const char *name, const char *base, size_t bytes) {
  size_t n = strlen(name);
  if (n < bytes || strncmp(name + n - bytes, base, bytes) != 0) return false;
  return n == bytes || name[n - bytes - 1] == ':';
}

static const char *last_word(const char *name, size_t bytes) {
  const char *word = name + bytes;
  while (word > name && word[-1] != ':') word--;
  return word;
}

// An expression may name a kernel through a using directive: then the scope it is looked up in has
// none.
static void print_global_limits(const Kernels *kernels, Text *out) {
  for (int i = 0; i < kernels->nlimited; i++) {
    const char *last = last_word(kernels->limited[i], strlen(kernels->limited[i]));
    bool there = false;
    for (int j = 0; j < kernels->nlimited; j++)
      there |= !strcmp(kernels->limited[j], last) ||
               (j < i && ends_in(kernels->limited[j], last, strlen(last)));
    if (!there) print_no_limits(out, (int)strlen(last), last);
  }
  text_append(out, "\n", 1);
}

static void print_expression(const Kernels *kernels, const char *name, Text *out) {
  size_t bytes = strcspn(name, "<");
  while (bytes && name[bytes - 1] == ' ') bytes--;
  bool limited = false;
  for (int i = 0; i < kernels->nlimited; i++) limited |= ends_in(kernels->limited[i], name, bytes);
  const char *last = last_word(name, bytes);
  Text type = {0};
  if (!strpbrk(name, "\"\\\n")) text_print(out, "# 1 \"" NAME_EXPRESSION "%s\"\n", name);
  text_print(&type, "cusim::Describe<decltype((&%s)), (&%s)>", name, name);
  print_row(out, name, type.data ? type.data : "");
  if (limited)
    text_print(out, "%.*scusim_limits_%s(&%s)},\n", (int)(last - name), name, last, name);
  else
    text_print(out, "{}},\n");
  out->failed |= type.failed;
  text_free(&type);
}

void kernels_table(Kernels *kernels, const CompileJob *job, Text *out) {
  text_print(out, "\n# 1 \"cusim-table\"\n");
  print_global_limits(kernels, out);
  text_print(out, "static const CusimKernel cusim_kernels[] = {\n%s",
             kernels->rows.data ? kernels->rows.data : "");
  for (const char *const *e = job->expressions; e && *e; e++) {
    const char *name = *e + strspn(*e, "& ");
    if (!is_listed(kernels, name)) print_expression(kernels, name, out);
  }
  text_print(out,
             "# 2 \"cusim-table\"\n"
             "  {}};\n"
             "extern \"C\" __attribute__((visibility(\"default\"))) const CusimImage cusim_image = "
             "{%d, %d, %d, %d, \"%s\", cusim_kernels};\n",
             CUSIM_ABI, job->checks, 10 * job->arch, job->registers, host_cpu());
  out->failed |= kernels->failed || kernels->rows.failed;
}
