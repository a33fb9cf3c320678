"""The stage of a migration: drivers and their claims, a ZooKeeper in memory, brokers in ZooKeeper mode, the phase.

A story says what happens and which multi is sent; the rules of migrator.driver decide what follows, and the table of
phases what an operator sees. Nothing here decides. One log is shared by all controllers, as its committed records are.
"""

from __future__ import annotations

from dataclasses import replace

from migrator.control_api.operations import KEPT_IN
from migrator.control_api.states import State
from migrator.driver.claim import (
    Claim,
    ClaimObservation,
    is_successor,
    plan_abort,
    plan_claim,
    plan_displace,
    plan_persist,
    plan_raise,
    plan_rollback,
    recognise,
    refuse_claim,
    still_ours,
)
from migrator.driver.claim_table import Brokers, Known, judge
from migrator.driver.machine import Happened, entry, move
from migrator.driver.way_back import way_back
from migrator.findings.finding import FindingError
from migrator.model.image import NOWHERE, Position
from migrator.model.values import MigrationState
from migrator.node.zookeeper.claims import read_claim
from migrator.zk import paths
from migrator.zk.multi import ERROR_NAMES, Check, Create, Delete, Multi, MultiOutcome, SetData
from migrator.zk.znodes import MigrationZnode, controller_data, migration_data
from state_machine.policy.phases import PEOPLE, Phase, Trigger, look_up, way
from state_machine.work.driver_history import meaning
from tests.scenarios.story import Stage
from tests.support.fake_zookeeper import FakeEnsemble, FakeSession

TAKEOVER = (
    "leads", "happens QUORUM_READY", "observes", "begins", "happens GATE_OPENED", "displaces", "raises",
    "happens CLAIMED", "happens COPIED", "happens AUDIT_PASSED", "commits 500", "persists", "happens RECONCILED",
    "happens BROKERS_UPDATED",
)  # fmt: skip
"""What one controller goes through; the story of it is takeover.txt."""

TOPIC = "/brokers/topics/orders"


class Controller:
    """One of our controllers: its driver, what it observed and what it holds."""

    def __init__(self, session: FakeSession) -> None:
        self.session = session
        self.state = State.IDLE
        self.kraft_epoch = 0
        self.observed = ClaimObservation()
        self.claim: Claim | None = None


class MigrationStage:
    def __init__(self, controllers: list[int], phase: Phase) -> None:
        self.zookeeper = FakeEnsemble()
        for path in (paths.CONTROLLER_EPOCH, TOPIC):
            self.zookeeper.create(path, b"9")
        self.controllers = {node: Controller(self.zookeeper.session()) for node in controllers}
        self.brokers: dict[int, tuple[FakeSession, int]] = {}
        """Brokers that are or were ZooKeeper-mode controllers: the session, and the version of /controller_epoch."""
        self.kraft_epoch = 4
        self.log, self.latched, self.end = MigrationState.PRE_MIGRATION, False, 0
        self.phase = phase

    def do(self, words: list[str]) -> list[str]:
        match words:
            case ["broker", broker, "elected"]:
                return self._broker_elected(int(broker))
            case ["broker", broker, "writes"]:
                session, version = self.brokers[int(broker)]
                multi = Multi((Check(paths.CONTROLLER_EPOCH, version), SetData(TOPIC, b"by the broker")))
                return [f"broker {broker}: {self._apply(session, multi)}"]
            case ["somebody", "deletes", path]:
                return [self._apply(self.zookeeper.session(), Multi((Delete(path),))), *self.znodes()]
            case ["operator", word]:
                return self._operator(next(each for each, said in PEOPLE.items() if said == word))
            case [node, "takes-over"]:
                return [self.do([node, *step.split()]) for step in TAKEOVER][-1] + self.znodes()
            case ["znodes"]:
                return self.znodes()
            case [node, verb, *more]:
                return self._controller(int(node), verb, more)
            case _:
                raise ValueError("not a command of a migration")

    # --- brokers and operators -----------------------------------------------------------------------------

    def _broker_elected(self, broker: int) -> list[str]:
        """As a broker in ZooKeeper mode does it: raise the epoch and create `/controller`, or stay as it is."""
        session = self.zookeeper.session()
        found = read_claim(session)
        multi = Multi(
            (
                SetData(paths.CONTROLLER_EPOCH, str(found.epoch + 1).encode(), found.epoch_version),
                Create(paths.CONTROLLER, controller_data(broker, -1, 0), ephemeral=True),
            )
        )
        self.brokers[broker] = session, found.epoch_version + 1
        return [f"broker {broker}: {self._apply(session, multi)}", *self.znodes()]

    def _operator(self, trigger: Trigger) -> list[str]:
        try:
            edge = look_up(self.phase, trigger)
        except FindingError as refused:
            return [f"{refused.code} {refused.occurrence.text}"]
        lines = [f"possible in {self.phase}: leads to {edge.to}, if the gate {edge.gate.__name__} is open"]
        if edge.asks is not None:
            for node, each in self.controllers.items():
                if each.state is not State.IDLE:
                    takes = "accepts" if each.state in KEPT_IN[edge.asks] else "refuses"
                    lines.append(f"{node} {takes} {edge.asks} in {each.state}")
        return lines

    # --- controllers ---------------------------------------------------------------------------------------

    def _controller(self, node: int, verb: str, more: list[str]) -> list[str]:
        one = self.controllers[node]
        match verb:
            case "leads":
                self.kraft_epoch += 1
                one.kraft_epoch = self.kraft_epoch
                return self._happens(node, entry(self.log, latched=self.latched))
            case "happens":
                return self._happens(node, Happened[more[0]])
            case "observes":
                return self._observes(node, one)
            case "begins":  # the mark that a takeover begins, in the log before anything is written to ZooKeeper
                self.latched = True
                return []
            case "commits":
                self.log, self.end = MigrationState.MIGRATION, int(more[0])
                return self._happens(node, Happened.COMMITTED)
            case "expires":
                self.zookeeper.expire(one.session.session_id)
                one.session = self.zookeeper.session()
                return self.znodes()
            case _:
                return self._sends(node, one, verb, lost=more == ["answer-lost"])

    def _happens(self, node: int, happened: Happened) -> list[str]:
        one = self.controllers[node]
        after = move(one.state, happened)
        if after is None:
            return [f"{node}: means nothing in {one.state}"]
        lines = [f"{node}: {one.state} -> {after}"]
        one.state = after
        steps = way(self.phase, meaning(self.phase, after))
        if steps:
            lines[0] += f"   phase {self.phase} -> {meaning(self.phase, after)}"
            self.phase = meaning(self.phase, after)
        return lines

    def _observes(self, node: int, one: Controller) -> list[str]:
        """What stands, and what the rules say about it; the observation is what the next multi is planned on."""
        one.observed = read_claim(one.session)
        if one.claim is not None:
            if still_ours(one.observed, one.claim):
                return [f"{node}: the claim is untouched"]
            successor = is_successor(one.observed, one.claim, self.controllers, one.kraft_epoch)
            return [f"{node}: the claim was changed" + (", by a later leader of this quorum" if successor else "")]
        if self.log is MigrationState.MIGRATION:
            known = Known(self.controllers, one.kraft_epoch, Position(one.kraft_epoch, self.end))
            found = judge(one.observed, known, Brokers.ZOOKEEPER).finding
            return [f"{node}: {found.code} {found.text}" if found else f"{node}: may resume"]
        found = refuse_claim(one.observed, self.controllers, one.kraft_epoch)
        return [f"{node}: {found.code} {found.text}" if found else f"{node}: may claim"]

    def _sends(self, node: int, one: Controller, verb: str, *, lost: bool) -> list[str]:
        """lost: the multi arrives, its answer does not; what is read afterwards has to tell."""
        multi, planned = self._plan(node, one, verb)
        outcome = self.zookeeper.apply(multi, one.session.session_id)
        if lost:
            known = planned is not None and recognise(read_claim(one.session), planned)
            one.claim = planned if known else one.claim
            word = "recognised as its own" if known else "not recognised"
            return [f"{node}: answer lost; what stands is {word}", *self.znodes()]
        if not outcome.applied:
            return [f"{node}: {_refused(multi, outcome)}"]
        one.claim = planned
        return [f"{node}: applied", *self.znodes()]

    def _plan(self, node: int, one: Controller, verb: str) -> tuple[Multi, Claim | None]:
        match verb:
            case "displaces":
                return plan_displace(one.observed, node=node, kraft_epoch=one.kraft_epoch, now_ms=0)
            case "claims":
                first = self.log is not MigrationState.MIGRATION
                at = NOWHERE if first else Position(one.kraft_epoch, self.end)
                return plan_claim(
                    one.observed, node=node, kraft_epoch=one.kraft_epoch, now_ms=0, ephemeral=first, at=at
                )
            case "aborts" if one.claim is None:
                found = way_back(one.observed, self.controllers, one.kraft_epoch)[0]
                assert found is not None, "nothing of this quorum stands"
                return found, None
            case _:
                assert one.claim is not None, f"{node} holds no claim"
        if verb == "raises":
            return plan_raise(one.claim)
        if verb == "persists":
            return plan_persist(one.claim, Position(one.kraft_epoch, self.end), now_ms=0)
        if verb == "mirrors":
            return _mirrored(one.claim)
        if verb == "aborts":
            return plan_abort(one.claim), None
        if verb == "rolls-back":
            return plan_rollback(one.claim, one.claim.zk_epoch), None
        raise ValueError("not a command to a controller")

    # --- ZooKeeper -----------------------------------------------------------------------------------------

    def _apply(self, session: FakeSession, multi: Multi) -> str:
        outcome = self.zookeeper.apply(multi, session.session_id)
        return "applied" if outcome.applied else _refused(multi, outcome)

    def znodes(self) -> list[str]:
        found = read_claim(self.zookeeper.session())
        held, migration = found.controller, found.migration
        lines = ["no /controller"]
        if held is not None:
            kind = "ephemeral" if found.controller_owner else "persistent"
            world = f"KRaft epoch {held.kraft_epoch}" if held.kraft_epoch > 0 else "ZooKeeper mode"
            lines = [f"/controller {held.brokerid} ({world}, {kind})"]
        lines.append(f"/controller_epoch {found.epoch}")
        if migration is not None:
            by = migration.kraft_controller_id
            lines.append(f"/migration by {by if by >= 0 else 'nobody'}, mirrored to {migration.kraft_metadata_offset}")
        return ["  " + "   ".join(lines)]


def _refused(multi: Multi, outcome: MultiOutcome) -> str:
    return f"refused, {ERROR_NAMES[outcome.error]} at {multi.operations[outcome.failed_at].path}"


def _mirrored(claim: Claim) -> tuple[Multi, Claim]:
    """The frame of a dual-write: the claim is checked, and the version of `/migration` counts the write."""
    said = migration_data(MigrationZnode(claim.node, claim.kraft_epoch, claim.at.offset, claim.at.epoch))
    multi = Multi(
        (
            Check(paths.CONTROLLER_EPOCH, claim.epoch_version),
            SetData(paths.MIGRATION, said, claim.migration_version),
            SetData(TOPIC, b"by the quorum"),
        )
    )
    return multi, replace(claim, migration_version=claim.migration_version + 1)


def migration(words: list[str]) -> tuple[Stage, list[str]]:
    """controllers=A,B,C broker=N, and if wanted phase=NAME (READY otherwise): that broker is the controller."""
    given = dict(word.split("=", 1) for word in words)
    stage = MigrationStage(list(map(int, given["controllers"].split(","))), Phase(given.get("phase", "READY")))
    return stage, stage.do(["broker", given["broker"], "elected"])
