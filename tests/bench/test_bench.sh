#!/usr/bin/env bash
# `make bench DEVICE=cuda` without a GPU: its table from made-up results, PyTorch's side on the CPU,
# the whole program as a dry run on libcusim.
. "$(dirname "$0")/../tap.sh"
table() { python3 tests/bench/table.py "$@"; }
nothing_measured() { # no stored result: no figure
  mkdir -p "$work/empty" && table --results "$work/empty" >"$work/o" &&
    [ "$(cat "$work/o")" = "Times on GPUs: not measured yet." ]
}
has() { grep -qF -- "$1" "$work/o" || { echo "no line with: $1"; cat "$work/o"; return 1; }; }
synthetic() {
  table tests/bench/fixture_synthetic.json --whole >"$work/o" &&
    has "**Synthetic figures, made up for a test: nothing was measured.**" &&
    has "Tests on the device: 3 passed, 0 failed, 1 skipped." &&
    has "left out: resnet34 fp16 batch 256" &&
    has "| resnet18 | fp16 | 32 | 0.5 | - | 0.6 | 2 | - | - | - | 0.75 | 1.50x | - | 64000 |" &&
    has "Not measured: resnet18 fp16 batch 32, compile: a reason." &&
    has "| fp16 | 32 | 2 | 1.00x | - | 0.50x |" && has "| fp16 | 1 | 1 | not measured | - | - |" &&
    has "| layer1.0.conv1 | fp16 conv A | 64x64 | 10.00 | 200 | 8.00 | 20.00 | 2.00x |" &&
    has "| qkv, batch 8 | bf16 matmul D | 128x128 | 100.00 | 500 | 90.00 | 90.00 | 0.90x |" &&
    has "| 32 | 2048 | 8 | 32 | causal | bf16 | 0.25 | 275 | 137 | - | 2.00x |" &&
    has "Not measured: cuDNN (bf16 causal 8x32x2048x32): no kernel." &&
    has "| training | bf16 | 8 | 8 | 16 | - | - | 12 | 1.50x | 1000 |" &&
    has "| resnet18 | cifar | tf32 | 128 | 4 | 8 | - | - | - | 2.00x | 32000 |" &&
    has "Not measured: compile (resnet18 cifar tf32 128): took over 75 s." &&
    has "| copy | 4.00 TB/s, read and write |" &&
    has "| product fp16 8192, cuBLAS | 500 TFLOP/s |" &&
    has "| product bf16 8192 | not measured: no library |" &&
    has "modelled / measured 0.80 in the geometric mean"
}
places="README.md tests/bench/README.md" # that show tables
copies() { cp README.md "$work/R.md" && cp tests/bench/README.md "$work/B.md"; }
not_in_readme() { # neither a synthetic result nor a dry run gets into a README, or counts as stored
  copies && fails 1 "does not go into a README" \
    table tests/bench/fixture_synthetic.json --readme "$work/R.md" "$work/B.md" &&
    cmp -s README.md "$work/R.md" && mkdir -p "$work/r" &&
    cp tests/bench/fixture_synthetic.json "$work/r/" &&
    fails 1 "a dry run or a synthetic result is among the stored ones" table --results "$work/r"
}
no_empty_figure() { # as where a program's line is not found any more
  ! grep -nE '^\|.*\( *\)' $places
}
readme_is_current() { # the READMEs show what is stored, or that nothing was measured
  copies && table --readme "$work/R.md" "$work/B.md" && diff README.md "$work/R.md" &&
    diff tests/bench/README.md "$work/B.md"
}
parts_have_places() { # each part of the tables of bench.sh has one place, and each place a part
  grep -hoE '\b(part|table)\("[a-z_]+"|(^ *|[;{] )(part|figures) [a-z_]+(;|$)' tests/bench/bench.sh \
    tests/bench/bench_*.py | grep -oE '[a-z_]+"?;?$' | tr -d '";' | sort -u >"$work/printed" &&
    sed -nE 's/^<!-- bench ([a-z_]+) begins -->$/\1/p' $places | sort >"$work/placed" &&
    diff "$work/printed" "$work/placed" &&
    ! printf '\n<!-- part nowhere -->\nx\n' | tests/bench/place.py bench $places 2>"$work/e" &&
    grep -q "^place: nowhere: no place in README.md" "$work/e" && copies &&
    printf '\n<!-- part machine -->\nx\n\n<!-- part padding -->\ny\n' |
    tests/bench/place.py bench "$work/R.md" "$work/B.md" &&
    diff README.md "$work/R.md" | grep -qx '> x' &&
    diff tests/bench/README.md "$work/B.md" | grep -qx '> y'
}
ask() {
  cat <<'END'
{"do":"info"}
{"do":"prepare","model":"resnet18","batch":1,"dtype":"fp32","size":32}
{"do":"compile"}
{"do":"sample","runs":2}
{"do":"training","model":"resnet18","stem":"cifar","batch":2,"dtype":"tf32","size":8}
{"do":"compile","mode":"default"}
{"do":"sample","runs":2}
{"do":"forget"}
{"do":"block","training":true,"batch":1,"dtype":"bf16","tokens":32,"width":32,"heads":2,"lr":1e-9}
{"do":"sample","runs":2}
{"do":"attention","shape":[1,2,32,32],"causal":true,"dtype":"bf16"}
{"do":"sample","runs":2}
{"do":"conv","x":[1,8,8,8],"w":[8,8,3,3],"stride":1,"pad":1,"dtype":"fp32"}
{"do":"nonsense"}
{"do":"quit"}
END
}
peers() {
  ask | $python tests/bench/peers.py --device cpu --quick >"$work/o" &&
    has '"variant": "eager channels_last"' && has '"variant": "conv2d"' &&
    has '"done": "compile"' && has '"done": "sample"' && has '"error": "nonsense' &&
    has '"variant": "eager"' && has '"done": "training"' && has '"done": "attention"' &&
    ! grep -v nonsense "$work/o" | grep '"error"'
}
dry_run() { # everything runs, says that it is none of a GPU, stores nothing
  ls tests/bench/results >"$work/before" &&
    env -u NNGEN_DEVICE python3 tests/bench/gpu.py --dry-run >"$work/o" 2>"$work/e" &&
    ls tests/bench/results | cmp - "$work/before" &&
    has "**Dry run on libcusim and the CPU: these are no figures of a GPU.**" &&
    has "| layer1.0.conv1 | fp16 conv" && has "| launches in a graph |" &&
    has "| 32 | 32 | 1 | 1 | causal | fp16 |" && has "| inference | bf16 | 1 |" &&
    has "| training | bf16 | 1 |" && has "| resnet18 | cifar | bf16 | 2 |" &&
    has "Not among them: fc at batch 1: a product with a vector is no contraction kernel." ||
    { cat "$work/e"; return 1; }
}
forms() { # the library gets the form that the kernel has, also of several models in one process
  NNGEN_DEVICE=sim build/tests/bench/bench_gpu model tests/bench/forms.lua fp16 quick \
    -- tests/bench/forms.lua fp16 ta=1 -- \
    tests/bench/forms.lua fp16 tb=1 -- tests/bench/forms.lua fp16 ta=1 tb=1 >"$work/o" || return 1
  local job=0 form
  for form in nn tn nt tt; do
    grep -q "\"who\":\"nngen\".*\"form\":\"$form\".*\"job\":$job}" "$work/o" ||
      { echo "job $job is not $form"; cat "$work/o"; return 1; }
    has "{\"job\":$job,\"done\":true}" || return 1
    job=$((job + 1))
  done
}
runner() { # a line as each program ends, and the failed one's details; then the sum
  printf '#!/bin/sh\necho "ok 1 - a"; echo "1..1"\n' >"$work/quick"
  printf '#!/bin/sh\nsleep 20; echo "ok 1 - b"; echo "1..1"\n' >"$work/slow"
  printf '#!/bin/sh\necho "not ok 1 - c d"; echo "# why"; echo said >&2; echo "1..1"; exit 1\n' \
    >"$work/bad"
  chmod +x "$work/quick" "$work/slow" "$work/bad"
  NNGEN_TEST= NNGEN_JOBS=2 timeout 3 tests/run.sh "$work/slow" "$work/quick" "$work/bad" >"$work/o"
  has "$work/quick" && has "not ok 1 - c d" && has "stderr: said" && has "# why" || return 1
  fails 1 "1 passed, 1 failed, 0 skipped" env NNGEN_TEST= tests/run.sh "$work/quick" "$work/bad"
}
attention() { # the tables of attention, in tiny sizes: each has all its rows, a number in each cell
  local rows compiled=1 loops=2 peers=
  tests/bench/bench_attention.py --quick >"$work/o" || return 1
  grep -q "^Instructions .* is installed" "$work/o" && loops=
  grep -q "NVRTC is not installed" "$work/o" && compiled= loops=
  grep -q "next to Triton 3.9's" "$work/o" && peers=2
  rows=$(echo 3 2 3 1 $compiled $loops $peers 4 2 2)
  has "at compile time 0.0 % are skipped, 100.0 % are masked element by element" &&
    has "skips 75.0 %" &&
    has "; 75.0 % of the scores" || return 1
  awk -F'|' -v want="$rows" '/^\|---/ {body = 1; tables++; next} !/^\|/ {body = 0}
    body {rows[tables]++
      for (i = 3; i < NF; i++) if ($i !~ /[0-9]/) {print "no number: " $0; bad = 1}}
    END {for (t = 1; t <= tables; t++) got = got (t > 1 ? " " : "") rows[t]
      if (got != want) {print "rows of the tables: " got ", want " want; bad = 1}
      exit bad}' "$work/o"
}
training() { # the tables of training steps, in tiny sizes
  tests/bench/bench_training.py --quick plans memory tokens >"$work/o" &&
    grep -qE '^\| ResNet-18, 8x8, batch 2 \| fp32 \| 0.14 \| not reached' "$work/o" &&
    grep -qE "^\| 1024 \| [0-9]+ \| [0-9]+ \\([3-9]" "$work/o" &&
    grep -qE '^\| ResNet-18, 8x8, batch 2 \| fp32 \| [0-9]+ \| [0-9]+ .*x \|' "$work/o"
}
main_loop() { # in what either disassembler prints: the loop inside, not the one around it
  cat >"$work/main_loop.py" <<'END'
import sys
sys.path.insert(0, "tests/bench")
from bench_attention import main_loop
lines = ["MOV R1, R2", "LDSM R4, [R5]", "HMMA.16816.F32 R8, R4, R6, R8",
         "HGMMA.64x64x16.F32 R8, R4, gdesc[UR8], R8", "@P2 BRA {past}", "FADD R1, R1, R2",
         "FMUL R1, R1, R2", "@P0 BRA {inner}", "FADD R1, R1, R2", "@!P1 BRA {outer}",
         "BRA {after}", "EXIT"]
labels = {1: "inner", 7: "past", 0: "outer", 11: "after"}
to_labels = {label: f"`(.L_x_{label})" for label in labels.values()}
to_places = {label: hex(16 * i) for i, label in labels.items()}
nvdisasm = "".join((f".L_x_{labels[i]}:\n" if i in labels else "") +
    f"        /*{16 * i:04x}*/      "
    f"{t.format(**to_labels)} ;\n"
    for i, t in enumerate(lines))
cuobjdump = "".join(
    f"        /*{16 * i:04x}*/      {t.format(**to_places)} ;      "
    "/* 0x0000000a00ff0b82 */\n"
    "                                              /* 0x000fe20000000800 */\n"
    for i, t in enumerate(lines))
assert main_loop(nvdisasm) == (7, 5, 9), main_loop(nvdisasm)
assert main_loop(cuobjdump) == (7, 5, 9), main_loop(cuobjdump)
END
  python3 -B "$work/main_loop.py"
}
python_with torch torchvision
if [ $NNGEN_DEVICE = sim ]; then ok "the library gets the form of the operands" forms
else skip "the library gets the form of the operands" "requires libcusim"; fi
ok "each program's line comes as it ends" runner
if ! command -v python3 >/dev/null; then
  skip "results become a table" "python3 is not installed"
else
  echo '{"schema_version": 7}' >"$work/other.json"
  long && ok "attention's tables have all their numbers" attention
  ok "training's table has its numbers" training
  ok "the main loop of attention, in machine code" main_loop
  ok "no stored result, no figure" nothing_measured
  ok "a result becomes a table" synthetic
  ok "a synthetic result stays out of the README" not_in_readme
  ok "a file that is no result" fails 1 "no result of make bench DEVICE=cuda" \
    table "$work/other.json"
  ok "the READMEs show what is stored" readme_is_current
  ok "each table has its place in one of them" parts_have_places
  ok "no parentheses of their tables are empty" no_empty_figure
  while read -r case name; do
    if [ "$case $NNGEN_DEVICE" = "wrong_interpreter cuda" ]; then
      skip "$name" "requires libcusim"; continue
    fi
    [ $case != wrong_interpreter ] || long || continue
    mkdir -p "$work/$case" && ok "$name" python3 tests/bench/test_gpu.py "$case" "$work/$case"
  done <<'END'
each_stage_is_stored what was measured is stored after each stage, whatever comes later
holes a missing figure, or a time of 0, is a dash in the table
bare_machine no git, no interpreter: the commit is a file's, PyTorch is missing
wrong_interpreter a wrong interpreter for PyTorch leaves nngen's own times
partial_tests tests that are ended early tell what ended
gemm_order products in the table's order, what is left out is named
tuned_tiles networks are measured with the model's tiles and with the tuned ones
shares a stage has its share of the time that is left
joined a stage that was cut short replaces no whole one
beside_pytorch attention, the block and training: jobs, settings, their figures
some_jobs of the jobs only those that a pattern names
jobs_left_out a job that has no time is left out, and named
starts_again where PyTorch fails, another process of it goes on
jobs_filled rows of several runs stand in one table, and say of which commit
peers_filled PyTorch's times of an earlier commit stand where the newest has none, and say so
compile_falls_back the key comparison comes first, torch.compile falls back to reduce-overhead
END
  if [ "$python" ]; then
    long && ok "PyTorch's side, on the CPU" peers
  else
    skip "PyTorch's side, on the CPU" "python3-torch and python3-torchvision are not installed"
  fi
  if ! build/nngen doctor | grep -q '^device .*libcusim'; then
    skip "no GPU, no result" "there is a GPU"
  else
    ok "no GPU, no result" fails 3 "there is no GPU here" python3 tests/bench/gpu.py \
      --results "$work/none"
  fi
  if [ $NNGEN_DEVICE = sim ]; then
    long && ok "a dry run" dry_run
  else
    skip "a dry run" "requires libcusim"
  fi
fi
tap_done
