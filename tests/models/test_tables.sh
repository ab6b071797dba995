#!/usr/bin/env bash
# nn.tensor of more numbers than kernels hold, and of an .npy beside the model: kernels against the
# oracle, the numbers themselves, weights that do not name them, mistakes.
. "$(dirname "$0")/../tap.sh"
cp tests/models/tables.lua "$work/tables.lua"
python3 - "$work" <<'E'
import array, json, struct, sys

def npy(name, descr, shape, data):
    text = "{'descr': '%s', 'fortran_order': False, 'shape': %s, }" % (descr, shape)
    text += " " * (117 - len(text)) + "\n"
    with open(sys.argv[1] + "/" + name, "wb") as f:
        f.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode() + data)

npy("ids.npy", "<i8", "(5, 20)", array.array("q", [i * 5 % 12 for i in range(100)]).tobytes())
npy("x.npy", "<f4", "(12, 9)", array.array("f", range(108)).tobytes())
npy("half.npy", "<f4", "(2,)", array.array("f", [0.5, 1]).tobytes())
header = {"fc.weight": {"dtype": "F32", "shape": [9, 9], "data_offsets": [0, 324]},
          "fc.bias": {"dtype": "F32", "shape": [9], "data_offsets": [324, 360]}}
text = json.dumps(header).encode()
with open(sys.argv[1] + "/fc.safetensors", "wb") as f:
    f.write(struct.pack("<Q", len(text)) + text + bytes(360))
E
checked() { build/nngen "$work/tables.lua" --quiet --check --set file=ids.npy "$@"; }
holds() { # with weights of 0 `masked` is 0 or the model's own number, from_file the rows of x
  build/nngen "$work/tables.lua" --quiet --weights "$work/fc.safetensors" --set file=ids.npy \
    --input x="$work/x.npy" --output "$work" && python3 - "$work" <<'E'
import array, math, sys

def values(name):
    data = open(sys.argv[1] + "/" + name, "rb").read()
    return array.array("f", data[10 + data[8] + 256 * data[9]:])

single = lambda v: array.array("f", [v])[0]
masked, rows = values("masked.npy"), values("from_file.npy")
for i in range(1, 13):
    for j in range(1, 10):
        want = 0 if i * j % 2 == 1 else single(math.sin(i * j))
        assert masked[(i - 1) * 9 + j - 1] == want, (i, j, masked[(i - 1) * 9 + j - 1], want)
for i in range(100):
    assert rows[i * 9:i * 9 + 9].tolist() == [i * 5 % 12 * 9 + j for j in range(9)], i
E
}
says() { # says TEXT EXPRESSION: a model of it is refused with its line
  printf 'local nn = require "nn"\nlocal x = nn.input("x", {2})\nnn.output("y", x * %s)\n' \
    "$2" >"$work/wrong.lua"
  fails 2 "wrong.lua:3: tensor: $1" build/nngen "$work/wrong.lua" --quiet
}
for dtype in fp32 fp16 bf16; do ok "kernels that read them, $dtype" checked --dtype $dtype; done
ok "unfused" checked --lowering unfused
ok "the numbers, and weights that do not name them" holds
ok "a path" says "'../half.npy' is not an .npy file next to the model" 'nn.tensor("../half.npy")'
ok "no such file" says "npy '$work/none.npy': No such file" 'nn.tensor("none.npy")'
ok "an integer that is no f32" says "number 70 is 16777217: of more than 64 integers" \
  '(function() local t = {} for i = 1, 70 do t[i] = 16777147 + i end return nn.tensor(t) end)()'
tap_done
