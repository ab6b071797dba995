"""What TensorBoard's own reader finds in FOLDER/events.out.tfevents.*, beside FOLDER/log.jsonl:
every number of the log is a scalar of its step, and no other is there."""
import json
import os
import struct
import sys

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator


def of_log(folder):
    scalars = {}
    for line in open(os.path.join(folder, "log.jsonl")):
        entry = json.loads(line)
        step = entry.pop("step")
        for name, value in entry.items():
            if isinstance(value, (int, float)) and not isinstance(value, bool):
                scalars[name, step] = value
    return scalars


def of_reader(folder):
    board = EventAccumulator(folder, size_guidance={"scalars": 0, "tensors": 0})
    board.Reload()
    tags = board.Tags()
    return {(name, e.step): e.value for name in tags["scalars"] for e in board.Scalars(name)}


folder = sys.argv[1]
want, got = of_log(folder), of_reader(folder)
missing, other = sorted(set(want) - set(got)), sorted(set(got) - set(want))
assert not missing and not other, (missing[:5], other[:5])
for key, value in want.items():
    (single,) = struct.unpack("<f", struct.pack("<f", value))
    assert abs(got[key] - single) <= 1e-5 * abs(single), (key, value, got[key])
steps = {step for _, step in got}
print("1..1\nok 1 - TensorBoard reads %d scalars of %d steps" % (len(got), len(steps)))
