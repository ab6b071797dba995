// ptxas_lines.h: lines for test_ptxas.c as patterns: `<a|b>` is each of a and b, `@3` the third
// register of the instruction's last type, `#` each type. What ptxas 13.0 takes and libcusim does
// not (textures, fma.oob, multimem) is left out, and v8 of 16 bits, of which it dies.
#ifndef PTXAS_LINES_H
#define PTXAS_LINES_H

static const char *const ptxas_patterns[] = {
    // Integers, bits, choices, moves.
    "<add|sub|min|max|div|rem|mul|and|or|xor><|.sat|.cc|.relu|.lo|.hi|.wide|.NaN|.ftz>.# @1, @2, "
    "@3;",
    "<not|cnot|neg|abs|popc|clz|bfind|brev><|.sat|.ftz>.# @1, @2;",
    "<mad|madc|sad|fma|mad24|mul24><.lo|.hi||.rn|.ftz|.rn.sat|.lo.cc|.lo.sat>.# @1, @2, @3, @4;",
    "<addc|subc|mul24.lo|mul24.hi><|.cc>.# @1, @2, @3;",
    "<popc|clz|bfind|brev>.<b32|b64|u32|s32|u64|s64|b16> %r1, <%r2|%d2>;",
    "<bfe|fns|bfi>.# @1, @2, %r3, %r4;",
    "bfi.# @1, @2, @3, %r3, %r4;",
    "<bmsk|szext><.wrap|.clamp|>.<u32|s32|b32> %r1, %r2, %r3;",
    "shf<.l|.r>.wrap.<b32|b64|u32> @1, @2, @3, %r4;",
    "<shl|shr>.# @1, @2, <%r3|3>;",
    "<dp4a|dp2a|dp2a.lo><.s32|.u32|.s8>.<s32|u32> %r1, %r2, %r3, %r4;",
    "<dp4a|dp2a.hi>.s32 %r1, %r2, %r3, %r4;",
    "selp.# @1, @2, @3, %p1;",
    "slct<|.ftz>.#.<s32 @1, @2, @3, %r4|f32 @1, @2, @3, %f4|u32 @1, @2, @3, %r4>;",
    "mov.# @1, <@2|%tid.x|%laneid|%clock64|%gridid|%globaltimer|%smid|%clusterid.x|%ctaid.y>;",
    "mov.<u32|b32|b64|s64> <@1, {%h1,%h2}|@1, {%r1,%r2}|{%r1,%r2}, @1>;",
    "set.<eq|ltu|hs>.<u32.# %r1|s32.# %r1|f32.# %f1|f16.# %h1|u16.# %h1|s16.# %h1|u64.# %d1>, @2, "
    "@3;",
    "testp.<finite|nan>.# %p1, @2;",
    "<rcp|sqrt|rsqrt|sin|lg2|ex2|tanh><|.approx|.approx.ftz|.rn|.rn.ftz>.<f32|f64|f16|bf16x2> @1, "
    "@2;",
    "<min|max><.relu|.NaN|.xorsign.abs|.NaN.xorsign.abs|.ftz.NaN>.# @1, @2, @3;",
    "madc<.lo|.hi><.sat|.cc|.sat.cc>.<s32|u32|s64> @1, @2, @3, @4;",
    "mad<.lo|.hi>.sat.cc.s32 %r1, %r2, %r3, %r4;",
    "mov.b32 %r1, {<%h1|_>,<%h2|_>};",
    "mov.b64 <%d1, {%r1,_}|%d1, {_,%r2}|%d1, {%h1,_,%h2,%h3}|{%r1,_}, %d1|{_,_}, %d1>;",
    // Words twice, and two of which there is one.
    "<add|mul|fma><.ftz.ftz|.rn.ftz|.rn.ftz.ftz|.rn.rz|.rn.rn|.sat.sat|.rn.sat.ftz>.f32 %f1, %f2, "
    "%f3<|, %f4>;",
    "mul<.lo.hi|.lo.lo|.wide.lo>.s32 %r1, %r2, %r3;",
    "div<.approx.full|.approx.approx|.full.full>.f32 %f1, %f2, %f3;",
    "ld<.global.global|.volatile.volatile.global|.ca.ca.global|.ca.cg.global|.global.nc.nc|.weak."
    "volatile|.weak.weak|.relaxed.acquire.gpu|.relaxed.gpu.sys|.global.L1::evict_last.L1::evict_"
    "first|"
    ".global.L2::64B.L2::128B|.relaxed.gpu.gpu|.global.shared>.u32 %r1, [%d1];",
    "ld.global.v2.v2.u32 {%r1, %r2}, [%d1];",
    "<atom|red>.global<.relaxed.gpu.sys|.gpu.gpu|.relaxed.relaxed|.relaxed.acquire|.add|.global|"
    ".shared>.add.u32 <%r1, [%d1], %r2|[%d1], %r2>;",
    "redux.sync<.add.min|.add.add|.add>.u32 %r1, %r2, -1;",
    "vote.sync<.all.any|.all.all|.all>.pred %p1, %p2, -1;",
    "fence<.sc.acq_rel.gpu|.sc.sc.gpu|.sc.gpu.gpu|.sc.gpu.sys|.proxy.async.async|.proxy.proxy."
    "async>;",
    "<membar.gl.gl|membar.gl.sys|setmaxnreg.inc.dec.sync.aligned.u32 240|barrier.cluster.arrive."
    "aligned.aligned|wgmma.fence.sync.aligned.aligned>;",
    "mbarrier.arrive<.release.release.cta|.release.cta.cta|.shared.shared|.shared.shared::cta|"
    ".expect_tx.expect_tx>.b64 %d1, [%d1], 4;",
    "cvt<.rn.rn|.rn.rz|.rn.sat.sat|.rn>.f32.s32 %f1, %r1;",
    "prefetch.global.<L1.L2|L1.L1|L1> [%d1];",
    // Memory.
    "ld<|.weak|.volatile|.relaxed.cta|.relaxed|.acquire.sys|.mmio.relaxed.sys><.global|><|.ca|.cg|."
    "cv|.lu|.nc|.wb|.nc.L1::no_allocate|.L1::evict_last|.L2::128B|.ca.L2::128B|.cg.L1::evict_last>."
    "b32 %r2, [%d1];",
    "ld<|.weak|.volatile|.relaxed.cta|.acquire.sys|.mmio.relaxed.sys><.shared|.shared::cluster|."
    "local><|.ca|.cs|.nc|.L1::evict_last|.L2::128B>.b32 %r2, [%r1];",
    "ld<|.volatile|.relaxed.gpu><.param|.param::entry><|.ca|.L1::evict_last>.b32 %r2, [x];",
    "st<|.weak|.volatile|.relaxed.cta|.release.sys|.mmio.relaxed.sys><.global|><|.ca|.cg|.cs|.wb|."
    "wt|.nc|.L1::evict_last|.L2::128B>.b32 [%d1], %r2;",
    "st<|.weak|.volatile|.relaxed.cta><.shared|.shared::cta|.local><|.cg|.wt|.L1::evict_last>.b32 "
    "[%r1], %r2;",
    "st<|.weak><.param|.param::entry>.b32 [x], %r2;",
    "<ld.global|ld.shared|ldu.global|ld.global.nc>.# @1, [%d1];",
    "ld.global<|.L1::evict_last>.L2::cache_hint.b32 %r1, [%d1]<|, %d2|, %r2>;",
    "<prefetch|prefetchu><|.global|.local|.shared|.const><.L1|.L2|.L3||.L2::evict_last|.tensormap> "
    "[%d1];",
    "<applypriority|discard><|.global|.shared><.L2::evict_normal|.L2|> [%d1], <128|64|%r1>;",
    "createpolicy.fractional<|.L2::evict_last|.L2::evict_first|.L2::evict_unchanged|.L2::evict_"
    "normal"
    "><|.L2::evict_last|.L2::evict_first|.L2::evict_unchanged|.L2::evict_normal>.<b64|u64> %d1<|, "
    "0.5|"
    ", 0.0|, 1.0|, 2.0|, 1|, 0f3F800000|, %f1|, %d2>;",
    "createpolicy.range<|.global>.L2::evict_last<|.L2::evict_first|.L2::evict_last|.L2::evict_"
    "normal>"
    ".b64 %d1, [%d2], <4096|%r1|%d3>, <8192|%r2>;",
    "createpolicy.cvt<|.L2>.b64 %d1, <%d2|%r1|0x100>;",
    "alloca.<u32|u64|b64|s64> <%r1|%d1>, 16<|, 16|, 3>;",
    "stacksave.<u32|u64|b64> <%r1|%d1>;",
    "stackrestore.<u32|u64|b64> <%r1|%d1|5>;",
    "mbarrier.<init|inval|arrive|expect_tx|try_wait|test_wait>.b64 <[%r1], 4|[%r1]|%d1, [%r1]|%p1, "
    "[%r1], %d2>;",
    "<mapa|getctarank>.<shared::cluster.u32 %r1, %r2|shared::cta.u32 %r1, %r2|u64 %d1, %d2|b64 "
    "%d1, "
    "%d2><|, %r3>;",
    // Fences, warps, barriers.
    "fence<|.sc|.acq_rel|.acquire|.release><|.cta|.gpu|.cluster|.sync_restrict::shared::cta."
    "cluster|"
    ".sync_restrict::shared::cluster.cluster>;",
    "membar<.cta|.gl|.sys|.gpu|.cluster|>;",
    "fence.proxy.<alias|async|async.global|async.shared::cta|async.shared|tensormap::generic."
    "release"
    ".gpu|tensormap::generic.acquire.gpu [%d1], 128|tensormap::generic.acquire.gpu [%d1], 64>;",
    "fence.mbarrier_init.release.<cluster|cta>;",
    "shfl.sync.<up|bfly>.<b32|f32|u32> <%r1|%r1\xff%p1|_\xff%p1>, %r2, 3, 31, -1;",
    "vote.sync.<all|any|ballot>.<pred %p1|b32 %r1>, %p2, -1;",
    "match.<all|any>.sync.<b32|u32> <%r1|%r1\xff%p1>, %r2, -1;",
    "barrier.cluster.<arrive|wait><|.release|.acquire|.relaxed>;",
    "<bar|barrier>.arrive 0, <0|64>;",
    "<bar|bar.cta|barrier|barrier.cta>.<sync|arrive><| 0| 0, 64| %r1>;",
    "bar.red.popc.u32 %r1, <0, %p1|0, 64, %p1|%p1>;",
    "bar.warp.sync<| -1>;",
    "pmevent <3|16>;",
    "nanosleep.<u32|b32> 5;",
    "setmaxnreg.inc<.sync|>.aligned.u32 240;",
    // Copies.
    "cp.async.bulk<.shared::cluster|.shared::cta><.global|.shared::cta|.shared::cluster|>"
    "<.mbarrier::complete_tx::bytes|> [%r1], [%d2], %r4, [%r3];",
    "cp.async.bulk.global<.shared::cta|.global|><.bulk_group|> [%d1], [%r2], %r4;",
    "cp.reduce.async.bulk<.shared::cluster|.shared::cta><.shared::cta|.global>"
    "<.mbarrier::complete_tx::bytes|.bulk_group>.add.u32 [%r1], [%r2], %r4, [%r3];",
    "cp.reduce.async.bulk.global<.shared::cta|.global><.bulk_group|>.add.u32 [%d1], [%r2], %r4;",
    "cp.async.bulk [%r1], [%d2], %r4, [%r3];",
    "cp.async.<wait_group|bulk.wait_group> <0|%r1>;",
    "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.<u32|s64|u64> "
    "[%r5], @1, [%r6];",
    "mbarrier.<init|inval|test_wait|arrive><|.shared|.shared::cluster>.b64 <[%d1], 4|[%d1]|%p1, "
    "[%d1], %d2|%p1, [%d1], %d2, %r3>;",
    "tensormap.replace.tile.<box_dim|global_dim|element_stride>.global.b1024.b32 [%d1]<|, 0|, 4|, "
    "5|"
    ", %r2>, %r3;",
    "tensormap.replace.tile.<elemtype|swizzle_mode|fill_mode|interleave_layout>.global.b1024.b32 "
    "[%d1], <1|2|3|9|%r2|0, 1>;",
    // Products.
    "<ldmatrix|stmatrix>.sync.aligned.m8n8.<x1|x2>.shared.b16 <%r1, [%r5]|{%r1}, [%r5]|{%r1,%r2}, "
    "[%r5"
    "]|[%r5], %r1|[%r5], {%r1}|[%r5], {%r1,%r2}>;",
    "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%f1,%f2,%f3,%f4}, {%r1,%r2}, <%r3|{%r3}>, "
    "{%f1,"
    "%f2,%f3,%f4};",
    "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%e1,%e2}, <%e3|{%e3}>, <%e4|{%e4}>, "
    "{%e1,%e2};",
    "wmma.load.a.sync.aligned.row.m8n8k32.s4 <%r1|{%r1}>, [%d1];",
    "mma.sync.aligned.<m16n8k16.row.col.f32.e4m3.e5m2.f32 {%f1,%f2,%f3,%f4}, {%r1,%r2}, {%r3}, "
    "{%f1,%f"
    "2,%f3,%f4}|m16n8k32.row.col.f16.e4m3.e4m3.f16 {%r1,%r2}, {%r1,%r2,%r5,%r6}, {%r3,%r4}, "
    "{%r1,%r2}"
    ">;",
    "mma.sync.aligned.m16n8k16.<row.col|col.row|row.row|row>.f32.<f16.f16|bf16.bf16>.f32 {%f1,%f2,"
    "%f3,%f4}, {%r1,%r2,%r3,%r4}, {%r5,%r6}, {%f1,%f2,%f3,%f4};",
    "mma.sync.aligned.m16n8k16.<row.col|col.row>.f16.f16.f16.<f16 {%r1,%r2}|f32 "
    "{%f1,%f2,%f3,%f4}>, "
    "{%r1,%r2,%r3,%r4}, {%r5,%r6}, {%r1,%r2};",
    "mma.sync.aligned.m16n8k32.row.col<|.satfinite>.<s32.s8.u8.s32 {%r1,%r2,%r3,%r4}|f32.e4m3.e5m2."
    "f32 {%f1,%f2,%f3,%f4}>, {%r1,%r2,%r3,%r4}, {%r5,%r6}, <{%r1,%r2,%r3,%r4}|{%f1,%f2,%f3,%f4}>;",
    "mma.sync.aligned.<m8n8k4.row.col.f64.f64.f64.f64 {%e1,%e2}, {%e3}, {%e4}, "
    "{%e1,%e2}|m16n8k4.row."
    "col.f64.f64.f64.f64 {%e1,%e2,%e3,%e4}, {%e3,%e4}, {%e4}, {%e1,%e2,%e3,%e4}>;",
};

#endif
