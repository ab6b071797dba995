"""Running statistics of norms after steps of training, beside PyTorch's:
torch_steps.py NNGEN FOLDER

Each layer sees the same inputs in both, three times, from buffers that are not 0 and 1."""
import subprocess
import sys

import numpy as np
import torch
import torch.nn as tnn

from torch_cases import GEN, floats

sys.path.insert(0, "tests/models")
from safetensors_file import read_safetensors, write_safetensors  # noqa: E402

STEPS = 3
OWN = "track_running_stats = true, training = true"
LAYERS = [  # name, input, layer of the model, module
    ("b1", floats(6, 5), "batch_norm1d('b1', {training = true})", tnn.BatchNorm1d(5)),
    ("bc", floats(3, 5, 7), "batch_norm1d('bc', {training = true, momentum = false})",
     tnn.BatchNorm1d(5, momentum=None)),
    ("bl", floats(3, 5, 7), "batch_norm1d('bl', {training = true, momentum = 0.5})",
     tnn.BatchNorm1d(5, momentum=0.5)),
    ("b2", floats(4, 5, 6, 3), "batch_norm2d('b2', {training = true, eps = 0.1})",
     tnn.BatchNorm2d(5, eps=0.1)),
    ("b3", floats(2, 3, 4, 3, 5), "batch_norm3d('b3', {training = true, affine = false})",
     tnn.BatchNorm3d(3, affine=False)),
    ("i1", floats(2, 4, 9), "instance_norm1d('i1', {%s})" % OWN,
     tnn.InstanceNorm1d(4, track_running_stats=True)),
    ("i2", floats(3, 5, 4, 6), "instance_norm2d('i2', {%s, affine = true, momentum = 0.3})" % OWN,
     tnn.InstanceNorm2d(5, affine=True, momentum=0.3, track_running_stats=True)),
    ("i3", floats(2, 3, 4, 3, 5), "instance_norm3d('i3', {%s})" % OWN,
     tnn.InstanceNorm3d(3, track_running_stats=True)),
]


def state_of(name, module):
    return {f"{name}.{key}": value.float().numpy().copy()
            for key, value in module.state_dict().items() if value.is_floating_point()}


def main():
    nngen, folder = sys.argv[1:3]
    lines, flags, state, want = ['local nn = require "nn"'], [], {}, {}
    for name, x, text, module in LAYERS:
        for key, value in module.state_dict().items():
            if value.is_floating_point():
                value.copy_(torch.rand(value.shape, generator=GEN) + 0.5)
        state.update({key: torch.tensor(v) for key, v in state_of(name, module).items()})
        dims = ", ".join(map(str, x.shape))
        lines.append('nn.output("y_%s", nn.input("x_%s", {%s}):%s)' % (name, name, dims, text))
        np.save(f"{folder}/x_{name}.npy", x.numpy())
        flags += ["--input", f"x_{name}={folder}/x_{name}.npy"]
        with torch.no_grad():
            for _ in range(STEPS):
                y = module.train()(x)
        want.update(state_of(name, module))
        want["y_" + name] = y.numpy()
    with open(f"{folder}/steps.lua", "w") as file:
        file.write("\n".join(lines) + "\n")
    write_safetensors(f"{folder}/before.safetensors", state)
    done = subprocess.run([nngen, f"{folder}/steps.lua", "--quiet", "--steps", str(STEPS),
                           "--weights", f"{folder}/before.safetensors", "--output", folder,
                           "--save", f"{folder}/after.safetensors"] + flags,
                          capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr.strip() or "exit %d" % done.returncode)
    got = read_safetensors(f"{folder}/after.safetensors")
    got.update({"y_" + name: np.load(f"{folder}/y_{name}.npy") for name, *_ in LAYERS})
    wrong = [key for key, value in want.items()
             if not np.allclose(got[key], value, rtol=2e-5, atol=2e-6)]
    for key in wrong:
        print("%s: %s, PyTorch has %s" % (key, got[key].ravel()[:4], want[key].ravel()[:4]))
    still = [key for key in state if "running" in key and np.allclose(want[key], state[key])]
    return 1 if wrong or still else 0


if __name__ == "__main__":
    sys.exit(main())
