"""docs/requests.md says of every advertised request what this controller really does with it."""

from __future__ import annotations

import asyncio
import re
from itertools import takewhile
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest

from migrator.controller import requests
from migrator.controller.authorizer import ANONYMOUS, Asker
from migrator.controller.contacts import Contacts
from migrator.controller.decision import ControllerSettings, Situation
from migrator.controller.features import CONTROLLER_APIS, FORWARDABLE
from migrator.model.image import EMPTY
from migrator.node.listener.controller_apis import ControllerApis
from migrator.node.quorum.quorum_apis import QuorumApis
from migrator.wire.errors import Error
from migrator.wire.frames import API_KEYS
from migrator.wire.schema import Message

PAGE = Path(__file__).resolve().parents[3] / "docs" / "requests.md"
COLUMNS = ("key", "request", "versions", "Envelope", "early", "answer", "why")
SETTINGS = ControllerSettings(
    node_id=1, cluster_id="cluster", migration_enabled=True, inter_broker_listener="PLAINTEXT"
)


def rows() -> list[dict[str, str]]:
    """The table of the page, one row per request."""
    lines = iter(PAGE.read_text().splitlines())
    header = next(line for line in lines if line.startswith("| key |"))
    assert cells(header) == COLUMNS
    next(lines)  # the rule below the header
    table = takewhile(lambda line: line.startswith("|"), lines)
    return [dict(zip(COLUMNS, cells(line), strict=True)) for line in table]


def cells(line: str) -> tuple[str, ...]:
    return tuple(cell.strip() for cell in line.strip("|").split("|"))


def own_reply(request: Message, version: int) -> Message | None:
    """What the listener answers by itself; None when it asks the controller core."""

    class AskedTheCore(Exception):
        pass

    async def submit(request: Message, version: int, asker: object) -> Message:
        raise AskedTheCore

    core = SimpleNamespace(image=EMPTY, settings=SETTINGS, submit=submit, allows=lambda *_: True)
    voter = SimpleNamespace(leader=1, epoch=1, cluster_id="cluster", leadership=None, high_watermark=-1)
    raft = cast(Any, SimpleNamespace(voter=voter))
    apis = ControllerApis(raft, cast(Any, core), QuorumApis(raft, wall_ms=lambda: 0), listener="CONTROLLER")
    try:
        return asyncio.run(apis._route(version, request, Asker(ANONYMOUS, "127.0.0.1")))
    except AskedTheCore:
        return None


def refusal_of(
    request: Message,
    version: int,
    monkeypatch: pytest.MonkeyPatch,
    *,
    writes_allowed: bool,
    blocked: str | None = None,
) -> Error | None:
    """With which error the core refuses a request as a whole; None when it looks at it."""
    refused: list[Error] = []

    def remember(request: Message, error: Error, words: str | None = None) -> Message:
        refused.append(error)
        return request

    situation = Situation(EMPTY, Contacts(), SETTINGS, next_offset=0, now_ms=0, chance=Random(0))
    with monkeypatch.context() as patched:
        patched.setattr(requests, "refuse", remember)
        requests.decide(situation, request, version, writes_allowed=writes_allowed, blocked=blocked)
    return refused[0] if refused else None


def answer_of(key: int, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    """`answer` and `early`, as the page has to say them."""
    version = API_KEYS[key].declared.highest
    request = API_KEYS[key].request()
    own = own_reply(request, version)
    if own is not None:
        return "served", "yes"
    error = refusal_of(request, version, monkeypatch, writes_allowed=True)
    early = refusal_of(request, version, monkeypatch, writes_allowed=False)
    assert early in (None, Error.NOT_CONTROLLER)
    return "served" if error is None else f"refused {error.value}", "yes" if early is None else "-"


def test_the_page_lists_what_the_controller_advertises() -> None:
    listed = [(row["key"], row["request"], row["versions"]) for row in rows()]
    declared = [(key, API_KEYS[key].declared) for key in CONTROLLER_APIS]
    assert listed == [
        (str(key), API_KEYS[key].name, f"{each.lowest}-{each.highest}" if each.highest else "0")
        for key, each in declared
    ]


@pytest.mark.parametrize("key", CONTROLLER_APIS, ids=lambda key: API_KEYS[key].name)
def test_the_page_says_how_a_request_is_answered(key: int, monkeypatch: pytest.MonkeyPatch) -> None:
    (row,) = (row for row in rows() if row["key"] == str(key))
    answer, early = answer_of(key, monkeypatch)
    assert (row["answer"], row["early"]) == (answer, early)
    assert row["Envelope"] == ("yes" if key in FORWARDABLE else "-")
    assert row["why"]


def test_the_page_says_what_waits_at_the_limit_of_divergence(monkeypatch: pytest.MonkeyPatch) -> None:
    listed = re.search(r"until ZooKeeper has caught up: ([\d, ]+)\.", PAGE.read_text())
    assert listed is not None
    waiting = {int(key) for key in listed[1].split(", ")}
    for key in CONTROLLER_APIS:
        if own_reply(API_KEYS[key].request(), API_KEYS[key].declared.highest) is not None:
            assert key not in waiting
            continue
        request, version = API_KEYS[key].request(), API_KEYS[key].declared.highest
        refused = refusal_of(request, version, monkeypatch, writes_allowed=True, blocked="behind")
        assert (refused is Error.POLICY_VIOLATION) == (key in waiting), API_KEYS[key].name
        early = refusal_of(request, version, monkeypatch, writes_allowed=False, blocked="behind")
        assert early in (None, Error.NOT_CONTROLLER), "who may not decide says that first: the broker then asks again"


def test_nothing_that_clients_may_ask_for_is_refused_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = [API_KEYS[key].name for key in FORWARDABLE if answer_of(key, monkeypatch)[0].startswith("refused")]
    assert refused == []
