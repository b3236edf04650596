"""Reads an event folder with TensorBoard's own reader; prints it as JSON: {tag: [[step, value], ...]}.

Needs the tensorboard package; export_test.py runs it with $BSTUNE_TENSORBOARD_PYTHON when that is set.
"""
import json
import sys

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

events = EventAccumulator(sys.argv[1], size_guidance={"scalars": 0, "tensors": 0})
events.Reload()
tags = events.Tags()
found = {tag: [[e.step, e.value] for e in events.Scalars(tag)] for tag in tags["scalars"]}
for tag in tags["tensors"]:
    found[tag] = [[e.step, e.tensor_proto.string_val[0].decode()] for e in events.Tensors(tag)]
json.dump(found, sys.stdout)
