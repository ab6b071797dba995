// emit_count.c: counts instructions by basic blocks: at its beginning, a block announces
// its number, and a table has its number of instructions of each kind.
//
// A block begins after a label and after instructions that may leave it. Predicates make no
// difference: a warp issues an instruction even if none of its lanes executes it.
#include "sim/ptx/ptx.h"

#include <string.h>

typedef struct KindRow {
  const char *names; // first pieces of opcodes, blanks between
  int kind;
} KindRow;

static const KindRow kinds[] = {
    {" cvt ", CusimCountConvert},
    {" setp set selp slct testp ", CusimCountCompare},
    {" mov cvta isspacep mapa getctarank ", CusimCountMove},
    {" ld ldu ", CusimCountLoad},
    {" st ", CusimCountStore},
    {" atom red ", CusimCountAtomic},
    {" bra brx call ret exit trap brkpt ", CusimCountControl},
    {" bar barrier membar fence mbarrier griddepcontrol nanosleep setmaxnreg ", CusimCountBarrier},
    {" shfl vote match redux elect activemask ", CusimCountWarp},
    {" mma wmma wgmma ldmatrix stmatrix movmatrix ", CusimCountMatrix},
    {" cp prefetch prefetchu discard applypriority tensormap multimem ", CusimCountCopy},
    {" add sub mul mad fma div rem min max abs neg addc subc madc mul24 mad24 sad popc clz bfind "
     "brev bfe bfi fns bmsk szext shl shr shf and or xor not cnot lop3 prmt dp4a dp2a rcp sqrt "
     "rsqrt sin cos lg2 ex2 tanh copysign ",
     CusimCountInteger}, // or of floating point, as the type says
};

static int arithmetic_kind(const Instr *in) {
  PtxType type = in->nparts > 1 ? ptx_type_of(in->part[in->nparts - 1]) : (PtxType){0};
  if (type.kind != KindFloat) return CusimCountInteger;
  if (strstr(type.name, "16")) return CusimCountFp16;
  return type.bits == 64 && !strstr(type.name, "x2") ? CusimCountFp64 : CusimCountFp32;
}

static int kind_of(const Instr *in) {
  char word[64];
  snprintf(word, sizeof word, " %.60s ", in->part[0]);
  if (instr_has(in, "async") && !strcmp(in->part[0], "st")) return CusimCountCopy;
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
    if (strstr(kinds[i].names, word))
      return kinds[i].kind == CusimCountInteger ? arithmetic_kind(in) : kinds[i].kind;
  return in->part[0][0] == 'v' ? CusimCountInteger : CusimCountOther; // video
}

static bool leaves(const Instr *in) {
  static const char *const names[] = {"bra", "brx", "ret", "exit", "trap"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (!strcmp(in->part[0], names[i])) return true;
  return false;
}

void emit_counted(Emitter *e, const Instr *instr) {
  bool label = instr->label && !instr->ntargets && !instr->prototype;
  if (label) e->in_block = false;
  if (instr->label) return;
  if (!e->in_block) {
    if (e->nblocks == e->room_blocks) {
      e->room_blocks = e->room_blocks ? 2 * e->room_blocks : 64;
      BlockCounts *grown = ptx_alloc(e->ptx, (size_t)e->room_blocks * sizeof *grown);
      if (e->nblocks) memcpy(grown, e->blocks, (size_t)e->nblocks * sizeof *grown);
      e->blocks = grown;
    }
    text_print(e->out, " X_BLOCK(%d);", e->nblocks++);
    e->in_block = true;
  }
  e->blocks[e->nblocks - 1].kinds[kind_of(instr)]++;
  if (leaves(instr)) e->in_block = false;
}

void emit_counts(Emitter *e) {
  text_print(e->out, "static const CusimCounts counts[] = {\n");
  for (int i = 0; i < e->nblocks; i++) {
    text_print(e->out, "  {{");
    for (int k = 0; k < CusimCountKinds; k++) text_print(e->out, "%d,", e->blocks[i].kinds[k]);
    text_print(e->out, "}},\n");
  }
  text_print(e->out,
             "  {}};\nextern \"C\" __attribute__((visibility(\"default\"))) const "
             "CusimCountTable cusim_counts = {%d, counts};\n",
             e->nblocks);
}
