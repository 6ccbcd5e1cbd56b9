"""Runs a module of torch.distributed as the program torchrun: run, or launch.

PyTorch 1.13 cannot start anything under Python 3.11, since iterating over a flag
enumeration yields neither zero nor combinations there. Where that is so, its parser of
--redirects is replaced.
"""

import importlib
import re
import sys

from torch.distributed.elastic.multiprocessing import api

original = api.Std.from_str


def parse(cls, text):
    """Reads "2", or "0:2,1:3" (local rank:streams)."""
    if not re.match(api._VALUE_REGEX, text) and not re.match(api._MAPPING_REGEX, text):
        return original(text)  # which raises its error
    if ":" not in text:
        return cls(int(text))
    pairs = (item.partition(":") for item in text.split(","))
    return {int(rank): cls(int(streams)) for rank, _, streams in pairs}


if original("0") is None:
    api.Std.from_str = classmethod(parse)

if __name__ == "__main__":  # the processes of --run-path import this file
    module = importlib.import_module("torch.distributed." + sys.argv.pop(1))
    sys.argv[0] = "torchrun"
    sys.exit(module.main())
