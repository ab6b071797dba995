"""peer_models.py: in PyTorch, what models/block.lua and models/resnet*.lua compute, and a step of
training of either."""
import torch
from torch.nn import functional as F


class Block(torch.nn.Module):
    """A transformer block: layer norms come first, qkv has no bias, GELU follows both layers of the
    perceptron."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
        self.qkv = torch.nn.Linear(width, 3 * width, bias=False)
        self.proj = torch.nn.Linear(width, width)
        self.fc1 = torch.nn.Linear(width, 4 * width)
        self.fc2 = torch.nn.Linear(4 * width, width)

    def attn(self, x):  # x: (B, N, C)
        batch, tokens, width = x.shape
        qkv = self.qkv(x).view(batch, tokens, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v)
        return self.proj(y.transpose(1, 2).reshape(batch, tokens, width))

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + F.gelu(self.fc2(F.gelu(self.fc1(self.norm2(x)))))


def resnet(model, stem, classes):
    """torchvision's; the stem of CIFAR-10 is a 3x3 convolution, without a pool."""
    import torchvision
    net = getattr(torchvision.models, model)(num_classes=classes)
    if stem == "cifar":
        net.conv1 = torch.nn.Conv2d(3, 64, 3, padding=1, bias=False)
        net.maxpool = torch.nn.Identity()
    return net


def normalised(images):  # u8 (N, C, H, W); as nn.images does it, in the step
    mean, std = (torch.tensor(v, device=images.device).view(1, 3, 1, 1)
                 for v in ((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)))
    return lambda: (images.float() * (1 / 255) - mean) / std


def loss_scaler(device):
    if hasattr(torch.amp, "GradScaler"):
        return torch.amp.GradScaler(device)
    return torch.cuda.amp.GradScaler() if device == "cuda" else None


def sgd(parameters, device, how):
    """The fused update, which takes the scale of the loss without waiting for the GPU; where there
    is none, the one over lists of tensors."""
    parameters = list(parameters)
    try:
        return torch.optim.SGD(parameters, fused=device == "cuda", **how)
    except (TypeError, RuntimeError):
        return torch.optim.SGD(parameters, **how)


def training_step(network, loss_of, device, half, how):
    """A function that makes one step: `loss_of(network)`, in `half` where that is a type (fp16 with
    a dynamic scale of the loss), gradients, update. step.captures: whether it may be captured as a
    graph."""
    optimizer = sgd(network.parameters(), device, how)
    scaler = loss_scaler(device) if half == torch.float16 else None

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(device, dtype=half or torch.bfloat16, enabled=half is not None):
            loss = loss_of(network)
        if scaler:
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        else:
            loss.backward()
            optimizer.step()
        return loss
    step.captures = scaler is None or bool(optimizer.defaults.get("fused"))
    return step
