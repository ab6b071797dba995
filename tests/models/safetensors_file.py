"""Writes tensors of PyTorch as a safetensors file of floats."""
import json
import struct


def write_safetensors(path, tensors):
    header, data = {}, b""
    for name, t in sorted(tensors.items()):
        raw = t.numpy().astype("<f4").tobytes()
        header[name] = {"dtype": "F32", "shape": list(t.shape),
                        "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)
