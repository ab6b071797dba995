"""Writes tensors of PyTorch as a safetensors file of floats, and reads one."""
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


def read_safetensors(path):
    """Its floats, as arrays of NumPy by name."""
    import numpy
    with open(path, "rb") as f:
        header = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
        data = f.read()
    return {name: numpy.frombuffer(data[slice(*t["data_offsets"])], "<f4").reshape(t["shape"])
            for name, t in header.items() if t.get("dtype") == "F32"}
