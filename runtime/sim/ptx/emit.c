// emit.c: a module as C++ text: variables, functions, kernels, and the table that the image
// exports.
//
// The text uses device/cusim_ptx.h. Names: G_n is a variable in global or constant
// memory, S_n the shared address of one in shared memory, F_n a function, K_n a kernel; registers
// keep their own. A function takes its results' and parameters' addresses in one array.
#include "sim/ptx/ptx.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { kMostStatic = 48 << 10 }; // bytes of static shared memory of a kernel
enum { kShared = 1024 }; // first shared address; as in device/cusim_ptx.h

static size_t round_up(size_t n, size_t to) {
  return (n + to - 1) / to * to;
}

static size_t var_bytes(const PtxVar *var) {
  return var->count * (size_t)(var->type.bits / 8);
}

// ---- names --------------------------------------------------------------------------------------

static const char *mangle(Ptx *ptx, const char *prefix, const char *name, int number) {
  char text[160];
  size_t n = (size_t)snprintf(text, sizeof text, "%s%d_", prefix, number);
  for (; *name && n < 120; name++)
    text[n++] = isalnum((unsigned char)*name) ? *name : '_';
  return ptx_string(ptx, text, n);
}

static bool is_extern_shared(const PtxVar *var) {
  return var->space == SpaceShared && (var->external || var->extern_array);
}

static void name_all(PtxModule *m) {
  for (int i = 0; i < m->nvars; i++)
    m->vars[i]->c_name = mangle(m->ptx, m->vars[i]->space == SpaceShared ? "S" : "G",
                                m->vars[i]->name, i);
  for (int i = 0; i < m->nfuncs; i++) {
    PtxFunc *f = m->funcs[i];
    f->c_name = mangle(m->ptx, f->entry ? "K" : "F", f->name, i);
    for (int k = 0; k < f->nvars; k++)
      f->vars[k]->c_name = mangle(m->ptx, "v", f->vars[k]->name, k);
  }
}

// ---- shared memory: each variable's address, and the variables that each kernel reaches ---------

typedef struct Reach {
  PtxVar **vars; // shared variables of the module and of functions
  int count, room;
} Reach;

static void note_shared(Ptx *ptx, Reach *reach, PtxVar *var) {
  if (reach->count == reach->room) {
    reach->room = reach->room ? 2 * reach->room : 16;
    PtxVar **grown = ptx_alloc(ptx, (size_t)reach->room * sizeof *grown);
    if (reach->count) memcpy(grown, reach->vars, (size_t)reach->count * sizeof *grown);
    reach->vars = grown;
  }
  reach->vars[reach->count++] = var;
}

static int index_of(const Reach *reach, const PtxVar *var) {
  for (int i = 0; i < reach->count; i++)
    if (reach->vars[i] == var) return i;
  return -1;
}

static void mark_callee(PtxFunc *f, const Reach *reach, const PtxFunc *callee) {
  for (int i = 0; callee && callee->reaches && i < reach->count; i++)
    f->reaches[i] |= callee->reaches[i];
}

// A variable reaches the functions whose addresses it begins with: a table of pointers.
static void mark(PtxModule *m, PtxFunc *f, const Reach *reach, const Operand *op) {
  if (op->kind == OpVar && op->var->space == SpaceShared) {
    int i = index_of(reach, op->var);
    if (i >= 0) f->reaches[i] = true;
  } else if (op->kind == OpVar)
    for (int i = 0; i < op->var->ninit; i++)
      if (op->var->init[i].symbol) mark_callee(f, reach, module_func(m, op->var->init[i].symbol));
  if (op->kind == OpFunc) mark_callee(f, reach, module_func(m, op->name));
  for (int i = 0; i < op->nparts; i++) mark(m, f, reach, &op->parts[i]);
}

// Marks what each function reaches, by itself and by what it names, to a fixed point.
static void mark_all(PtxModule *m, const Reach *reach) {
  bool more = true;
  for (int i = 0; i < m->nfuncs; i++)
    m->funcs[i]->reaches = ptx_alloc(m->ptx, (size_t)reach->count + 1);
  for (int round = 0; more && round < m->nfuncs + 1; round++) {
    more = false;
    for (int i = 0; i < m->nfuncs; i++) {
      PtxFunc *f = m->funcs[i];
      bool before[1024];
      size_t n = (size_t)(reach->count < 1024 ? reach->count : 1024);
      memcpy(before, f->reaches, n);
      for (int k = 0; k < f->nbody; k++)
        for (int o = 0; o < f->body[k].nops; o++)
          mark(m, f, reach, &f->body[k].op[o]);
      more |= memcmp(before, f->reaches, n) != 0;
    }
  }
}

// Variables that no kernel reaches together may overlap.
static void place_shared(PtxModule *m) {
  Reach reach = {0};
  for (int i = 0; i < m->nvars; i++)
    if (m->vars[i]->space == SpaceShared && !is_extern_shared(m->vars[i]))
      note_shared(m->ptx, &reach, m->vars[i]);
  for (int i = 0; i < m->nfuncs; i++)
    for (int k = 0; k < m->funcs[i]->nvars; k++)
      if (m->funcs[i]->vars[k]->space == SpaceShared && !is_extern_shared(m->funcs[i]->vars[k]))
        note_shared(m->ptx, &reach, m->funcs[i]->vars[k]);
  if (reach.count) mark_all(m, &reach);
  for (int v = 0; v < reach.count; v++) {
    size_t at = 0;
    for (int i = 0; i < m->nfuncs; i++)
      if (m->funcs[i]->entry && m->funcs[i]->reaches[v] && m->funcs[i]->smem > at)
        at = m->funcs[i]->smem;
    reach.vars[v]->offset = at = round_up(at, (size_t)reach.vars[v]->align);
    for (int i = 0; i < m->nfuncs; i++)
      if (m->funcs[i]->entry && m->funcs[i]->reaches[v])
        m->funcs[i]->smem = at + var_bytes(reach.vars[v]);
  }
  for (int i = 0; i < m->nfuncs; i++)
    if (m->funcs[i]->smem > kMostStatic)
      ptx_fail(m->ptx, CUDA_ERROR_INVALID_PTX, m->funcs[i]->line,
               "%.100s has %zu bytes of static shared memory, of %d that are allowed",
               m->funcs[i]->name, m->funcs[i]->smem, kMostStatic);
}

static int dynamic_alignment(const PtxModule *m) {
  int most = 16;
  for (int i = 0; i < m->nvars; i++)
    if (is_extern_shared(m->vars[i]) && m->vars[i]->align > most) most = m->vars[i]->align;
  return most;
}

// ---- variables ----------------------------------------------------------------------------------

static void emit_shared_name(Emitter *e, const PtxVar *var) {
  if (is_extern_shared(var))
    text_print(e->out, "#define %s (%uu + cusim_self->smem_static)\n", var->c_name, kShared);
  else
    text_print(e->out, "static const u32 %s = %zuu;\n", var->c_name, kShared + var->offset);
}

static void emit_init(Emitter *e, const PtxVar *var, const PtxInit *init) {
  if (!init->symbol) {
    uint64_t mask = var->type.bits >= 64 ? ~0ull : (1ull << var->type.bits) - 1;
    text_print(e->out, "0x%llxu", (unsigned long long)(init->bits & mask));
    if (var->type.bits > 32) text_print(e->out, "ll");
    return;
  }
  PtxVar *to = module_var(e->module, init->symbol);
  PtxFunc *func = module_func(e->module, init->symbol);
  if (!to && !func)
    ptx_fail(e->ptx, CUDA_ERROR_INVALID_PTX, var->line, "there is no %.100s", init->symbol);
  if (var->type.bits != 64 && !init->mask)
    ptx_fail(e->ptx, CUDA_ERROR_INVALID_PTX, var->line, "an address in a value of %d bits",
             var->type.bits);
  if (init->mask) text_print(e->out, "u%d((", var->type.bits);
  if (to && to->space == SpaceShared)
    text_print(e->out, "u64(%s)", to->c_name);
  else
    text_print(e->out, "u64(%s%s)", to ? "" : "&", to ? to->c_name : func->c_name);
  if (init->bits) text_print(e->out, " + %lld", (long long)init->bits);
  if (init->mask)
    text_print(e->out, " & 0x%llxull) >> %d)", (unsigned long long)init->mask,
               __builtin_ctzll(init->mask));
}

static const char kPlain[] = "_.0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

static void declare_var(Emitter *e, const PtxVar *var) {
  if (var->type.bits < 8)
    ptx_fail(e->ptx, CUDA_ERROR_INVALID_PTX, var->line, "%s: no variable has this type", var->name);
  if (var->external)
    ptx_fail(e->ptx, CUDA_ERROR_INVALID_PTX, var->line, "%s is declared and not defined",
             var->name);
  text_print(e->out, "extern \"C\" { extern __attribute__((visibility(\"default\"))) u%d %s[%zu] ",
             var->type.bits, var->c_name, var->count ? var->count : 1);
  bool named = strspn(var->name, kPlain) == strlen(var->name); // not `$str`, which an assembler
  if (named)                                                   // takes for a number
    text_print(e->out, "__asm__(\"%s\"); }\n", var->name);
  else
    text_print(e->out, "; }\n");
}

static void define_var(Emitter *e, const PtxVar *var) {
  text_print(e->out, "alignas(%d) %su%d %s[%zu]", var->align,
             var->space == SpaceConst ? "X_CONST " : "", var->type.bits, var->c_name,
             var->count ? var->count : 1);
  if (var->ninit) {
    text_print(e->out, " = {");
    for (int i = 0; i < var->ninit; i++) {
      if (i) text_print(e->out, i % 16 ? ", " : ",\n  ");
      emit_init(e, var, &var->init[i]);
    }
    text_print(e->out, "}");
  }
  text_print(e->out, ";\n");
}

// ---- functions ----------------------------------------------------------------------------------

static void emit_prototype(Emitter *e, const PtxFunc *func) {
  if (func->entry)
    text_print(e->out, "static __attribute__((noinline, used)) void %s(u8 *PB)", func->c_name);
  else
    text_print(e->out, "static void %s(u8 *const *A)", func->c_name);
}

static void place_params(PtxFunc *func) {
  size_t at = 0;
  for (int i = 0; i < func->nparams; i++) {
    at = round_up(at, (size_t)func->params[i]->align);
    func->params[i]->offset = at;
    at += var_bytes(func->params[i]);
  }
  func->param_bytes = at;
}

static void emit_kernel(Emitter *e, PtxFunc *func, int n) {
  text_print(e->out,
             "static void enter_%d(void *const *params) { %s((u8 *)(%s)); }\n"
             "static const unsigned sizes_%d[] = {",
             n, func->c_name, func->nparams ? "params[0]" : "0", n);
  for (int i = 0; i < func->nparams; i++)
    text_print(e->out, "%zu, ", var_bytes(func->params[i]));
  text_print(e->out, "0};\nstatic const unsigned offsets_%d[] = {", n);
  for (int i = 0; i < func->nparams; i++) text_print(e->out, "%zu, ", func->params[i]->offset);
  text_print(e->out, "%zu};\n", func->param_bytes);
}

// Whether the kernel, or any function, lets the next launch begin.
static bool triggers(const PtxModule *m, const PtxFunc *kernel) {
  for (int f = 0; f < m->nfuncs; f++) {
    if (m->funcs[f]->entry && m->funcs[f] != kernel) continue;
    for (int i = 0; i < m->funcs[f]->nbody; i++)
      if (m->funcs[f]->body[i].opcode &&
          !strcmp(m->funcs[f]->body[i].opcode, "griddepcontrol.launch_dependents"))
        return true;
  }
  return false;
}

static void emit_kernel_row(Emitter *e, PtxFunc *func, int n) {
  text_print(e->out,
             "  {\"%s\", 0, enter_%d, CUSIM_TRACE || CUSIM_COUNT ? 0 : ptx_loop<enter_%d>, "
             "sizes_%d, offsets_%d, {%d, %d, %d, {%d, %d, %d}}, 1, %zu, %d, %d, "
             "%zu},\n",
             func->name, n, n, n, n, func->limits.threads, func->limits.blocks,
             func->limits.registers, func->cluster[0], func->cluster[1], func->cluster[2],
             func->smem, dynamic_alignment(e->module), triggers(e->module, func),
             emit_local_bytes(e->module, func));
}

static bool is_host_function(const char *name) {
  static const char *const known[] = {"vprintf", "__assertfail", "malloc", "free"};
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (!strcmp(known[i], name)) return true;
  return false;
}

static void emit_functions(Emitter *e) {
  PtxModule *m = e->module;
  for (int i = 0; i < m->nfuncs; i++) {
    PtxFunc *f = m->funcs[i];
    place_params(f);
    if (!f->defined && is_host_function(f->name)) {
      text_print(e->out, "#define %s ptx_%s\n", f->c_name, f->name);
      continue;
    }
    if (!f->defined && !f->entry)
      text_print(e->out, "extern \"C\" void ptx_missing_%d(u8 *const *A);\n", i); // if it is called
    emit_prototype(e, f);
    text_print(e->out, ";\n");
  }
  for (int i = 0; i < m->nvars; i++)
    if (m->vars[i]->space != SpaceShared) define_var(e, m->vars[i]);
  for (int i = 0; i < m->nfuncs; i++)
    if (m->funcs[i]->defined) emit_function(e, m->funcs[i]);
}

void emit_module(PtxModule *m, const PtxJob *job, Text *out) {
  Emitter e = {.ptx = m->ptx, .module = m, .out = out, .counts = job->checks & CusimCount,
               .traced = job->checks & CusimTrace};
  name_all(m);
  place_shared(m);
  text_print(out, "#include \"cusim_ptx.h\"\n");
  for (int i = 0; i < m->nvars; i++)
    if (m->vars[i]->space == SpaceShared)
      emit_shared_name(&e, m->vars[i]);
    else
      declare_var(&e, m->vars[i]);
  for (int i = 0; i < m->nfuncs; i++)
    for (int k = 0; k < m->funcs[i]->nvars; k++)
      if (m->funcs[i]->vars[k]->space == SpaceShared) {
        m->funcs[i]->vars[k]->c_name =
            mangle(m->ptx, "S", m->funcs[i]->c_name, k); // of the function, so unique
        emit_shared_name(&e, m->funcs[i]->vars[k]);
      }
  emit_functions(&e);
  text_print(out, "#line 1 \"cusim-table\"\n");
  if (e.counts) emit_counts(&e);
  for (int i = 0; i < m->nfuncs; i++)
    if (m->funcs[i]->entry && m->funcs[i]->defined) emit_kernel(&e, m->funcs[i], i);
  text_print(out, "static const CusimKernel cusim_kernels[] = {\n");
  for (int i = 0; i < m->nfuncs; i++)
    if (m->funcs[i]->entry && m->funcs[i]->defined) emit_kernel_row(&e, m->funcs[i], i);
  text_print(out,
             "  {}};\n"
             "extern \"C\" __attribute__((visibility(\"default\"))) const CusimImage cusim_image = "
             "{%d, %d, %d, %d, \"%s\", cusim_kernels};\n",
             CUSIM_ABI, job->checks, 10 * m->arch, job->registers, host_cpu());
}
