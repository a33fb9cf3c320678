"""Our controller with one thing spoiled, for tests: `python spoiled_controller.py controller FILE`.

The environment variable SPOIL holds JSON:
  stall_before  name of an effect (migrator.node.quorum.hooks.EFFECTS): write `mark` and wait there, until `go` exists
  plan          a file that may hold the name of an effect: whoever comes to it first takes the file (renamed to .taken,
                with its own properties file as the content) and waits before it, until the same name with .go exists
  drop          {"topic": t, "partition": p}: leave one partition out of every FULL LeaderAndIsr
  lose_answer   a file: the first multi that takes `/controller` is applied, its answer is lost, and the file says so
  hold_versions a file: as long as it exists, versions that lag are not raised
  fetch_errors  codes that fetches are answered with, each once, with `mark` as their record
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from api.commands.output import start_logging
from migrator.driver.update_requests import LEADER_AND_ISR, VERSIONS, BrokerUpdate, UpdateKind
from migrator.findings.zookeeper import ZOOKEEPER_LOST
from migrator.node.config.properties import read_config
from migrator.node.driver.mirror_node import Mirror
from migrator.node.process.controller import run_controller
from migrator.node.quorum.hooks import Hooks
from migrator.raft.effects import AnswerFetch
from migrator.wire.codec import decode, encode
from migrator.wire.errors import Error
from migrator.wire.messages.control import LeaderAndIsrRequest
from migrator.zk.multi import Create, Multi, MultiOutcome
from migrator.zk.paths import CONTROLLER
from migrator.zk.session import ZkSession

SPOIL: dict[str, Any] = json.loads(os.environ.get("SPOIL", "{}"))


async def stall(effect: str) -> None:
    await take_plan(effect)
    if effect != SPOIL.get("stall_before"):
        return
    Path(SPOIL["mark"]).write_text(effect)
    while not Path(SPOIL.get("go", "/nowhere")).exists():
        await asyncio.sleep(0.02)


async def take_plan(effect: str) -> None:
    plan = Path(SPOIL.get("plan", "/nowhere"))
    mine = plan.with_suffix(f".of-{os.getpid()}")
    try:
        if plan.read_text() != effect:
            return
        plan.rename(mine)
    except FileNotFoundError:
        return  # nobody asked, or another one took it
    mine.write_text(sys.argv[2])
    mine.rename(plan.with_suffix(".taken"))
    while not plan.with_suffix(".go").exists():
        await asyncio.sleep(0.005)


def drop(orders: list[BrokerUpdate]) -> list[BrokerUpdate]:
    left_out = SPOIL.get("drop")
    return [_without(order, left_out) if left_out else order for order in orders]


def _without(order: BrokerUpdate, left_out: dict[str, Any]) -> BrokerUpdate:
    if order.api_key != LEADER_AND_ISR or order.kind is not UpdateKind.FULL:
        return order
    request = decode(LeaderAndIsrRequest, VERSIONS[LEADER_AND_ISR], order.body)
    topics = [
        type(topic)(
            topic.topic_name,
            topic.topic_id,
            tuple(
                each
                for each in topic.partition_states
                if (topic.topic_name, each.partition_index) != (left_out["topic"], left_out["partition"])
            ),
        )
        for topic in request.topic_states
    ]
    spoiled = LeaderAndIsrRequest(
        **{
            **{name: getattr(request, name) for name in request.__struct_fields__},
            "topic_states": tuple(topics),
        }
    )
    return replace(order, shared=encode(spoiled, VERSIONS[LEADER_AND_ISR]))


PENDING = [int(code) for code in SPOIL.get("fetch_errors", [])]


def spoil_fetch(answer: AnswerFetch) -> AnswerFetch:
    """Each planned error once, then answers as they are. 1000 + n means: at the top level."""
    if not PENDING or answer.error is not Error.NONE:
        return answer
    code = PENDING.pop(0)
    with Path(SPOIL["mark"]).open("a") as record:
        record.write(f"{code}\n")
    if code == -1:
        return replace(answer, read_from=None, diverging_epoch=answer.epoch, diverging_end=answer.high_watermark)
    if code >= 1000:
        return replace(answer, error=Error(code - 1000), top_level=True)
    return replace(answer, error=Error(code), read_from=None)


def lose_the_answer_of_the_claim(mark: Path) -> None:
    sessions: Any = ZkSession
    apply = ZkSession.apply

    def forgetful(session: ZkSession, multi: Multi) -> MultiOutcome:
        outcome = apply(session, multi)
        if not mark.exists() and any(isinstance(each, Create) and each.path == CONTROLLER for each in multi.operations):
            mark.write_text(f"applied: {outcome.applied}")
            raise ZOOKEEPER_LOST.error(path="multi", reason="the answer is lost")
        return outcome

    sessions.apply = forgetful


def hold_versions(while_there: Path) -> None:
    mirrors: Any = Mirror
    raise_versions = Mirror.raise_versions

    def held(mirror: Mirror) -> bool:
        return False if while_there.exists() else raise_versions(mirror)

    mirrors.raise_versions = held


if __name__ == "__main__":
    start_logging()
    if "hold_versions" in SPOIL:
        hold_versions(Path(SPOIL["hold_versions"]))
    if "lose_answer" in SPOIL:
        lose_the_answer_of_the_claim(Path(SPOIL["lose_answer"]))
    hooks = Hooks(before=stall, full_updates=drop, answer_fetch=spoil_fetch)
    sys.exit(run_controller(read_config(Path(sys.argv[2])), hooks))
