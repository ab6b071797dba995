#!/usr/bin/env python3
"""Writes a torchvision network's random weights as safetensors, an input, and its logits as npy.

usage: torch_zoo.py MODEL FOLDER SIZE [SETTING=VALUE...]
MODEL is the name of a file of models/; settings are those it takes. The folder gets
weights.safetensors, image.npy and want.npy, the logits. Exit code 77: torch or torchvision is not
installed.
"""
import sys

try:
    import numpy
    import torch
    import torchvision
except ImportError:
    sys.exit(77)

from safetensors_file import write_safetensors  # noqa: E402


# Of each layer's variance: so that the picture still matters at the end, and rounding does not grow
# on the way.
GAIN = {"mobilenet_v2": 1, "mobilenet_v3": 1.5, "efficientnet_b0": 1.85, "googlenet": 1.5,
        "vgg16": 1.5}


def build(model, o):
    """The network, of 10 classes, as the model's settings change it."""
    models = torchvision.models
    if model == "mobilenet_v2":
        return models.mobilenet_v2(num_classes=10, width_mult=float(o.get("width", 1)))
    if model == "mobilenet_v3":
        return getattr(models, "mobilenet_v3_" + o.get("kind", "large"))(num_classes=10)
    if model == "squeezenet":
        return models.squeezenet1_1(num_classes=10)
    if model in ("googlenet", "inception_v3"):
        return getattr(models, model)(num_classes=10, aux_logits=False, init_weights=False,
                                      transform_input=o.get("transform_input") != "false")
    if model == "fcn_resnet50":
        return models.segmentation.fcn_resnet50(num_classes=10, weights_backbone=None,
                                                aux_loss=False)
    if model == "vgg16":
        net = (models.vgg16_bn(num_classes=10) if o.get("batch_norm") == "true"
               else models.vgg16(num_classes=10))
        hidden = int(o.get("hidden", 4096))
        net.classifier[0] = torch.nn.Linear(512 * 7 * 7, hidden)
        net.classifier[3] = torch.nn.Linear(hidden, hidden)
        net.classifier[6] = torch.nn.Linear(hidden, 10)
        return net
    return getattr(models, model)(num_classes=10)


def main():
    model, folder, size = sys.argv[1], sys.argv[2], int(sys.argv[3])
    settings = dict(s.split("=") for s in sys.argv[4:])
    torch.manual_seed(42)
    net = build(model, settings)
    for m in net.modules():  # statistics as after training, not 0 and 1
        if isinstance(m, torch.nn.BatchNorm2d):
            m.running_mean.normal_(0, 0.2)
            m.running_var.uniform_(0.5, 1.5)
        if isinstance(m, (torch.nn.BatchNorm2d, torch.nn.LayerNorm)):
            m.weight.data.uniform_(0.5, 1.5)
            m.bias.data.normal_(0, 0.2)
        elif isinstance(m, (torch.nn.Conv2d, torch.nn.Linear)):
            m.weight.data.normal_(0, (GAIN.get(model, 2) / m.weight[0].numel()) ** 0.5)
            if m.bias is not None:
                m.bias.data.normal_(0, 0.2)
    for name, p in net.named_parameters():
        if name.endswith("layer_scale"):
            p.data.uniform_(0.2, 0.6)
    net.eval()
    x = torch.randn(2, 3, size, size)
    with torch.no_grad():
        y = net.double()(x.double())
    y = y["out"] if isinstance(y, dict) else y
    state = {k: v.float() for k, v in net.state_dict().items() if v.is_floating_point()}
    write_safetensors(f"{folder}/weights.safetensors", state)
    numpy.save(f"{folder}/image.npy", x.numpy())
    numpy.save(f"{folder}/want.npy", y.float().numpy())


if __name__ == "__main__":
    main()
