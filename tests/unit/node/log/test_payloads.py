"""Batches are cut by records and by bytes, or not at all."""

from __future__ import annotations

import pytest

from migrator.node.log.payloads import cut, pieces
from migrator.wire.batch import BATCH_BYTES_MAX
from migrator.wire.codec import UnencodableError

LARGE = [bytes([1]) * 30_000] * 1_000


def test_what_may_lie_in_several_batches_is_cut_by_bytes_as_well() -> None:
    payloads = cut(LARGE, 1, divisible=True)
    assert sum(each.count for each in payloads) == 1_000
    assert len(payloads) > 1
    assert max(len(each.batch) for each in payloads) <= BATCH_BYTES_MAX


def test_what_belongs_together_is_refused_where_it_is_too_large() -> None:
    with pytest.raises(UnencodableError):
        cut(LARGE, 1, divisible=False)


def test_a_record_is_never_cut_and_none_is_left_out() -> None:
    values = [bytes(size) for size in (5, 1, 1, 1, 9, 2, 2)]
    assert list(pieces(values, 2, bytes_max=4)) == [values[:1], values[1:3], values[3:4], values[4:5], values[5:]]
    assert list(pieces([], 2)) == []
