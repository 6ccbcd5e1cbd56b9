"""Starts torchrun from the torch package of this Python.

PyTorch 1.13 cannot start anything under Python 3.11: since that version the
members that iterating a flag enumeration yields do not include zero, so that
its parser of --redirects finds no meaning for the default "0". Where that is
so, the parser gets a replacement; nothing else is touched.
"""

import sys

from torch.distributed.elastic.multiprocessing.api import Std


def parse(cls, text):
    """Reads "2", or "0:2,1:3" (local rank:streams)."""
    if ":" not in text:
        return cls(int(text))
    pairs = (item.partition(":") for item in text.split(","))
    return {int(rank): cls(int(streams)) for rank, _, streams in pairs}


if Std.from_str("0") is None:
    Std.from_str = classmethod(parse)

from torch.distributed.run import main  # noqa: E402

sys.argv[0] = "torchrun"
sys.exit(main())
