"""A peer that is not allowed asks some dozens of times a second; the log says it once a minute, the status always."""

from __future__ import annotations

from structlog.testing import capture_logs

from migrator.findings.preflight import PEER_DENIED
from migrator.model.values import AclOperation
from migrator.node.brokers.denials import KINDS_MAX, OTHERS, SHOWN, STANDS_S, Denials

ACTION = AclOperation.CLUSTER_ACTION
WALL = 1_700_000_000.0


def test_a_denied_request_is_said_at_once_and_then_once_a_minute_with_its_count() -> None:
    now = 0.0
    denials = Denials(lambda: now)
    with capture_logs() as said:
        for _ in range(90 * 61):
            denials.denied("VoteRequest", ACTION, "User:c", "127.0.0.1")
            now += 1 / 90
        denials.denied("FetchRequest", ACTION, "User:c", "127.0.0.1")
    assert [(each["request"], each["lacks"], each["not_said"]) for each in said] == [
        ("VoteRequest", "ClusterAction", 0),
        ("VoteRequest", "ClusterAction", 90 * 60 - 1),
        ("FetchRequest", "ClusterAction", 0),
    ]


def test_many_principals_take_neither_memory_nor_lines_without_end() -> None:
    denials = Denials(lambda: 0.0)
    with capture_logs() as said:
        for number in range(KINDS_MAX * 2):
            denials.denied("VoteRequest", ACTION, f"User:{number}", "127.0.0.1")
    assert len(said) == KINDS_MAX + 1
    shown = denials.as_json()
    assert len(shown) == SHOWN
    assert (shown[0]["principal"], shown[0]["count"]) == (OTHERS, KINDS_MAX)


def test_the_status_says_who_lacks_what_how_often_and_since_when_until_it_is_over() -> None:
    now = 10.0
    denials = Denials(lambda: now, lambda: WALL + now)
    for request in ("VoteRequest", "FetchRequest", "VoteRequest"):
        denials.denied(request, ACTION, "User:c", "10.0.0.7")
        now += 1
    assert denials.as_json() == [
        {
            "principal": "User:c",
            "operation": "ClusterAction",
            "requests": ["FetchRequest", "VoteRequest"],
            "host": "10.0.0.7",
            "count": 3,
            "since": WALL + 10,
            "last": WALL + 12,
        }
    ]
    (found,) = denials.findings
    assert (found.code, PEER_DENIED.code) == ("Z2K-1119", "Z2K-1119")
    assert found.text == "Controllers deny requests of User:c: it lacks ClusterAction on the cluster."
    now += STANDS_S
    assert denials.as_json() == []
    assert denials.findings == []
    denials.denied("VoteRequest", ACTION, "User:c", "10.0.0.7")
    assert denials.as_json()[0]["count"] == 1, "what was over begins again"


def test_a_client_that_asks_for_too_much_is_shown_and_is_no_finding() -> None:
    denials = Denials(lambda: 0.0)
    denials.denied("CreateAclsRequest", AclOperation.ALTER, "User:app", "10.0.0.9")
    assert [each["operation"] for each in denials.as_json()] == ["Alter"]
    assert denials.findings == []
