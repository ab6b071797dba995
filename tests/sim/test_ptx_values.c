// test_ptx_values.c: what single PTX instructions give, by values worked out from the PTX ISA: one
// kernel holds them all. Operands are %a, %b, %c of the instruction's widths, the result %d.
#include "tests/sim/device.h"

typedef struct Row {
  const char *widths; // of d, a, b, c: "4444"; h: 2 bytes, w: 4, d: 8, p: a predicate
  const char *text;   // of the instruction, without `;`
  uint64_t a, b, c, expected;
} Row;

#define F_ONE 0x3f800000u
#define F_NAN 0x7fffffffu
#define D_ONE 0x3ff0000000000000ull

static const Row rows[] = {
    // integers
    {"www", "add.s32 %d, %a, %b", 0x7fffffff, 1, 0, 0x80000000},
    {"www", "add.sat.s32 %d, %a, %b", 0x7fffffff, 1, 0, 0x7fffffff},
    {"www", "sub.sat.s32 %d, %a, %b", 0x80000000, 1, 0, 0x80000000},
    {"hhh", "add.s16 %d, %a, %b", 0xffff, 2, 0, 1},
    {"www", "mul.hi.s32 %d, %a, %b", 0xffffffff, 2, 0, 0xffffffff},
    {"www", "mul.hi.u32 %d, %a, %b", 0xffffffff, 2, 0, 1},
    {"ddd", "mul.hi.u64 %d, %a, %b", ~0ull, ~0ull, 0, ~0ull - 1},
    {"dww", "mul.wide.s32 %d, %a, %b", 0xffffffff, 3, 0, (uint64_t)-3},
    {"dww", "mul.wide.u32 %d, %a, %b", 0xffffffff, 3, 0, 0x2fffffffdull},
    {"whh", "mul.wide.s16 %d, %a, %b", 0x8000, 2, 0, 0xffff0000},
    {"wwww", "mad.lo.s32 %d, %a, %b, %c", 7, 0xfffffffe, 20, 6},
    {"wwww", "mad.hi.u32 %d, %a, %b, %c", 0x80000000, 4, 5, 7},
    {"dwwd", "mad.wide.s32 %d, %a, %b, %c", 0xffffffff, 5, 10, 5},
    {"www", "div.s32 %d, %a, %b", (uint32_t)-7, 2, 0, (uint32_t)-3},
    {"www", "rem.s32 %d, %a, %b", (uint32_t)-7, 2, 0, (uint32_t)-1},
    {"www", "div.s32 %d, %a, %b", 0x80000000, 0xffffffff, 0, 0x80000000},
    {"ddd", "rem.u64 %d, %a, %b", 1000000007, 10, 0, 7},
    {"ww", "abs.s32 %d, %a", 0xfffffffb, 0, 0, 5},
    {"ww", "neg.s32 %d, %a", 5, 0, 0, 0xfffffffb},
    {"www", "min.s32 %d, %a, %b", 0xffffffff, 1, 0, 0xffffffff},
    {"www", "min.u32 %d, %a, %b", 0xffffffff, 1, 0, 1},
    {"www", "max.s32 %d, %a, %b", 0xffffffff, 1, 0, 1},
    {"www", "max.s16x2 %d, %a, %b", 0xdb9d060d, 0x10cf000f, 0, 0x10cf060d},
    {"www", "min.s16x2 %d, %a, %b", 0xdb9d060d, 0x10cfffff, 0, 0xdb9dffff},
    {"www", "max.u16x2 %d, %a, %b", 0xdb9d060d, 0x10cfffff, 0, 0xdb9dffff},
    {"www", "min.u16x2 %d, %a, %b", 0xdb9d060d, 0x10cfffff, 0, 0x10cf060d},
    {"www", "max.relu.s16x2 %d, %a, %b", 0xdb9d0005, 0xdb9effff, 0, 5},
    {"www", "min.relu.s16x2 %d, %a, %b", 0x00070005, 0x0006ffff, 0, 0x00060000},
    {"www", "add.cc.u32 %d, %a, %b; addc.u32 %d, %a, 0", 0xffffffff, 2, 0, 0},
    {"www", "add.cc.u32 %d, %a, %b; addc.u32 %d, %a, 0", 0xfffffffe, 1, 0, 0xfffffffe},
    {"www", "add.cc.u32 %d, %a, %b; addc.cc.u32 %d, %a, %b; addc.u32 %d, 0, 0", ~0u, ~0u, 0, 1},
    {"www", "sub.cc.u32 %d, %a, %b; subc.u32 %d, %a, 0", 1, 2, 0, 0},
    {"www", "sub.cc.u32 %d, %a, %b; subc.u32 %d, %a, 0", 2, 1, 0, 2},
    // as GPUs do, where the two kinds are mixed: a subtraction leaves a carry unless it borrows
    {"www", "sub.cc.u32 %d, %a, %b; addc.u32 %d, 0, 0", 1, 2, 0, 0},
    {"www", "sub.cc.u32 %d, %a, %b; addc.u32 %d, 0, 0", 2, 2, 0, 1},
    {"www", "sub.cc.u32 %d, %a, %b; subc.cc.u32 %d, %a, %b; addc.u32 %d, 0, 0", 1, 2, 0, 0},
    {"www", "add.cc.u32 %d, %a, %b; subc.u32 %d, %a, 0", 5, 6, 0, 4},
    {"www", "add.cc.u32 %d, %a, %b; subc.u32 %d, %a, 0", ~0u, 6, 0, ~0u},
    {"wwww", "mad.lo.cc.u32 %d, %a, %b, %c; madc.hi.u32 %d, %a, %b, 0", ~0u, ~0u, ~0u, ~0u},
    {"wwww", "add.cc.u32 %d, %a, 1; madc.hi.s32 %d, %b, %c, 5", ~0u, (uint32_t)-4, 3, 5},
    {"wwww", "add.cc.u32 %d, %a, %a; madc.hi.sat.s32 %d, %b, %c, 5", 1u << 31, 1 << 30, 4, 7},
    {"wwww", "add.cc.u32 %d, %a, %a; madc.hi.sat.s32 %d, %b, %c, 0x7ffffffd", 1u << 31, 4, 1 << 30,
     0x7fffffff},
    {"wwww", "mad.hi.cc.s32 %d, %b, %c, %a; addc.u32 %d, 0, 0", 1, 0x80000000, 2, 1},
    {"www", "mul24.lo.u32 %d, %a, %b", 0x01000003, 5, 0, 15},
    {"www", "mul24.hi.u32 %d, %a, %b", 0xffffff, 0xffffff, 0, 0xfffffe00},
    {"www", "mul24.lo.s32 %d, %a, %b", 0xffffff, 5, 0, (uint32_t)-5},
    {"www", "mul24.hi.s32 %d, %a, %b", 0xffffff, 0x10000, 0, 0xffffffff},
    {"wwww", "mad24.lo.s32 %d, %a, %b, %c", 0xffffff, 5, 7, 2},
    {"wwww", "mad24.hi.u32 %d, %a, %b, %c", 0xffffff, 0xffffff, 0x201, 1},
    {"wwww", "mad24.hi.sat.s32 %d, %a, %b, %c", 0x7fffff, 0x7fffff, 0x7fffffff, 0x7fffffff},
    {"ww", "popc.b32 %d, %a", 0xf0f01, 0, 0, 9},
    {"wd", "popc.b64 %d, %a", ~0ull, 0, 0, 64},
    {"ww", "clz.b32 %d, %a", 0x00010000, 0, 0, 15},
    {"wd", "clz.b64 %d, %a", 0, 0, 0, 64},
    {"ww", "bfind.u32 %d, %a", 0x00010000, 0, 0, 16},
    {"ww", "bfind.s32 %d, %a", 0xfffffff0, 0, 0, 3},
    {"ww", "bfind.s32 %d, %a", 0xffffffff, 0, 0, 0xffffffff},
    {"ww", "bfind.shiftamt.u32 %d, %a", 0x00010000, 0, 0, 15},
    {"ww", "brev.b32 %d, %a", 1, 0, 0, 0x80000000},
    {"wwww", "bfe.u32 %d, %a, %b, %c", 0xabcd1234, 8, 8, 0x12},
    {"wwww", "bfe.s32 %d, %a, %b, %c", 0x0000f000, 12, 4, 0xffffffff},
    {"wwww", "bfe.s32 %d, %a, %b, %c", 0x80000000, 28, 10, 0xfffffff8},
    {"wwww", "bfe.u32 %d, %a, %b, %c", 0x80000000, 28, 10, 8},
    {"wwww", "bfe.s32 %d, %a, %b, %c", 0x80000000, 40, 3, 0xffffffff},
    {"wwww", "bfe.s32 %d, %a, %b, %c", 0x80000000, 3, 0, 0},
    {"wwww", "bfi.b32 %d, %a, %b, 8, %c", 0xff, 0x11111111, 4, 0x11111f11},
    {"wwww", "bfi.b32 %d, %a, %b, 28, %c", 0xff, 0, 16, 0xf0000000},
    {"www", "bmsk.clamp.b32 %d, %a, %b", 4, 8, 0, 0xff0},
    {"www", "bmsk.clamp.b32 %d, %a, %b", 30, 8, 0, 0xc0000000},
    {"www", "szext.clamp.s32 %d, %a, %b", 0xff, 8, 0, 0xffffffff},
    {"www", "shl.b32 %d, %a, %b", 1, 31, 0, 0x80000000},
    {"www", "shl.b32 %d, %a, %b", 1, 32, 0, 0},
    {"www", "shr.s32 %d, %a, %b", 0x80000000, 40, 0, 0xffffffff},
    {"www", "shr.u32 %d, %a, %b", 0x80000000, 40, 0, 0},
    {"ddw", "shr.s64 %d, %a, %b", 1ull << 63, 63, 0, ~0ull},
    {"wwww", "shf.l.wrap.b32 %d, %a, %b, %c", 0x12345678, 0x9abcdef0, 8, 0xbcdef012},
    {"wwww", "shf.r.wrap.b32 %d, %a, %b, %c", 0x12345678, 0x9abcdef0, 8, 0xf0123456},
    {"wwww", "shf.l.clamp.b32 %d, %a, %b, %c", 0x12345678, 0x9abcdef0, 40, 0x12345678},
    {"wwww", "shf.r.clamp.b32 %d, %a, %b, %c", 0x12345678, 0x9abcdef0, 40, 0x9abcdef0},
    {"wwww", "lop3.b32 %d, %a, %b, %c, 0x96", 0xf0f0f0f0, 0xcccccccc, 0xaaaaaaaa, 0x96969696},
    {"wwww", "lop3.b32 %d, %a, %b, %c, 0xe8", 0xf0, 0xcc, 0xaa, 0xe8},
    {"pww", "{ .reg .pred q; setp.eq.u32 q, %b, 1; lop3.or.b32 _|%d, %a, %a, %a, 0x80, q; }", 0, 1,
     0, 1},
    {"www", "{ .reg .pred p, q; setp.eq.u32 q, %b, 1; lop3.and.b32 %d|p, %a, %b, 0, 0xfc, !q;"
            " @p mov.b32 %d, 7; }",
     6, 1, 0, 7},
    {"www", "{ .reg .pred p, q; setp.eq.u32 q, %b, 0; lop3.and.b32 %d|p, %a, %b, 0, 0xfc, !q;"
            " @p mov.b32 %d, 9; }",
     6, 1, 0, 9},
    {"wwww", "prmt.b32 %d, %a, %b, %c", 0x33221100, 0x77665544, 0x7340, 0x77334400},
    {"wwww", "prmt.b32 %d, %a, %b, %c", 0x80, 0, 0x8888, 0xffffffff},
    {"wwww", "prmt.b32.f4e %d, %a, %b, %c", 0x33221100, 0x77665544, 1, 0x44332211},
    {"wwww", "prmt.b32.rc16 %d, %a, %b, %c", 0x33221100, 0x77665544, 1, 0x33223322},
    {"wwww", "dp4a.s32.s32 %d, %a, %b, %c", 0xff020304, 0x01010101, 10, 18},
    {"wwww", "dp4a.u32.u32 %d, %a, %b, %c", 0xff020304, 0x01010101, 10, 274},
    {"wwww", "dp2a.lo.s32.s32 %d, %a, %b, %c", 0xffff0002, 0x04030201, 10, 10},
    {"wwww", "sad.s32 %d, %a, %b, %c", 0xffffffff, 4, 1, 6},
    {"wwww", "slct.u32.s32 %d, %a, %b, %c", 5, 6, 0xffffffff, 6},
    {"www", "set.lt.u32.s32 %d, %a, %b", 0xffffffff, 0, 0, 0xffffffff},
    {"www", "set.lt.f32.u32 %d, %a, %b", 0, 1, 0, F_ONE},
    {"ww", "not.b32 %d, %a", 0, 0, 0, 0xffffffff},
    {"ww", "cnot.b32 %d, %a", 0, 0, 0, 1},
    {"wwww", "fns.b32 %d, %a, %b, %c", 0xf0, 0, 2, 5},
    {"wwww", "fns.b32 %d, %a, %b, %c", 0xf0, 31, 0xffffffff, 7},
    // comparisons: false for NaN, but for those with u
    {"pww", "setp.lt.f32 %d, %a, %b", F_NAN, F_ONE, 0, 0},
    {"pww", "setp.ltu.f32 %d, %a, %b", F_NAN, F_ONE, 0, 1},
    {"pww", "setp.ne.f32 %d, %a, %b", F_NAN, F_ONE, 0, 0},
    {"pww", "setp.neu.f32 %d, %a, %b", F_NAN, F_ONE, 0, 1},
    {"pww", "setp.equ.f32 %d, %a, %b", F_NAN, F_ONE, 0, 1},
    {"pww", "setp.num.f32 %d, %a, %b", F_NAN, F_ONE, 0, 0},
    {"pww", "setp.nan.f32 %d, %a, %b", F_NAN, F_ONE, 0, 1},
    {"pww", "setp.lo.u32 %d, %a, %b", 1, 0x80000000, 0, 1},
    {"pww", "setp.lt.s32 %d, %a, %b", 1, 0x80000000, 0, 0},
    {"pww", "setp.eq.ftz.f32 %d, %a, %b", 1, 0, 0, 1},
    {"pww", "setp.eq.f32 %d, %a, %b", 1, 0, 0, 0},
    {"phh", "setp.gt.f16 %d, %a, %b", 0x3c00, 0xbc00, 0, 1},
    // f32
    {"www", "add.rn.f32 %d, %a, %b", F_ONE, 0x33800000, 0, F_ONE},
    {"www", "add.rp.f32 %d, %a, %b", F_ONE, 0x33800000, 0, F_ONE + 1},
    {"www", "add.rm.f32 %d, %a, %b", F_ONE, 0xb3800000, 0, 0x3f7fffff},
    {"www", "add.rz.f32 %d, %a, %b", F_ONE, 0x34000001, 0, F_ONE + 1},
    {"www", "mul.rp.f32 %d, %a, %b", 0x3f800001, 0x3f800001, 0, 0x3f800003},
    {"www", "mul.rn.f32 %d, %a, %b", 0x3f800001, 0x3f800001, 0, 0x3f800002},
    {"www", "mul.ftz.f32 %d, %a, %b", 0x00800000, 0x3f000000, 0, 0},
    {"www", "mul.f32 %d, %a, %b", 0x00800000, 0x3f000000, 0, 0x00400000},
    {"www", "add.sat.f32 %d, %a, %b", F_ONE, F_ONE, 0, F_ONE},
    {"www", "add.sat.f32 %d, %a, %b", F_NAN, F_ONE, 0, 0},
    {"wwww", "fma.rn.f32 %d, %a, %b, %c", 0x3f800001, 0x3f800001, 0xbf800002, 0x28800000},
    {"wwww", "fma.rz.f32 %d, %a, %b, %c", F_ONE, F_ONE, 0xb3000000, 0x3f7fffff},
    {"www", "div.rn.f32 %d, %a, %b", F_ONE, 0x40400000, 0, 0x3eaaaaab},
    {"www", "div.rz.f32 %d, %a, %b", F_ONE, 0x40400000, 0, 0x3eaaaaaa},
    {"ww", "rcp.rn.f32 %d, %a", 0x40400000, 0, 0, 0x3eaaaaab},
    {"ww", "sqrt.rn.f32 %d, %a", 0x40000000, 0, 0, 0x3fb504f3},
    {"ww", "sqrt.rp.f32 %d, %a", 0x40000000, 0, 0, 0x3fb504f4},
    {"ww", "ex2.approx.f32 %d, %a", 0x40400000, 0, 0, 0x41000000},
    {"ww", "lg2.approx.f32 %d, %a", 0x41000000, 0, 0, 0x40400000},
    {"www", "min.f32 %d, %a, %b", F_NAN, F_ONE, 0, F_ONE},
    {"www", "min.NaN.f32 %d, %a, %b", F_NAN, F_ONE, 0, F_NAN},
    {"www", "max.f32 %d, %a, %b", 0x80000000, 0, 0, 0},
    {"www", "min.f32 %d, %a, %b", 0, 0x80000000, 0, 0x80000000},
    {"www", "min.xorsign.abs.f32 %d, %a, %b", 0xc0000000, 0x40400000, 0, 0xc0000000},
    {"www", "copysign.f32 %d, %a, %b", 0x80000000, F_ONE, 0, 0xbf800000},
    {"pw", "testp.subnormal.f32 %d, %a", 1, 0, 0, 1},
    {"pw", "testp.infinite.f32 %d, %a", 0xff800000, 0, 0, 1},
    // f64
    {"ddd", "add.rp.f64 %d, %a, %b", D_ONE, 1, 0, D_ONE + 1},
    {"dddd", "fma.rn.f64 %d, %a, %b, %c", D_ONE + 1, D_ONE + 1, 0xbff0000000000002ull,
     0x3970000000000000ull},
    {"ddd", "div.rn.f64 %d, %a, %b", D_ONE, 0x4008000000000000ull, 0, 0x3fd5555555555555ull},
    {"dd", "rsqrt.approx.f64 %d, %a", 0x4000000000000000ull, 0, 0, 0x3fe6a09e667f3bccull},
    {"dd", "rsqrt.approx.ftz.f64 %d, %a", 0x4000000000000000ull, 0, 0, 0x3fe6a09e00000000ull},
    {"dd", "rcp.approx.ftz.f64 %d, %a", 0x4008000000000000ull, 0, 0, 0x3fd5555500000000ull},
    {"ddd", "max.f64 %d, %a, %b", D_ONE, 0x7ff8000000000000ull, 0, D_ONE},
    // 16 bits: 0x3c01 * 0x3c01 is 1 + 2^-9 + 2^-20; with c it rounds once
    {"hhh", "add.f16 %d, %a, %b", 0x3c00, 0x1400, 0, 0x3c01},
    {"hhhh", "fma.rn.f16 %d, %a, %b, %c", 0x3c01, 0x3c01, 0xbc02, 0x0010},
    {"hhhh", "fma.rn.bf16 %d, %a, %b, %c", 0x3f81, 0x3f81, 0xbf82, 0x3880},
    {"hhhh", "fma.rz.bf16 %d, %a, %b, %c", 0x3f81, 0x3f81, 0xbf80, 0x3c80},
    {"hhhh", "fma.rp.bf16 %d, %a, %b, %c", 0x3f81, 0x3f81, 0xbf80, 0x3c81},
    {"hhhh", "fma.rz.bf16 %d, %a, %b, %c", 0x3f80, 0x3f80, 0xb380, 0x3f7f},
    {"hhhh", "fma.rp.bf16 %d, %a, %b, %c", 0x3f80, 0x3f80, 0x3380, 0x3f81},
    {"hhhh", "fma.rm.bf16 %d, %a, %b, %c", 0xbf80, 0x3f80, 0xb380, 0xbf81},
    {"hhhh", "fma.rp.bf16 %d, %a, %b, %c", 0xbf80, 0x3f80, 0xb380, 0xbf80},
    {"hhhh", "fma.rm.bf16 %d, %a, %b, %c", 0x3f80, 0x3f80, 0xbf80, 0x8000},
    {"hhhh", "fma.rz.bf16 %d, %a, %b, %c", 0x7f00, 0x7f00, 0, 0x7f7f},
    {"hhhh", "fma.rp.bf16 %d, %a, %b, %c", 0x7f00, 0x7f00, 0, 0x7f80},
    {"hhhh", "fma.rp.bf16 %d, %a, %b, %c", 0x0080, 0x0080, 0, 0x0001},
    {"hhhh", "fma.rz.relu.bf16 %d, %a, %b, %c", 0x3f80, 0xbf80, 0, 0},
    {"wwww", "fma.rp.bf16x2 %d, %a, %b, %c", 0x3f803f80, 0x3f803f80, 0x3380b380, 0x3f813f80},
    {"hhhh", "fma.rn.relu.f16 %d, %a, %b, %c", 0x3c00, 0xbc00, 0, 0},
    {"hhhh", "fma.rn.sat.f16 %d, %a, %b, %c", 0x4000, 0x4000, 0, 0x3c00},
    {"www", "add.f16x2 %d, %a, %b", 0x3c003c00, 0x3c00bc00, 0, 0x40000000},
    {"wwww", "fma.rn.bf16x2 %d, %a, %b, %c", 0x3f803f80, 0x40004040, 0x00000000, 0x40004040},
    {"hhh", "max.NaN.f16 %d, %a, %b", 0x7e00, 0x3c00, 0, 0x7fff},
    {"hhh", "min.xorsign.abs.f16 %d, %a, %b", 0xc000, 0x4200, 0, 0xc000},
    {"www", "max.NaN.xorsign.abs.bf16x2 %d, %a, %b", 0xbf804000, 0xc0003f80, 0, 0x40004000},
    {"wwww", "{ .reg .pred q; setp.eq.u32 q, %c, 1; set.lt.or.u32.f16x2 %d, %a, %b, q; }",
     0x3c003c00, 0x40003c00, 0, 0xffff0000},
    {"wwww", "{ .reg .pred q; setp.eq.u32 q, %c, 0; set.lt.xor.f16x2.f16x2 %d, %a, %b, q; }",
     0x3c003c00, 0x40003c00, 0, 0x00003c00},
    {"hh", "neg.f16 %d, %a", 0x3c00, 0, 0, 0xbc00},
    {"ww", "abs.bf16x2 %d, %a", 0xbf803f80, 0, 0, 0x3f803f80},
    {"hh", "ex2.approx.f16 %d, %a", 0x4000, 0, 0, 0x4400},
    // cvt
    {"ww", "cvt.rni.s32.f32 %d, %a", 0x40200000, 0, 0, 2},
    {"ww", "cvt.rpi.s32.f32 %d, %a", 0x40200000, 0, 0, 3},
    {"ww", "cvt.rzi.s32.f32 %d, %a", 0xc0200000, 0, 0, (uint32_t)-2},
    {"ww", "cvt.rmi.s32.f32 %d, %a", 0xc0200000, 0, 0, (uint32_t)-3},
    {"ww", "cvt.rzi.s32.f32 %d, %a", 0x7f800000, 0, 0, 0x7fffffff},
    {"ww", "cvt.rzi.u32.f32 %d, %a", 0xbf800000, 0, 0, 0},
    {"ww", "cvt.rzi.s32.f32 %d, %a", F_NAN, 0, 0, 0},
    {"ww", "cvt.rn.f32.s32 %d, %a", 0xffffffff, 0, 0, 0xbf800000},
    {"ww", "cvt.rn.f32.u32 %d, %a", 0xffffffff, 0, 0, 0x4f800000},
    {"ww", "cvt.rz.f32.u32 %d, %a", 0xffffffff, 0, 0, 0x4f7fffff},
    {"wd", "cvt.rp.f32.u64 %d, %a", (1ull << 40) + 1, 0, 0, 0x53800001},
    {"wd", "cvt.rn.f32.f64 %d, %a", D_ONE + 1, 0, 0, F_ONE},
    {"wd", "cvt.rp.f32.f64 %d, %a", D_ONE + 1, 0, 0, F_ONE + 1},
    {"dw", "cvt.f64.f32 %d, %a", F_ONE, 0, 0, D_ONE},
    {"hw", "cvt.rn.f16.f32 %d, %a", 0x3f801000, 0, 0, 0x3c00},
    {"hw", "cvt.rz.f16.f32 %d, %a", 0x477fffff, 0, 0, 0x7bff},
    {"hw", "cvt.rn.f16.f32 %d, %a", 0x477fffff, 0, 0, 0x7c00},
    {"hw", "cvt.rn.f16.f32 %d, %a", 0x33000001, 0, 0, 1},
    {"hw", "cvt.rn.bf16.f32 %d, %a", 0x3f808000, 0, 0, 0x3f80},
    {"hw", "cvt.rn.bf16.f32 %d, %a", 0x3f818000, 0, 0, 0x3f82},
    {"hw", "cvt.rz.bf16.f32 %d, %a", 0x3f81ffff, 0, 0, 0x3f81},
    {"hw", "cvt.rn.relu.bf16.f32 %d, %a", 0xbf800000, 0, 0, 0},
    {"www", "cvt.rn.f16x2.f32 %d, %a, %b", F_ONE, 0x40000000, 0, 0x3c004000},
    {"www", "cvt.rn.bf16x2.f32 %d, %a, %b", F_ONE, 0x40000000, 0, 0x3f804000},
    {"ww", "cvt.rna.tf32.f32 %d, %a", 0x3f801000, 0, 0, 0x3f802000},
    {"hww", "cvt.rn.satfinite.e4m3x2.f32 %d, %a, %b", 0x44000000, F_ONE, 0, 0x7e38},
    {"hww", "cvt.rn.satfinite.e5m2x2.f32 %d, %a, %b", F_ONE, 0x7f800000, 0, 0x3c7b},
    {"wh", "cvt.rn.f16x2.e4m3x2 %d, %a", 0xb838, 0, 0, 0xbc003c00},
    {"wh", "cvt.rn.f16x2.e5m2x2 %d, %a", 0xbc3c, 0, 0, 0xbc003c00},
    {"wh", "cvt.f32.f16 %d, %a", 0x0001, 0, 0, 0x33800000},
    {"wh", "cvt.f32.bf16 %d, %a", 0x3f80, 0, 0, F_ONE},
    {"ww", "cvt.sat.s8.s32 %d, %a", 1000, 0, 0, 127},
    {"ww", "cvt.s8.s32 %d, %a", 0x180, 0, 0, 0xffffff80},
    {"ww", "cvt.u8.u32 %d, %a", 0x180, 0, 0, 0x80},
    {"ww", "cvt.sat.u8.s32 %d, %a", 0xffffffff, 0, 0, 0},
    {"dw", "cvt.s64.s32 %d, %a", 0xffffffff, 0, 0, ~0ull},
    {"dw", "cvt.u64.u32 %d, %a", 0xffffffff, 0, 0, 0xffffffff},
    {"ww", "cvt.rzi.f32.f32 %d, %a", 0x40200000, 0, 0, 0x40000000},
    {"ww", "cvt.rni.f32.f32 %d, %a", 0x3fc00000, 0, 0, 0x40000000},
    {"ww", "cvt.sat.f32.f32 %d, %a", 0x40000000, 0, 0, F_ONE},
    {"wwww", "cvt.pack.sat.s8.s32.b32 %d, %a, %b, %c", 1000, 0xffffff00, 0x1234, 0x12347f80},
    {"wwww", "cvt.pack.sat.u4.s32.b32 %d, %a, %b, %c", 20, 0xffffffff, 0x12, 0x12f0},
    {"wwww", "cvt.pack.sat.s4.s32.b32 %d, %a, %b, %c", 0xffffff00, 3, 1, 0x183},
    {"wwww", "cvt.pack.sat.u2.s32.b32 %d, %a, %b, %c", 9, 2, 5, 0x5e},
    {"wwww", "cvt.pack.sat.s2.s32.b32 %d, %a, %b, %c", 0xfffffff0, 9, 0, 9},
    {"hh", "cvt.rn.f16.s16 %d, %a", 0xffff, 0, 0, 0xbc00},
    {"hd", "cvt.rn.f16.u64 %d, %a", 1, 0, 0, 0x3c00},
    {"hd", "cvt.rn.f16.u64 %d, %a", 4097, 0, 0, 0x6c00},
    {"hd", "cvt.rn.bf16.u64 %d, %a", 3, 0, 0, 0x4040},
    {"hd", "cvt.rn.bf16.u64 %d, %a", 0x8080000000000001ull, 0, 0, 0x5f01},
    {"hd", "cvt.rn.bf16.s64 %d, %a", 1ull << 63, 0, 0, 0xdf00},
    // beyond the end, though their bits fit
    {"hw", "cvt.rp.f16.f32 %d, %a", 0x47800000, 0, 0, 0x7c00},
    {"hw", "cvt.rm.f16.f32 %d, %a", 0x47800000, 0, 0, 0x7bff},
    {"hw", "cvt.rm.f16.f32 %d, %a", 0xc7800000, 0, 0, 0xfc00},
    {"hw", "cvt.rp.f16.f32 %d, %a", 0xc7800000, 0, 0, 0xfbff},
    {"hw", "cvt.rz.f16.f32 %d, %a", 0xc7800000, 0, 0, 0xfbff},
    {"hh", "{ .reg .b8 t; cvt.rzi.s8.bf16 t, %a; cvt.s16.s8 %d, t; }", 0xc049, 0, 0, 0xfffd},
    {"hh", "{ .reg .b8 t; cvt.u8.u16 t, %a; cvt.rn.bf16.u8 %d, t; }", 200, 0, 0, 0x4348},
};
enum { kRows = sizeof rows / sizeof *rows };

static int append(char **text, size_t *length, const char *format, ...) {
  va_list args;
  va_start(args, format);
  int n = vsnprintf(*text ? *text + *length : NULL, *text ? 65536 : 0, format, args);
  va_end(args);
  *length += (size_t)n;
  return n;
}

static int width(char c) {
  return c == 'h' ? 16 : c == 'w' ? 32 : c == 'd' ? 64 : 1;
}

// Row i: its operands' registers are %ai, %bi, %ci, its result's %di.
static void write_row(char **text, size_t *n, int i) {
  const Row *row = &rows[i];
  append(text, n, "{\n.reg .b64 %%x<9>;\n");
  for (int k = 0; row->widths[k]; k++) {
    int w = width(row->widths[k]);
    append(text, n, w == 1 ? ".reg .pred %%%c;\n" : ".reg .b%2$d %%%1$c;\n", "dabc"[k], w);
    if (k) append(text, n, "ld.global.u%d %%%c, [%%rd1+%d];\n", w, "dabc"[k], i * 32 + 8 * k - 8);
  }
  append(text, n, "%s;\n", row->text);
  int w = width(row->widths[0]);
  if (w == 1) append(text, n, "selp.u64 %%x1, 1, 0, %%d;\n");
  else append(text, n, w == 64 ? "mov.b64 %%x1, %%d;\n" : "cvt.u64.u%d %%x1, %%d;\n", w);
  append(text, n, "st.global.u64 [%%rd2+%d], %%x1;\n}\n", i * 8);
}

static void test_values(void **state) {
  (void)state;
  char *text = calloc(1 << 20, 1);
  size_t n = 0;
  append(&text, &n, ".version 8.6\n.target sm_90\n.address_size 64\n"
                    ".visible .entry k(.param .u64 in, .param .u64 out)\n{\n.reg .b64 %%rd<3>;\n"
                    "ld.param.u64 %%rd1, [in];\nld.param.u64 %%rd2, [out];\n");
  for (int i = 0; i < kRows; i++) write_row(&text, &n, i);
  append(&text, &n, "ret;\n}\n");
  uint64_t in[kRows][4] = {0}, out[kRows];
  for (int i = 0; i < kRows; i++) in[i][0] = rows[i].a, in[i][1] = rows[i].b, in[i][2] = rows[i].c;
  CUmodule module;
  CUfunction f;
  OK(cuModuleLoadData(&module, text));
  OK(cuModuleGetFunction(&f, module, "k"));
  CUdeviceptr from = device_upload(in, sizeof in), to = device_upload(NULL, sizeof out);
  OK(device_run(f, 1, 1, 0, (void *[]){&from, &to}));
  OK(cuMemcpyDtoH(out, to, sizeof out));
  int wrong = 0;
  for (int i = 0; i < kRows; i++) {
    uint64_t mask = width(rows[i].widths[0]) == 16 ? 0xffff : ~0ull;
    if ((out[i] & mask) == rows[i].expected) continue;
    fprintf(stderr, "%s: a %llx, b %llx, c %llx: %llx, not %llx\n", rows[i].text,
            (unsigned long long)rows[i].a, (unsigned long long)rows[i].b,
            (unsigned long long)rows[i].c, (unsigned long long)out[i],
            (unsigned long long)rows[i].expected);
    wrong++;
  }
  assert_int_equal(wrong, 0);
  free(text);
}

int main(void) {
  if (on_gpu()) return puts("1..0 # SKIP only on libcusim"), 0;
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_values)};
  return cmocka_run_group_tests_name("test_ptx_values", tests, device_setup, NULL);
}
