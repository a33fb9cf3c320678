"""Topic configuration is taken and refused as stock does: a few thousand values, sent to both kinds of controller.

A stock controller and ours, each a quorum of one without a migration and with one pretended broker, with and without
remote storage. The same requests to both; the error codes have to be equal.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random
from typing import Final

import pytest

from migrator.lab.servers.laboratory import Laboratory
from migrator.lab.servers.properties import Value
from migrator.model.topic_configs import TOPIC_CONFIGS
from tests.e2e.two_answers import Configs, Side, compared

pytestmark = pytest.mark.lab

SEED: Final = 20_261_122
PER_REQUEST: Final = 100

WORDS: Final = (
    "", " ", "true", "false", "TRUE", "False ", "\ttrue\n", "true\u2003", "fal\u017fe", "yes", "null", "NaN", "-NaN",
    "0", "1", "-1", "-2", "-3", "2", "9", "10", "17", "18", "22", "23", "13", "14", "4", "3", "100", "+7", "-0", "00",
    "2147483647", "2147483648", "-2147483648", "-2147483649", "-131072", "-131073", "1048588", str(2**63 - 1),
    str(2**63), str(-(2**63)), str(-(2**63) - 1), "9" * 40, "-" + "9" * 40, "0" * 200 + "5", "\u0665", "\u0967\u0966",
    "\uff15", "\U0001d7cf", "5\xa0", "\xa05", "\x1f5\x00", "5 5", "1_000", "5L", "0x10", "0.5", ".5", "5.", "1e-3",
    "1E+0", "1e-99999", "1e99999", "0.5d", "0.5F", "1f", "Infinity", "-Infinity", "NaNd", "0x1p-1", "0X.8P0",
    "0x1.p0", "0x1", "0x1p99999", "0.5e", ".", "e5", "+", "-", "--1", "\u0660.\u0665", "compact", "delete",
    "compact,delete", "delete , compact", "compact,,delete", ",", "delete,", "Delete", "compact;", "*", "*,", ",*,",
    "*,*", "*,1:2", "1:2", "1:2,3:4", " 1:2 , 3:4 ", "1:2,,3:4", "1", "1:", ":2", "1:2:3", "a:b", "gzip", "snappy",
    "lz4", "zstd", "producer", "uncompressed", "none", "ZSTD", " zstd ", "CreateTime", "LogAppendTime", "createtime",
    "foo", "3.9", "3.9-IV0", "3.9-IV1", "3.0", "3.0.1", "3.0-IV1", "0.8.2.1", "0.8", "0.10.2-IV0", "4.0", "4.0-IV0",
    "4.0-IV1", "4.1", "3.", "3", "3.9.", ".3.9", "2.8-IV1.7", "1.0", " 2.0 ", "10.0", "0.9.0", "0.9.0.1", "3.9.-1",
)  # fmt: skip
"""What looks like a value of one key is tried for all of them."""
UNKNOWN: Final = ("retention", "log.retention.ms", "Retention.ms", "retention.ms ", "", "segment.bytes\u00a0")
TOGETHER: Final = {
    "remote.storage.enable": ("true", "false", " TRUE "),
    "remote.log.copy.disable": ("true", "false"),
    "remote.log.delete.on.disable": ("true", "false"),
    "cleanup.policy": ("delete", "compact", "compact,delete", ""),
    "retention.ms": ("-1", "5", "7"),
    "retention.bytes": ("-1", "-9", "5", "7"),
    "local.retention.ms": ("-2", "-1", "5", "7", "9"),
    "local.retention.bytes": ("-2", "-1", "5", "7", "9"),
    "min.compaction.lag.ms": ("0", "5", "9"),
    "max.compaction.lag.ms": ("1", "5", "7"),
}


def one_value() -> list[Configs]:
    """Every key with every word, and words that are spoiled at a random place."""
    chance = Random(SEED)
    found: list[Configs] = [((key, word),) for key in (*TOPIC_CONFIGS, *UNKNOWN) for word in WORDS]
    for key in TOPIC_CONFIGS:
        for _ in range(20):
            word = chance.choice(WORDS)
            at = chance.randrange(len(word) + 1)
            spoiled = word[:at] + chance.choice(" \t\x00\u2003,:.-+0159eEdfx*\u0661") + word[at:]
            found.append(((key, spoiled),))
    return found


def together(count: int) -> list[Configs]:
    chance = Random(SEED + 1)
    found = []
    for _ in range(count):
        keys = chance.sample(sorted(TOGETHER), chance.randint(2, 6))
        found.append(tuple((key, chance.choice(TOGETHER[key])) for key in keys))
    return found


def pieces(all_: Sequence[Configs]) -> Iterator[list[tuple[str, Configs]]]:
    for at in range(0, len(all_), PER_REQUEST):
        yield [(f"t{at + number}", configs) for number, configs in enumerate(all_[at : at + PER_REQUEST])]


async def differences(ours: Side, stock: Side) -> tuple[int, dict[int, int], list[str]]:
    """How many pairs were compared, how often each code was given, and what differs."""
    singles, combined = one_value(), together(1_500)
    asked: list[tuple[str, list[tuple[str, Configs]]]] = []
    asked += [("incremental", piece) for piece in pieces(singles + combined)]
    asked += [("old_form", piece) for piece in pieces(singles[::5] + combined[::3])]
    asked += [("create", piece) for piece in pieces(singles[::5] + combined[::3])]
    found: list[str] = []
    codes: dict[int, int] = {}
    for how, piece in asked:
        answers = [await getattr(side, how)(piece) for side in (ours, stock)]
        for (_, configs), mine, theirs in zip(piece, *answers, strict=True):
            codes[theirs] = codes.get(theirs, 0) + 1
            if mine != theirs:
                found.append(f"{how} {configs!r}: ours {mine}, stock {theirs}")
    for side in (ours, stock):
        assert await side.create([("kept", ())], trial=False) == [0]
    for number, configs in enumerate(together(300)):  # one after the other: what was set before counts
        mine, theirs = [await side.incremental([("kept", configs)], trial=False) for side in (ours, stock)]
        if mine != theirs:
            found.append(f"step {number} {configs!r}: ours {mine}, stock {theirs}")
    return sum(codes.values()) + 300, codes, found


@pytest.mark.parametrize("remote", [False, True], ids=["without remote storage", "with remote storage"])
def test_every_value_is_taken_or_refused_as_by_stock(laboratory: Laboratory, remote: bool) -> None:
    extra: dict[str, Value] = {"remote.log.storage.system.enable": "true"} if remote else {}
    count, codes, found = compared(laboratory, extra, differences)
    print(f"{count} values compared, stock's codes {codes}, {len(found)} differences")
    assert not found, "\n".join(found[:50])
    assert count > 5_000
    assert {0, 3, 40} <= codes.keys(), "both kinds of values were tried"
