#!/usr/bin/env bash
# Tensors without elements give what NumPy gives: sums of 0, products of 1, a mean that is NaN; as
# inputs and outputs they are files of no numbers; nothing is launched for them.
. "$(dirname "$0")/../tap.sh"
python3 - "$work" <<'E'
import array, struct, sys

def npy(name, shape, values):
    text = "{'descr': '<f4', 'fortran_order': False, 'shape': %s, }" % (shape,)
    text += " " * (117 - len(text)) + "\n"
    with open(sys.argv[1] + "/" + name, "wb") as f:
        f.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode())
        f.write(array.array("f", values).tobytes())

npy("x.npy", (3, 4), range(12))
npy("e.npy", (2, 0, 4), [])
E
holds() { # holds OPTIONS: the shapes and numbers of the outputs
  build/nngen tests/models/empty.lua --quiet --input x="$work/x.npy" --input e="$work/e.npy" \
    --output "$work" "$@" && python3 - "$work" <<'E'
import array, ast, math, sys

def read(name):
    data = open(sys.argv[1] + "/" + name + ".npy", "rb").read()
    end = 10 + data[8] + 256 * data[9]
    header = ast.literal_eval(data[10:end].decode())
    kind = {"<f4": "f", "|b1": "B"}[header["descr"]]
    return header["shape"], list(array.array(kind, data[end:]))

x = list(range(12))
want = {"sums": ((2, 4), [1] * 8), "product": ((), [1]), "all": ((2, 4), [1] * 8),
        "any": ((2, 4), [0] * 8), "lse": ((), [-math.inf]), "joined": ((3, 4), x),
        "matmul": ((3, 2), [0, 1, 4, 5, 8, 9]), "none": ((0, 4), []), "relu": ((2, 0, 4), []),
        "end": ((0, 4), [])}
for name, value in want.items():
    assert read(name) == value, (name, read(name), value)
shape, values = read("mean")
assert shape == () and math.isnan(values[0]), (shape, values)
assert read("linear")[0] == (2, 3)
E
}
launches() { # of a model that has nothing to compute: none
  printf 'local nn = require "nn"\nnn.output("y", nn.input("x", {0, 3}):exp():sum(2))\n' \
    >"$work/nothing.lua"
  build/nngen "$work/nothing.lua" --quiet | grep "ops -> 0 kernels"
}
ok "shapes and numbers, fused" holds
ok "unfused" holds --lowering unfused
ok "fp16" holds --dtype fp16
ok "no kernels" launches
positions() { # none of a few dimensions, in a kernel of their own, as in one shared with others
  cat >"$work/positions.lua" <<'LUA'
local nn = require "nn"
nn.output("a", nn.arange(0))
nn.output("b", nn.index({3, 0, 2}, 3) * 2 + nn.index({3, 0, 2}, 1))
nn.output("c", nn.input("x", {3, 4}) + nn.index({3, 4}, 2))
LUA
  build/nngen "$work/positions.lua" --quiet --check
}
ok "positions along dimensions without elements" positions
tap_done
