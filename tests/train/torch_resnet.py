#!/usr/bin/env python3
"""The training of a small ResNet-18 (models/resnet.lua, stem=cifar) beside PyTorch's in double
precision, from the same weights and batches. PyTorch's own fp32 differs from that by a ReLU that a
rounding turns the other way, on some processors by 5e-3 of a loss.

usage: torch_resnet.py DATA BEGIN END LOG LR LOSSES WEIGHTS STEPS
DATA: pictures as .npy; BEGIN, END: weights before and after; LOG has a loss for each of STEPS.
LOSSES, WEIGHTS: how far, relatively, each loss and all weights after the last step may be. Without
mixed precision (LOSSES below 1e-3) each tensor of weights may be that far at most.
"""
import json
import struct
import sys

import torch
from torch import nn

from tensors import read


class Block(nn.Module):
    def __init__(self, inputs, out, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, out, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(out)
        self.conv2 = nn.Conv2d(out, out, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(out)
        self.downsample = None
        if stride != 1 or inputs != out:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, out, 1, stride, bias=False),
                                            nn.BatchNorm2d(out))

    def forward(self, x):
        y = self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x)))))
        return torch.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet(nn.Module):
    def __init__(self, width, classes):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width)
        inputs = width
        for stage in range(4):
            out, blocks = width << stage, []
            for i in range(2):
                blocks.append(Block(inputs, out, 2 if i == 0 and stage > 0 else 1))
                inputs = out
            setattr(self, "layer%d" % (stage + 1), nn.Sequential(*blocks))
        self.fc = nn.Linear(inputs, classes)

    def forward(self, x):
        x = torch.relu(self.bn1(self.conv1(x)))
        for stage in range(4):
            x = getattr(self, "layer%d" % (stage + 1))(x)
        return self.fc(x.mean((2, 3)))


def npy(path, dtype):
    data = bytearray(open(path, "rb").read())
    length = struct.unpack("<H", data[8:10])[0]
    return torch.frombuffer(data, dtype=dtype,
                            offset=10 + length).reshape(eval(data[10:10 + length])["shape"])


def tensor(shape, data):
    return torch.frombuffer(bytearray(data), dtype=torch.float32).reshape(shape).double()


def main(folder, begin, end, log, rate, losses, weights, wanted):
    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(1)
    images = npy(folder + "/train_images.npy", torch.uint8).double() / 255
    labels = npy(folder + "/train_labels.npy", torch.int32).long()
    mean, std = torch.tensor([0.4914, 0.4822, 0.4465]), torch.tensor([0.2470, 0.2435, 0.2616])
    images = (images - mean[:, None, None]) / std[:, None, None]
    before, after = read(begin), read(end)
    model = ResNet(before["conv1.weight"][0][0], before["fc.bias"][0][0])
    names = [name for name, _ in model.named_parameters()]
    model.load_state_dict({name: tensor(*before[name]) for name in names}, strict=False)
    steps = [json.loads(line) for line in open(log) if '"loss"' in line and "eval_loss" not in line]
    optimizer = torch.optim.SGD(model.parameters(), lr=float(rate), momentum=0.9, nesterov=True,
                                weight_decay=5e-4)
    worst_loss = 0.0
    for step in steps:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        if "-v" in sys.argv: print(step["step"], loss.item(), step["loss"],
                                   abs(step["loss"] - loss.item()) / abs(loss.item()))
        worst_loss = max(worst_loss, abs(step["loss"] - loss.item()) / abs(loss.item()))
    worst, where, apart, size = 0.0, "", 0.0, 0.0
    for name, value in model.state_dict().items():
        if name.endswith("num_batches_tracked"):
            continue
        distance = (tensor(*after[name]) - value).norm().item()
        apart, size = apart + distance ** 2, size + value.norm().item() ** 2
        far = distance / value.norm().item()
        if far > worst:
            worst, where = far, name
    apart = (apart / size) ** 0.5
    print("%d steps to a loss of %g: losses within %.2g, weights within %.2g, of a tensor %.2g (%s)"
          % (len(steps), loss.item(), worst_loss, apart, worst, where))
    near = (worst if float(losses) < 1e-3 else apart) < float(weights)
    sys.exit(not (len(steps) == int(wanted) and worst_loss < float(losses) and near))


main(*sys.argv[1:9])
