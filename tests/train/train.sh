# train.sh: what the tests of `nngen train` share. Source it in place of tap.sh.
. "$(dirname "${BASH_SOURCE[0]}")/../tap.sh"
# 10 batches of 8 in an epoch, the last 4 pictures are dropped.
from=$work/data
python3 tests/train/data.py "$from" 84 20
train() { build/nngen train tests/train/tiny.lua --data "$from" --quiet "$@"; }
# Of a log, without what differs by the clock.
steps_of() { sed -E 's/,"(seconds|examples_s)":[^,}]*//g' "$1/log.jsonl"; }
same_run() { # same_run A B: checkpoints, weights and logs are equal, to the bit
  local file
  for file in last best final_weights; do
    cmp "$1/tiny_$file.safetensors" "$2/tiny_$file.safetensors" || return
  done
  diff <(steps_of "$1") <(steps_of "$2")
}
# begin FOLDER OPTIONS...: starts a run in the background; its process is $run
begin() {
  local folder=$1; shift
  build/nngen train tests/train/tiny.lua --data "$from" --quiet \
    --out-dir "$folder" "$@" >"$folder.out" 2>"$folder.err" </dev/null &
  run=$!
}
# logged FOLDER N: waits until the log has N lines; fails when the run ends before
logged() {
  until [ "$(wc -l 2>/dev/null <"$1/log.jsonl")" -ge "$2" ] 2>/dev/null; do
    kill -0 $run 2>/dev/null || return 1
    sleep 0.003
  done
}
