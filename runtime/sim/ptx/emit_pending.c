// emit_pending.c: checks accesses to registers of wgmma in flight.
//
// A wgmma is executed at once; the C text also tracks the order that a GPU would see.
// The registers of one accumulator are a set, as are the four of a fragment of A. For a set, s_N is
// the commit group of its newest wgmma, and a read checks that this group was waited
// for; w_N is the number of wgmma.fence when something other than a wgmma wrote to it last,
// and a wgmma checks that there has been one since. `mov` counts as neither write nor read:
// compilers put it between fence and wgmma (a constant) or between wgmma and wait (a copy), and
// ptxas removes it. A copy of an accumulator keeps its group, a copy that becomes an operand its
// fence.
#include "sim/ptx/ptx.h"

#include <string.h>

struct Pending {
  int *set;      // by register: another of its set, or itself, which names the set; -1: in no set
  bool *sum;     // by register: it is an accumulator's
  bool *later;   // a copy of one, or of such a copy
  bool *earlier; // its value becomes one of a set by mov
  int *tested;   // by name of a set or copy: the stretch in which it was
  int stretch;   // of code without a label or a product
};

static bool is_product(const Instr *instr) {
  return instr->opcode && !strncmp(instr->opcode, "wgmma.mma_async", 15);
}

static bool is_mov(const Instr *instr) {
  return instr->opcode && !strcmp(instr->part[0], "mov") && instr->nops == 2;
}

static int name_of(struct Pending *p, int reg) { // of the set, or only of the register
  if (p->set[reg] < 0) return reg;
  while (p->set[reg] != reg) reg = p->set[reg] = p->set[p->set[reg]];
  return reg;
}

static bool has_group(const struct Pending *p, int reg) {
  return p->sum[reg] || p->later[reg];
}

static bool has_fence(const struct Pending *p, int reg) {
  return p->set[reg] >= 0 || p->earlier[reg];
}

// ---- which registers ----------------------------------------------------------------------------

static void join(struct Pending *p, const Operand *op, bool sum) {
  if (op->kind != OpVector) return;
  int first = -1;
  for (int i = 0; i < op->nparts; i++) {
    if (op->parts[i].kind != OpReg) continue;
    int reg = op->parts[i].reg;
    if (p->set[reg] < 0) p->set[reg] = reg;
    p->sum[reg] |= sum;
    if (first >= 0) p->set[name_of(p, reg)] = name_of(p, first);
    first = reg;
  }
}

// The operand's i-th register, or -1 after the last one.
static int reg_at(const Operand *op, int i) {
  if (op->kind == OpReg) return i == 0 ? op->reg : -1;
  if (op->kind != OpVector && op->kind != OpPair) return -1;
  for (int k = 0; k < op->nparts; k++)
    if (op->parts[k].kind == OpReg && i-- == 0) return op->parts[k].reg;
  return -1;
}

static bool mark_copy(struct Pending *p, const Instr *mov) {
  bool more = false;
  for (int i = 0, to; (to = reg_at(&mov->op[0], i)) >= 0; i++)
    for (int k = 0, from; (from = reg_at(&mov->op[1], k)) >= 0; k++) {
      if (has_group(p, from) && !has_group(p, to)) more = p->later[to] = true;
      if (has_fence(p, to) && !has_fence(p, from)) more = p->earlier[from] = true;
    }
  return more;
}

// NOTE: f16 accumulators, and fragments of A, are packed and unpacked by mov, too.
static void find_copies(struct Pending *p, const PtxFunc *func) {
  for (bool more = true; more;) {
    more = false;
    for (int i = 0; i < func->nbody; i++)
      if (is_mov(&func->body[i])) more |= mark_copy(p, &func->body[i]);
    for (int i = func->nbody - 1; i >= 0; i--)
      if (is_mov(&func->body[i])) more |= mark_copy(p, &func->body[i]);
  }
}

void pending_begin(Emitter *e, const PtxFunc *func) {
  struct Pending *p = e->pending = NULL;
  size_t n = (size_t)func->nregs + 1;
  for (int i = 0; i < func->nbody; i++) {
    const Instr *in = &func->body[i];
    if (!is_product(in) || in->nops < 2) continue;
    if (!p) {
      e->pending = p = ptx_alloc(e->ptx, sizeof *p);
      p->set = ptx_alloc(e->ptx, n * sizeof *p->set);
      memset(p->set, 255, n * sizeof *p->set);
      p->sum = ptx_alloc(e->ptx, n);
      p->later = ptx_alloc(e->ptx, n);
      p->earlier = ptx_alloc(e->ptx, n);
      p->tested = ptx_alloc(e->ptx, n * sizeof *p->tested);
      p->stretch = 1;
    }
    join(p, &in->op[0], true);
    join(p, &in->op[1], false);
  }
  if (!p) return;
  text_print(e->out, " cusim::WgmmaStep g_[8];");
  find_copies(p, func);
  for (int i = 0; i < func->nregs; i++)
    if (name_of(p, i) == i && (has_group(p, i) || has_fence(p, i)))
      text_print(e->out, " u32 s_%d = 0, w_%d = 0;", i, i);
}

void pending_label(Emitter *e) {
  if (e->pending) e->pending->stretch++;
}

// ---- before an instruction ----------------------------------------------------------------------

static void test_reads(Emitter *e, const Operand *op) {
  struct Pending *p = e->pending;
  for (int i = 0; op->kind != OpReg && i < op->nparts; i++) test_reads(e, &op->parts[i]);
  if (op->kind != OpReg || !has_group(p, op->reg)) return;
  int name = name_of(p, op->reg);
  if (p->tested[name] == p->stretch) return;
  if (e->instr->pred < 0) p->tested[name] = p->stretch;
  text_print(e->out, "x_wgmma_read(s_%d); ", name);
}

static void test_fence(Emitter *e, const Operand *op) {
  int reg = reg_at(op, 0);
  if (op->kind == OpVector && reg >= 0)
    text_print(e->out, "x_wgmma_fenced(w_%d); ", name_of(e->pending, reg));
}

void pending_before(Emitter *e) {
  const Instr *in = e->instr;
  if (!e->pending || is_mov(in)) return;
  bool product = is_product(in);
  if (product && in->nops > 1) {
    test_fence(e, &in->op[0]);
    test_fence(e, &in->op[1]);
  }
  bool reads_first = in->nops && in->op[0].kind == OpAddress; // a store
  for (int i = !reads_first; i < in->nops; i++) test_reads(e, &in->op[i]);
}

// ---- after it -----------------------------------------------------------------------------------

// The newest group, or fence, of the sources.
static void newest(Emitter *e, const char *tag, const Operand *from, const char *own) {
  text_print(e->out, "%s", own);
  for (int k = 0, reg; (reg = reg_at(from, k)) >= 0; k++) {
    bool has = *tag == 's' ? has_group(e->pending, reg) : has_fence(e->pending, reg);
    if (has) text_print(e->out, ", %s_%d)", tag, name_of(e->pending, reg));
  }
}

static int sources(Emitter *e, bool group, const Operand *from) {
  int n = 0;
  for (int k = 0, reg; (reg = reg_at(from, k)) >= 0; k++)
    n += group ? has_group(e->pending, reg) : has_fence(e->pending, reg);
  return n;
}

static void copy_tags(Emitter *e, int to, const Operand *from) {
  struct Pending *p = e->pending;
  int name = name_of(p, to);
  char own[32];
  if (p->later[to] && !p->sum[to]) {
    text_print(e->out, " s_%d = ", name);
    for (int n = sources(e, true, from); n > 0; n--) text_print(e->out, "x_newest(");
    newest(e, "s", from, "0u");
    text_print(e->out, ";");
  }
  if (!has_fence(p, to)) return;
  snprintf(own, sizeof own, p->set[to] >= 0 ? "w_%d" : "0u", name);
  text_print(e->out, " w_%d = ", name);
  for (int n = sources(e, false, from); n > 0; n--) text_print(e->out, "x_newest(");
  newest(e, "w", from, own);
  text_print(e->out, ";");
}

void pending_behind(Emitter *e) {
  struct Pending *p = e->pending;
  const Instr *in = e->instr;
  if (!p || !in->nops || in->op[0].kind == OpAddress) return;
  if (is_product(in)) {
    p->stretch++;
    if (reg_at(&in->op[0], 0) >= 0)
      text_print(e->out, " s_%d = cusim_self->product_groups + 1;",
                 name_of(p, reg_at(&in->op[0], 0)));
    return;
  }
  for (int i = 0, to; (to = reg_at(&in->op[0], i)) >= 0; i++) {
    if (is_mov(in)) {
      copy_tags(e, to, &in->op[1]);
      continue;
    }
    if (p->later[to] && !p->sum[to]) text_print(e->out, " s_%d = 0;", to);
    if (has_fence(p, to)) text_print(e->out, " w_%d = cusim_self->product_fences;", name_of(p, to));
  }
}
