"""The poison of the poison run (`make poison`): every kind of request, every family of znodes, the same for a seed."""

from __future__ import annotations

from random import Random

import pytest

from migrator.wire.frames import decode_request
from migrator.wire.schema import declaration_of
from tests.adversarial.poison import Poison, Seen, shared_out, summary
from tests.adversarial.poison_brokers import registrations
from tests.adversarial.poison_requests import BROKEN, FORWARDED, NAMES, OF_BROKERS, hostile_requests, large_requests
from tests.adversarial.poison_wire import NO_UTF8, RESPONSES, broken_frames, frame_of, in_envelope
from tests.adversarial.poison_znodes import Gardener
from tests.support.storm_sender import RESPONSES as ADMIN_RESPONSES

KINDS = (*FORWARDED, *OF_BROKERS)


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_can_be_sent_with_each_name_and_its_answer_be_read(kind: str) -> None:
    for seed in range(5):
        requests = list(hostile_requests(Random(seed), kind))
        assert len(requests) == len(NAMES)
        for each in requests:
            assert type(each.request) in RESPONSES
            if not each.forwarded:
                assert frame_of(each.request)
            else:
                assert in_envelope(each.request)


def test_every_request_of_an_administrator_is_among_them() -> None:
    sent = {type(each.request) for kind in KINDS for each in hostile_requests(Random(1), kind)}
    assert ADMIN_RESPONSES.keys() <= sent


def test_a_seed_is_a_plan() -> None:
    def frames(seed: int) -> list[bytes]:
        chance = Random(seed)
        return [frame_of(each.request) for kind in KINDS for each in hostile_requests(chance, kind)]

    assert frames(7) == frames(7)
    assert frames(7) != frames(8)


def test_broken_text_leaves_as_bytes_that_are_no_text() -> None:
    (odd,) = [each for each in hostile_requests(Random(1), "create topic, odd name only") if BROKEN in each.what]
    frame = frame_of(odd.request)
    assert NO_UTF8 in frame
    assert BROKEN.encode() not in frame
    assert int.from_bytes(frame[:4]) == len(frame) - 4, "the length is still right"


def test_large_requests_and_registrations_can_be_sent() -> None:
    assert all(len(frame_of(each.request)) < 100 << 20 for each in large_requests(Random(1)))
    requests = [request for _, request in registrations(Random(1), "cluster")]
    assert len({each.broker_id for each in requests}) == len(requests)
    assert all(declaration_of(type(each)).api_key == 62 and frame_of(each) for each in requests)


def test_broken_frames_are_broken() -> None:
    """But for the few that are only odd: an Envelope around nonsense, and a Metadata of 4 MB."""
    read = []
    for what, frame in broken_frames(Random(1)):
        try:
            decode_request(frame[4:])
        except Exception:
            continue
        read.append(what)
    assert [each for each in read if "Envelope" not in each and "Metadata" not in each] == []


class Tree:
    """As much of kazoo as a gardener uses."""

    def __init__(self) -> None:
        self.written: dict[str, bytes] = {}
        self.deleted: list[str] = []

    def get(self, path: str) -> tuple[bytes, None]:
        return b'{"topic_id":"AAAAAAAAAAAAAAAAAAAAAQ"}', None

    def create(self, path: str, data: bytes, makepath: bool) -> None:
        self.written[path] = data

    def delete(self, path: str, recursive: bool) -> None:
        self.deleted.append(path)


def test_every_family_of_znodes_has_its_weed_and_the_claim_has_none() -> None:
    tree = Tree()
    for each in Gardener(tree, "topic-0").plants():
        each.act()
    touched = {*tree.written, *tree.deleted}
    tops = {"/".join(path.split("/")[:3]) for path in touched}
    assert {"/brokers/topics", "/brokers/ids", "/config/topics", "/config/brokers", "/config/users"} <= tops
    assert {"/config/clients", "/config/ips", "/config/changes", "/kafka-acl/Topic", "/delegation_token/tokens"} <= tops
    assert {"/admin/delete_topics", "/admin/reassign_partitions", "/latest_producer_id_block"} <= tops
    assert not touched & {"/controller", "/controller_epoch", "/migration"}


def a_poison(family: str, number: int) -> Poison:
    return Poison(family, str(number), lambda: "")


def test_rounds_are_shared_so_that_small_families_are_played_too() -> None:
    families = {"large": [a_poison("large", each) for each in range(500)], "small": [a_poison("small", 1)] * 5}
    shared = shared_out(families, 100, Random(1))
    assert {family: len(each) for family, each in shared.items()} == {"large": 95, "small": 5}
    assert [int(each.what) for each in shared["large"]] == sorted(int(each.what) for each in shared["large"])
    assert shared_out(families, 0, Random(1)) == families


def test_the_summary_counts_what_was_wrong() -> None:
    seen = [Seen("frames", "a", "closed", 0.1, ()), Seen("frames", "b", "closed", 7.0, ("only after 7.0 s",))]
    assert summary(seen).endswith("| frames | 2 | 7.00 | 1 |")
