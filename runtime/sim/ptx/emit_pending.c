// emit_pending.c: accumulators that are not there yet: between wgmma and its wait, as far as
// straight code goes. A copy of such a register is one, too; whatever else reads it is a fault, when
// it is run.
#include "sim/ptx/ptx.h"

#include <string.h>

static bool reads_pending(const bool *pending, const Operand *op) {
  if (op->kind == OpReg) return pending[op->reg];
  for (int i = 0; i < op->nparts; i++)
    if (reads_pending(pending, &op->parts[i])) return true;
  return false;
}

static void set_pending(bool *pending, const Operand *op, bool value) {
  if (op->kind == OpReg) pending[op->reg] = value;
  for (int i = 0; op->kind == OpVector && i < op->nparts; i++)
    set_pending(pending, &op->parts[i], value);
}

void emit_pending(Emitter *e, const Instr *instr, bool *pending, bool *any) {
  bool product = !strncmp(instr->opcode, "wgmma.mma_async", 15);
  if (product && instr->nops) {
    set_pending(pending, &instr->op[0], true);
    *any = true;
  }
  if (!*any || product) return;
  bool waits = !strncmp(instr->opcode, "wgmma.wait_group", 16), reads = false;
  bool store = instr->nops && instr->op[0].kind == OpAddress;
  for (int i = store ? 0 : 1; i < instr->nops; i++) reads |= reads_pending(pending, &instr->op[i]);
  if (waits) {
    memset(pending, 0, (size_t)e->func->nregs);
    *any = false;
  } else if (!strcmp(instr->part[0], "mov")) {
    set_pending(pending, &instr->op[0], reads);
  } else if (reads && instr->pred < 0) {
    text_print(e->out, "cusim_early_read(); ");
  } else if (instr->nops) {
    set_pending(pending, &instr->op[0], false);
  }
}
