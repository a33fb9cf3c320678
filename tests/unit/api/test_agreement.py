"""Who approves says what they read: the service approves exactly that, or nothing."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from api.client import Client, ServiceRefused
from migrator.findings.service import AGREED_TO_ANOTHER
from state_machine.policy.phases import TRANSITIONS, Phase, Trigger, require_named
from state_machine.rows.tables import Migration, Operation
from tests.unit.api.service import BASE, Served
from tests.unit.api.test_client import Wire
from tests.unit.api.test_rest import assert_problem

BO = {"who": "Bo"}
ONE = "configuration of client-metrics m1"
TWO = "configuration of client-metrics m2"
CONSENT = "/migrations/1/agreement?to=ROLLING_BACK"


def with_a_loss(served: Served, *lost: str) -> dict[str, Any]:
    """In DUAL_WRITE. What `approve` would consent to."""

    async def story() -> None:
        if served.world.phase is Phase.CREATED:
            await served.world.to_dual_write()
        served.world.controller.only_kraft = list(lost)
        await served.world.rounds()

    asyncio.run(story())
    found: dict[str, Any] = served.get(CONSENT)
    return found


def consent(served: Served, digest: str | None = None) -> Any:
    body = {"to": "ROLLING_BACK", "who": "Bo"}
    return served.post("/migrations/1/approve", body if digest is None else {**body, "digest": digest})


def last_approval(served: Served) -> Any:
    served.rounds(3)
    return served.world.snapshot.approval


def test_what_is_agreed_to_is_shown_with_its_digest(served: Served) -> None:
    found = with_a_loss(served, ONE)
    assert found["says"] == [f"lost: {ONE}"]
    assert found["document"] == {"lost": [ONE]}
    assert consent(served, found["digest"]).status_code == 202
    assert last_approval(served).digest == found["digest"]


def test_an_approval_without_a_digest_or_with_another_one_is_refused(served: Served) -> None:
    before = with_a_loss(served, ONE)
    assert "carries no digest" in assert_problem(consent(served), 409, "Z2K-4064")["detail"]
    now = with_a_loss(served, ONE, TWO)
    said = assert_problem(consent(served, before["digest"]), 409, AGREED_TO_ANOTHER.code)["detail"]
    assert before["digest"] in said
    assert now["digest"] in said
    assert last_approval(served) is None


def test_what_changes_between_the_request_and_its_settling_is_not_approved(served: Served) -> None:
    read = with_a_loss(served, ONE)
    accepted = consent(served, read["digest"]).json()
    served.world.controller.only_kraft = [ONE, TWO]
    assert last_approval(served) is None
    settled = served.http.get(accepted["link"]).json()
    assert settled["state"] == "refused"
    assert "Z2K-4064" in settled["answer"]


def test_a_recorded_approval_of_an_earlier_release_has_no_digest_and_is_refused(served: Served) -> None:
    with_a_loss(served, ONE)
    operation = served.world.operation("APPROVE", to=Phase.ROLLING_BACK, digest=None)
    assert last_approval(served) is None
    with served.world.store.reading() as session:
        assert session.get_one(Operation, operation.id).state == "refused"


def test_the_plan_of_finalizing_names_nodes_and_steps(served: Served) -> None:
    with_a_loss(served)
    with served.world.store.writing() as session:
        session.get_one(Migration, 1).phase = Phase.SOAK
    found = served.get("/migrations/1/agreement")
    assert found["to"] == "FINALIZING"
    assert found["says"][0] == "cluster not known; the log says NONE"
    assert "controller 3000: stop, write the file without the flag, start" in found["says"]
    assert_problem(served.http.get("/api/v1/migrations/1/agreement?to=COMPLETED"), 409, "Z2K-4003")


# --- the command ------------------------------------------------------------------------------------------


def test_the_command_shows_what_it_would_approve_and_approves_only_what_was_read(
    served: Served, capsys: pytest.CaptureFixture[str]
) -> None:
    digest = with_a_loss(served, ONE)["digest"]
    client = Client(BASE, as_json=False, transport=Wire(served))
    body = {"who": "Bo"}
    assert client.approve(1, "ROLLING_BACK", None, body, wait_s=None) == 5
    shown = capsys.readouterr().out
    assert f"lost: {ONE}" in shown
    assert f"--to ROLLING_BACK --digest {digest[:16]}" in shown
    assert served.world.snapshot.approval is None
    assert client.approve(1, "ROLLING_BACK", digest[:16], body, wait_s=None) == 0
    assert last_approval(served).digest == digest


@pytest.mark.parametrize("digits", [11, 0])
def test_a_few_digits_do_not_stand_for_a_digest(served: Served, digits: int) -> None:
    digest = with_a_loss(served, ONE)["digest"]
    with pytest.raises(ServiceRefused):
        Client(BASE, as_json=False, transport=Wire(served)).approve(1, "ROLLING_BACK", digest[:digits], BO, wait_s=None)
    assert last_approval(served) is None


# --- what cannot be undone has a name ---------------------------------------------------------------------


def test_advance_in_soak_does_not_finalize_without_being_told_so(served: Served) -> None:
    with_a_loss(served)
    with served.world.store.writing() as session:
        session.get_one(Migration, 1).phase = Phase.SOAK
    found = assert_problem(served.post("/migrations/1/advance", {"who": "Ann"}), 409, "Z2K-4003")
    assert found["possible"] == ["advance --to FINALIZING"]
    named = served.post("/migrations/1/advance", {"who": "Ann", "to": "FINALIZING"})
    assert_problem(named, 409, "Z2K-4005")
    asked = asyncio.run(served.world.run_operation("ADVANCE"))
    assert (asked.state, "Z2K-4003" in asked.answer) == ("refused", True)


def test_every_other_step_needs_no_name() -> None:
    for (phase, _), edge in TRANSITIONS.items():
        if edge.to is not Phase.FINALIZING:
            require_named(phase, edge, None)
    assert TRANSITIONS[Phase.SOAK, Trigger.ADVANCE].to is Phase.FINALIZING
