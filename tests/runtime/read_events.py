"""Reads TensorBoard's event file FILE: checks every length and CRC-32C, prints a line per event."""
import struct
import sys


def crc32c_table():
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = (byte >> 1) ^ 0x82F63B78 if byte & 1 else byte >> 1
        table.append(byte)
    return table


TABLE = crc32c_table()


def masked_crc(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    crc ^= 0xFFFFFFFF
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


assert (masked_crc(b"123456789")
        == (((0xE3069283 >> 15) | (0xE3069283 << 17)) + 0xA282EAD8) & 0xFFFFFFFF)


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at


def fields(data):
    """The (number, value) pairs of a protobuf message."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        wire = key & 7
        if wire == 0:
            value, at = varint(data, at)
        elif wire == 2:
            size, at = varint(data, at)
            value, at = data[at:at + size], at + size
            assert len(value) == size
        else:
            form, size = {1: ("<d", 8), 5: ("<f", 4)}[wire]
            (value,), at = struct.unpack(form, data[at:at + size]), at + size
        yield key >> 3, value


def records(data):
    at = 0
    while at < len(data):
        length, crc = struct.unpack("<QI", data[at:at + 12])
        assert crc == masked_crc(data[at:at + 8]), "the CRC of a length"
        payload = data[at + 12:at + 12 + length]
        (crc,) = struct.unpack("<I", data[at + 12 + length:at + 16 + length])
        assert crc == masked_crc(payload), "the CRC of a payload"
        at += 16 + length
        yield payload


def describe(payload):
    event = dict(fields(payload))
    assert 1.6e9 < event.pop(1) < 1e11, "wall time"
    if 3 in event:
        assert list(event) == [3]
        return "version " + event[3].decode()
    step = event.get(2, 0)
    text = "step %d" % (step - (step >> 63 << 64))
    for number, value in fields(event[5]):
        assert number == 1
        scalar = dict(fields(value))
        assert sorted(scalar) == [1, 2]
        text += " %s=%.7g" % (scalar[1].decode(), scalar[2])
    return text


with open(sys.argv[1], "rb") as file:
    for record in records(file.read()):
        print(describe(record))
