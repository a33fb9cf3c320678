"""What a controller's decision is made from, and the cluster that follows from it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from random import Random
from typing import Any

from migrator.controller.contacts import Contacts
from migrator.controller.decision import ControllerSettings, Decision, Record, Situation
from migrator.controller.replay import replay
from migrator.model.draft import Delta, Draft
from migrator.model.image import Image, Position
from migrator.wire.schema import Message

CLUSTER = "a cluster"
CONTROLLER = 3000


def the_settings(**changes: Any) -> ControllerSettings:
    fields: dict[str, Any] = {
        "node_id": CONTROLLER,
        "cluster_id": CLUSTER,
        "migration_enabled": True,
        "inter_broker_listener": "PLAINTEXT",
        "session_timeout_ms": 9_000,
    }
    return ControllerSettings(**{**fields, **changes})


def a_situation(image: Image, *, now_ms: int = 100_000, seed: int = 1, **settings: Any) -> Situation:
    """A leadership that began just now: every registered broker has a fresh session."""
    contacts = Contacts()
    contacts.clear(image.brokers, now_ms)
    return Situation(
        image=image,
        contacts=contacts,
        settings=the_settings(**settings),
        next_offset=image.position.offset + 1,
        now_ms=now_ms,
        chance=Random(seed),
    )


def replayed(image: Image, records: Iterable[Record]) -> Delta:
    """What the records change, each at the next offset."""
    draft = Draft(image)
    offset = image.position.offset
    for record, _ in records:
        replay(draft, record)
        offset += 1
    return draft.finish(Position(image.position.epoch, offset))


def after(situation: Situation, decision: Decision | Iterable[Record], pass_ms: int = 0) -> Situation:
    """The situation that the next request meets."""
    records = decision.records if isinstance(decision, Decision) else tuple(decision)
    image = replayed(situation.image, records).after
    return replace(situation, image=image, next_offset=image.position.offset + 1, now_ms=situation.now_ms + pass_ms)


def messages(decision: Decision) -> list[Message]:
    """The records without their versions."""
    return [record for record, _ in decision.records]
