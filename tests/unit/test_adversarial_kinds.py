"""The kinds of trouble in brokers' logs: two runs of one story are told apart by what they complain about."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.adversarial.log_kinds import Kind, kinds, only_in, plain

LOG = """[2026-11-22 19:54:17,711] INFO [Broker id=0] Fine (kafka.server.Broker)
[2026-11-22 19:54:17,712] WARN [Broker id=0] Connection to node 3001 (/127.0.0.1:26482) failed (o.a.k.NetworkClient)
[2026-11-22 19:54:18,712] WARN [Broker id=2] Connection to node 1 (/127.0.0.1:9) failed (o.a.k.NetworkClient)
java.io.IOException: gone
\tat kafka.log.Log.append(Log.scala:1)
[2026-11-22 19:54:19,011] ERROR Error for partition load-0-3 at offset -1 (kafka.server.Fetcher)
"""


def test_lines_that_differ_by_ids_and_addresses_alone_are_one_kind() -> None:
    assert kinds(LOG) == Counter(
        {
            Kind("WARN", "NetworkClient", "[Broker id=N] Connection to node N (/HOST) failed"): 2,
            Kind("ERROR", "Fetcher", "Error for partition TOPIC at offset N"): 1,
        }
    )


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("file /tmp/a-lab/data-1/load-2-0/000.log is gone", "file PATH is gone"),
        ("topic id y8f4GgBISDWbZ5N2uJ8f3w is unknown", "topic id ID is unknown"),
        ("partitions story-1-0, story-12-3, load-0-1 left", "partitions TOPIC left"),
        ("brokers 1, 2, 3 and 0x1f", "brokers N and HEX"),
    ],
)
def test_what_differs_by_nature_is_taken_out(words: str, expected: str) -> None:
    assert plain(words) == expected


def test_what_the_other_run_does_not_have_is_left() -> None:
    ours, stock = kinds(LOG), kinds(LOG.replace("Error for", "Error of"))
    assert [kind.words for kind in only_in(ours, stock)] == ["Error for partition TOPIC at offset N"]
