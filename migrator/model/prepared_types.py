"""Types of documents made ready before threads meet them.

In:   nothing; every msgspec struct that is imported so far.
Out:  how many are ready. Call it once, in a process that has threads, after its imports and before its threads begin.
Why:  msgspec (0.22) looks at a struct's fields when the struct is decoded for the first time. A second thread that
      decodes the same type meanwhile sees half of that, and the process ends with a segmentation fault.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec


def prepare_types() -> int:
    ready = 0
    for each in _below(msgspec.Struct):
        try:
            msgspec.json.Decoder(each)
        except (TypeError, NameError):  # a struct that is only written, never read
            continue
        ready += 1
    return ready


def _below(kind: type[msgspec.Struct]) -> Iterator[type[msgspec.Struct]]:
    for each in kind.__subclasses__():
        yield each
        yield from _below(each)
