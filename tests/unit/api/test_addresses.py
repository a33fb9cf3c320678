"""Routes, links and requests are one list: each address has its route, and each link that is handed out leads there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from migrator.http import addresses
from migrator.http.addresses import BASE, EVENTS, MIGRATION, STEPS, Address
from state_machine.policy.phases import OPERATIONS, OperationName
from tests.unit.api.service import Served

ALL = {
    **{name: each for name, each in vars(addresses).items() if isinstance(each, Address)},
    **{f"STEPS {word}": each for word, each in STEPS.items()},
}


def published(served: Served) -> dict[str, set[str]]:
    """The addresses below BASE that the application publishes, with the parameters of their queries."""
    found: dict[str, set[str]] = {}
    for path, methods in served.app.openapi()["paths"].items():
        if path.startswith(BASE + "/"):
            given = [each for method in methods.values() for each in method.get("parameters", [])]
            found[path.removeprefix(BASE)] = {each["name"] for each in given if each["in"] == "query"}
    return found


def test_the_list_has_every_address_of_the_application_with_its_parameters(served: Served) -> None:
    assert published(served) == {each.template: set(each.parameters) for each in ALL.values()}


def test_every_operation_has_its_address_and_those_that_take_a_step_can_be_tried_dry() -> None:
    by_patch = OperationName.CHANGE
    expected = {row.word: row.trigger is not None for name, row in OPERATIONS.items() if name != by_patch}
    assert {word: "dry_run" in address.parameters for word, address in STEPS.items()} == expected


@pytest.mark.parametrize("wrong", [{"signal": 1}, {"numbers": 2}])
def test_a_name_that_an_address_lacks_is_an_error_where_the_link_is_made(wrong: dict[str, int]) -> None:
    with pytest.raises(KeyError):
        EVENTS(number=1, **wrong)


def test_a_link_is_quoted_and_says_nothing_of_what_is_absent() -> None:
    assert MIGRATION(number=3, who="a b&c") == f"{BASE}/migrations/3?who=a+b%26c"
    assert EVENTS(number=3, trigger=None) == f"{BASE}/migrations/3/events"
    assert MIGRATION(number="../x") == f"{BASE}/migrations/..%2Fx"


def _links(document: Any) -> Iterator[str]:
    match document:
        case dict():
            for each in document.values():
                yield from _links(each)
        case list():
            for each in document:
                yield from _links(each)
        case str() if re.match(r"/[a-z]", document):
            yield document


def test_every_link_of_every_answer_leads_somewhere_against_a_long_history(served: Served) -> None:
    served.run(served.world.to_dual_write())
    for word in ("pause", "resume") * 3:
        served.post(f"/migrations/1/{word}", {"who": "olga"})
        served.rounds(2)
    accepted = served.post("/migrations/1/pause", {"who": "olga"}).json()
    served.rounds(2)
    history = served.get("/migrations/1/events")["items"]
    assert len(history) > 5
    followed: set[str] = set()
    waiting = [f"{BASE}/migrations", *_links(accepted)]
    while waiting:
        link = waiting.pop()
        if link in followed:
            continue
        followed.add(link)
        answer = served.http.get(link)
        assert answer.status_code == 200, link
        if answer.headers["content-type"].startswith("application/json"):
            waiting += [each for each in _links(answer.json()) if each.startswith((BASE, "/migrations", "/runbooks"))]
    assert {accepted["link"], accepted["event"]} <= followed
    events = served.http.get(accepted["event"]).json()["items"]
    assert len(events) < len(history), "what this operation led to, not everything"
