"""Quotas: which keys whom, which values, and what is written."""

from __future__ import annotations

import math

import pytest

from migrator.controller.decision import RECORDS_PER_REQUEST_MAX, Decision, Situation
from migrator.controller.quotas import alter_client_quotas
from migrator.model.draft import Draft
from migrator.model.values import QuotaEntity
from migrator.wire.errors import Error
from migrator.wire.messages.configs import (
    AlterClientQuotasEntry,
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    ClientQuotaOp,
)
from migrator.wire.messages.shared import ClientQuotaEntity
from tests.support.builders import an_image
from tests.support.situations import a_situation, after

Parts = tuple[tuple[str, str | None], ...]
ALICE: Parts = (("user", "alice"),)
ALICES_APP: Parts = (("client-id", "app"), ("user", "alice"))
HOME: Parts = (("ip", "127.0.0.1"),)


def a_cluster(*kept: tuple[Parts, dict[str, float]]) -> Situation:
    image = an_image()
    draft = Draft(image)
    for parts, quotas in kept:
        for key, value in quotas.items():
            draft.set_quota(QuotaEntity.of(parts), key, value)
    return a_situation(draft.finish(image.position).after)


def an_entry(parts: Parts, /, *ops: tuple[str, float | None]) -> AlterClientQuotasEntry:
    return AlterClientQuotasEntry(
        tuple(ClientQuotaEntity(type_, name) for type_, name in parts),
        tuple(ClientQuotaOp(key, value or 0.0, value is None) for key, value in ops),
    )


def alter(
    situation: Situation, *entries: AlterClientQuotasEntry, validate_only: bool = False
) -> tuple[list[tuple[int, str | None]], Decision]:
    decision = alter_client_quotas(situation, AlterClientQuotasRequest(entries, validate_only))
    assert isinstance(decision.reply, AlterClientQuotasResponse)
    assert [each.entity for each in decision.reply.entries] == [each.entity for each in entries]
    return [(each.error_code, each.error_message) for each in decision.reply.entries], decision


def quotas(situation: Situation, parts: Parts) -> dict[str, float]:
    return dict(situation.image.quotas.get(QuotaEntity.of(parts), {}))


@pytest.mark.parametrize(
    "parts",
    [
        ALICE,
        (("user", None),),
        (("client-id", "app"),),
        (("client-id", None),),
        ALICES_APP,
        (("user", None), ("client-id", None)),
    ],
)
def test_users_and_clients_have_four_quotas(parts: Parts) -> None:
    wanted = {
        "producer_byte_rate": 1024.0,
        "consumer_byte_rate": 2048.0,
        "request_percentage": 12.5,
        "controller_mutation_rate": 0.5,
    }
    situation = a_cluster()
    results, decision = alter(situation, an_entry(parts, *wanted.items()))
    assert results == [(Error.NONE, None)]
    assert quotas(after(situation, decision), parts) == wanted


@pytest.mark.parametrize("address", ["10.0.0.1", "::1", None])
def test_addresses_have_one(address: str | None) -> None:
    situation = a_cluster()
    results, decision = alter(situation, an_entry((("ip", address),), ("connection_creation_rate", 5.0)))
    assert results == [(Error.NONE, None)]
    assert quotas(after(situation, decision), (("ip", address),)) == {"connection_creation_rate": 5.0}


def test_only_what_differs_is_written_and_the_order_of_an_entity_says_nothing() -> None:
    situation = a_cluster((ALICES_APP, {"producer_byte_rate": 1.0, "consumer_byte_rate": 2.0}))
    backwards = (ALICES_APP[1], ALICES_APP[0])
    changes = (("producer_byte_rate", 1.0), ("consumer_byte_rate", None), ("request_percentage", None))
    results, decision = alter(situation, an_entry(backwards, *changes))
    assert results == [(Error.NONE, None)]
    assert len(decision.records) == 1
    assert quotas(after(situation, decision), ALICES_APP) == {"producer_byte_rate": 1.0}


def test_an_entity_whose_last_quota_goes_is_gone() -> None:
    situation = a_cluster((ALICE, {"producer_byte_rate": 1.0}))
    _, decision = alter(situation, an_entry(ALICE, ("producer_byte_rate", None)))
    assert not after(situation, decision).image.quotas


@pytest.mark.parametrize(
    ("parts", "ops", "words"),
    [
        ((), [("producer_byte_rate", 1.0)], "Invalid empty client quota entity"),
        ((("user", "a"), ("user", "b")), [], "duplicate entity entry user"),
        ((("group", "a"),), [], "Unhandled client quota entity type: group"),
        ((("user", ""),), [], "Empty user not supported"),
        ((("ip", "127.0.0.1"), ("user", "a")), [], "should not be combined"),
        ((("ip", "some.host"),), [("connection_creation_rate", 1.0)], "some.host is not a valid IP."),
        (ALICE, [("connection_creation_rate", 1.0)], "Invalid configuration key connection_creation_rate"),
        (HOME, [("producer_byte_rate", 1.0)], "Invalid configuration key producer_byte_rate"),
        (ALICE, [("producer_byte_rate", 0.0)], "Quota producer_byte_rate must be greater than 0"),
        (ALICE, [("request_percentage", -1.0)], "Quota request_percentage must be greater than 0"),
        (ALICE, [("request_percentage", math.nan)], "Quota request_percentage must be greater than 0"),
        (ALICE, [("producer_byte_rate", 1.5)], "producer_byte_rate cannot be a fractional value."),
        (ALICE, [("producer_byte_rate", 1e30)], "Proposed value for producer_byte_rate is too large for a LONG."),
        (HOME, [("connection_creation_rate", 3e9)], "connection_creation_rate is too large for an INT."),
        (ALICE, [("producer_byte_rate", 1.0), ("producer_byte_rate", 2.0)], "Duplicate quota key producer_byte_rate"),
    ],
)
def test_what_cannot_be_is_refused_and_the_others_are_carried_out(
    parts: Parts, ops: list[tuple[str, float | None]], words: str
) -> None:
    good = an_entry((("user", "bob"),), ("producer_byte_rate", 7.0))
    results, decision = alter(a_cluster(), an_entry(parts, ("consumer_byte_rate", None), *ops), good)
    assert results[0][0] == Error.INVALID_REQUEST
    assert words in str(results[0][1])
    assert results[1] == (Error.NONE, None)
    assert len(decision.records) == 1


def test_an_entity_that_is_named_twice_is_left_alone() -> None:
    """Stock carries out the first one and says that it did not."""
    one, two = (an_entry(ALICE, ("producer_byte_rate", value)) for value in (1.0, 2.0))
    results, decision = alter(a_cluster(), one, two)
    assert [code for code, _ in results] == [Error.INVALID_REQUEST] * 2
    assert decision.records == ()


def test_quotas_are_only_validated_when_asked_to() -> None:
    results, decision = alter(a_cluster(), an_entry(ALICE, ("producer_byte_rate", 1.0)), validate_only=True)
    assert (results, decision.records) == ([(Error.NONE, None)], ())


def test_more_changes_than_one_batch_holds_are_refused_together() -> None:
    entries = (
        an_entry((("user", f"{each}"),), ("producer_byte_rate", 1.0)) for each in range(RECORDS_PER_REQUEST_MAX + 1)
    )
    results, decision = alter(a_cluster(), *entries)
    assert ({code for code, _ in results}, decision.records) == ({Error.POLICY_VIOLATION}, ())
