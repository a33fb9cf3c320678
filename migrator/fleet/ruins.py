"""Whether a present file is what a cut write left, and no file that anybody meant.

In:   the bytes of a present file, and of the files that were written or kept. Out: yes or no.
Elsewhere: what is written in its place (state_machine.rollback.previous_file).
Rules: only what proves itself: nothing at all, or the begin of a known file and nothing else. Zeros at its end are what
a file system leaves after a crash. A file that a person edited is never taken for one.
"""

from __future__ import annotations


def is_ruin(present: bytes, *known: bytes) -> bool:
    """Shorter than one of `known`, and equal to its begin; and not itself one of them.

    A file of stock can be the begin of the kept one: without the lines that only ours read, which stand at its end.
    """
    left = present.rstrip(b"\0")
    if left in known:
        return False
    return not left.strip() or any(len(left) < len(each) and each.startswith(left) for each in known)
