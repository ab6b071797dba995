#!/usr/bin/env python3
"""Random weights, inputs and outputs of the transformers of models/, as their published code
computes them.

usage: torch_transformers.py MODEL FOLDER SETTING=NUMBER ...   (as transformers_reference.py)
"""
import sys

import torch

from transformers_reference import Weights, save


def as_given(tensor):
    return tuple(tensor.shape), tensor.flatten().tolist()


def vit(batch, image, patch, layers, heads, width, inner, classes):
    from torchvision.models.vision_transformer import VisionTransformer

    net = VisionTransformer(image, patch, layers, heads, width, inner, num_classes=classes)
    return (net, {"image": torch.randn(batch, 3, image, image)},
            lambda net, image: {"logits": net(image)})


def bert(batch, tokens, vocab, positions, layers, heads, width, inner):
    from transformers import BertConfig, BertModel

    net = BertModel(BertConfig(vocab_size=vocab, hidden_size=width, num_hidden_layers=layers,
                               num_attention_heads=heads, intermediate_size=inner,
                               max_position_embeddings=positions), add_pooling_layer=False)

    def run(net, **inputs):
        hidden, mask = net(**inputs).last_hidden_state, inputs["attention_mask"].double()[..., None]
        mean = (hidden * mask).sum(1) / mask.sum(1)
        return {"hidden": hidden, "embedding": torch.nn.functional.normalize(mean)}

    lengths = tokens - 3 * torch.arange(batch)[:, None]
    words, types = torch.randint(vocab, (batch, tokens)), torch.randint(2, (batch, tokens))
    mask = (torch.arange(tokens) < lengths).long()
    return net, {"input_ids": words, "token_type_ids": types, "attention_mask": mask}, run


def logits(net, input_ids):
    return {"logits": net(input_ids).logits}


def gpt2(batch, tokens, vocab, positions, layers, heads, width):
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(vocab_size=vocab, n_positions=positions, n_embd=width, n_layer=layers,
                        n_head=heads)
    return GPT2LMHeadModel(config), {"input_ids": torch.randint(vocab, (batch, tokens))}, logits


def llama(batch, tokens, vocab, layers, heads, groups, width, inner, theta):
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(vocab_size=vocab, hidden_size=width, intermediate_size=inner,
                         num_hidden_layers=layers, num_attention_heads=heads,
                         num_key_value_heads=groups, rope_theta=theta, rms_norm_eps=1e-5)
    return LlamaForCausalLM(config), {"input_ids": torch.randint(vocab, (batch, tokens))}, logits


def main():
    name, folder = sys.argv[1], sys.argv[2]
    settings = {k: int(v) for k, v in (a.split("=") for a in sys.argv[3:])}
    torch.manual_seed(3)
    net, inputs, run = {"vit": vit, "bert": bert, "gpt2": gpt2, "llama": llama}[name](**settings)
    for key, p in net.named_parameters():  # as after training: no zeros, no ones
        scale = 0.3 if p.dim() == 1 else p[0].numel() ** -0.5
        p.data.normal_(1 if p.dim() == 1 and key.endswith("weight") else 0, scale)
    weights = Weights()
    # GPT-2 is published without the prefix of the model that has its head.
    state = net.state_dict().items()
    weights.drawn = {k.removeprefix("transformer."): as_given(v) for k, v in state
                     if v.is_floating_point()}
    net.double().eval()
    with torch.no_grad():
        outputs = run(net,
                      **{k: v.double() if v.is_floating_point() else v for k, v in inputs.items()})
    save(folder, weights, {k: as_given(v) for k, v in inputs.items()},
         {k: as_given(v) for k, v in outputs.items()})


main()
