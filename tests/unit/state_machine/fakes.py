"""Fakes at the edge of the service: a controller behind its control port, ZooKeeper, processes, our commands.

`FakeController` answers the routes and has the status keys of the real one; `tests/e2e/test_service.py` compares the
keys, `test_fakes.py` the routes and the token.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import httpx
import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from migrator.audit.history.kept_runs import REPORT_FILE
from migrator.control_api.control_file import CONTROL_FILE
from migrator.findings.driver import ZOOKEEPER_FALLS_BEHIND
from migrator.findings.finding import Occurrence
from migrator.model.image import EMPTY, METADATA_VERSION
from migrator.model.verdict import Condition, Verdict
from state_machine.children.commands import Result
from state_machine.children.processes import Launched
from state_machine.clusters.inventory import ControllerEntry
from state_machine.clusters.log_observer import NOT_KNOWN, LogObservation, VoterLevels
from state_machine.clusters.observe import ZooKeeperObservation
from state_machine.policy.gates import Holder

OPEN = Verdict((Condition("everything holds", True, "seen"),))
BEFORE_COMMIT = ("TAKING_OVER", "COPYING", "AUDITING")
WINDOW = (*BEFORE_COMMIT, "COMMITTING", "SYNCING", "UPDATING_BROKERS")


def diverged(level: str, records: int | None = None, behind_ms: int = 0, blocking_ms: int = 0) -> dict[str, Any]:
    """How far ZooKeeper is behind, in the words of a controller's status."""
    found = None
    if level != "WITHIN":
        values = {"records": records, "seconds": behind_ms // 1000, "max_records": 100, "max_seconds": 10}
        found = ZOOKEEPER_FALLS_BEHIND.found(**values).as_json()
    figures = {"lag_records": records, "behind_ms": behind_ms, "blocking_ms": blocking_ms}
    return {**figures, "divergence": level, "finding": found}


@dataclass
class FakeController:
    """One controller of ours, as its control port shows it. Moves are made by the test.

    deaf:   its process runs and does not answer.
    leads:  only a leader's driver moves. leader: whom a follower follows.
    stands: it is elected once somebody has looked at it, as a process that was just started.
    operations: what the driver keeps and has not begun, with the time; an older one does not tell, nor takes any back.
    """

    entry: ControllerEntry
    clock: Callable[[], float]
    alive: bool = False
    deaf: bool = False
    leads: bool = False
    leader: int | None = None
    stands: bool = False
    run: str = "run-1"
    state: str = "IDLE"
    reason: str = "this node does not lead"
    history: list[dict[str, Any]] = field(default_factory=list)
    gate: Verdict | None = None
    finding: dict[str, Any] | None = None
    audit: dict[str, Any] | None = None
    lagging: tuple[int, int, float] = (0, 0, 0.0)
    only_kraft: list[str] | None = field(default_factory=list)
    divergence: dict[str, Any] = field(default_factory=lambda: diverged("WITHIN"))
    asked: list[str] = field(default_factory=list)
    alarms: list[dict[str, Any]] = field(default_factory=list)
    since_ms: int = 10
    operations: dict[str, float] = field(default_factory=dict)
    tells_operations: bool = True
    refuses: bool = False
    denials: list[dict[str, Any]] = field(default_factory=list)
    brokers: tuple[int, ...] = (0, 1, 2)
    kraft: tuple[int, ...] = ()
    """Those of them that are in KRaft mode."""
    migration: str = "PRE_MIGRATION"
    pid: int = 4711
    on_ask: Callable[[str], None] = lambda operation: None
    token: str = "secret"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{10_000 + self.entry.node_id}"

    def start(self, run: str | None = None) -> None:
        """A new process: a new run, an empty history, a new control file; it does not lead yet."""
        self.leads = self.stands = False
        self.operations.clear()
        self.alive, self.run, self.history = True, run or f"run-{int(self.run[4:]) + bool(self.history)}", []
        self.state, self.reason, self.gate, self.audit = "IDLE", "this node does not lead", None, None
        Path(self.entry.data).mkdir(parents=True, exist_ok=True)
        document = {"url": self.url, "token": self.token, "pid": self.pid}
        (Path(self.entry.data) / CONTROL_FILE).write_text(json.dumps(document))

    def kill(self) -> None:
        """As kill -9 leaves it: the control file stays."""
        self.alive = False

    def stop(self) -> None:
        self.alive = False
        (Path(self.entry.data) / CONTROL_FILE).unlink(missing_ok=True)

    def elect(self) -> None:
        """It leads; what its driver does then depends on its log. With a log in migration the test makes the moves."""
        self.stands = False
        if self.migration == "PRE_MIGRATION":
            self.move("WAIT_QUORUM", "WAIT_BROKERS")

    def follow(self, leader: int | None) -> None:
        self.leads, self.leader = False, leader
        self.operations.clear()
        self.state, self.reason = "IDLE", "this node does not lead"

    def move(self, *states: str, reason: str = "") -> None:
        for state in states:
            self.leads = state not in ("IDLE", "RETIRED")
            for operation in [each for each in self.operations if state in ENDS[each]]:
                del self.operations[operation]
            before, self.state, self.reason = self.state, state, reason or f"entered {state}"
            number = self.history[-1]["number"] + 1 if self.history else 1
            self.history.append(
                {"number": number, "at": self.clock(), "from": before, "to": state, "reason": self.reason}
            )

    def keep(self, operation: str) -> bool:
        """Whether the driver keeps it, in the state that it is in."""
        looks_at_state = self.tells_operations or operation == "abort"
        if self.refuses or (looks_at_state and self.state not in KEEPS[operation]):
            return False
        if operation != "abort":  # which ends the act of the state at once
            self.operations[operation] = self.clock()
        return True

    def _let_go(self) -> None:
        """A takeover is kept for a minute, whatever the gate says meanwhile."""
        if self.clock() - self.operations.get("takeover", self.clock()) >= 60:
            del self.operations["takeover"]

    def status(self) -> dict[str, Any]:
        if self.tells_operations:
            self._let_go()
        told = {"operations": list(self.operations)} if self.tells_operations else {}
        return {
            "node": self.entry.node_id,
            "run": self.run,
            "cluster_id": "cluster",
            "quorum": {
                "leader": self.entry.node_id if self.leads else self.leader,
                "epoch": 1,
                "voters": [self.entry.node_id],
                "role": "leader" if self.leads else "follower",
                "high_watermark": 10,
                "log_start": 0,
                "log_end": 10,
                "snapshot": 0,
                "fetches_waiting": 0,
                "flush_waiting_ms": 0,
                "observers": {str(broker): 10 for broker in self.brokers},
            },
            "loop_delay_ms": 1.0,
            "loop_work_ms": 1.0,
            "connections": {"open": 4, "most": 1000, "without_place": 0},
            "denials": self.denials,
            "findings": [],
            "partitions": {
                "offset": 9,
                "epoch": 1,
                "behind_ms": 0,
                "partitions": 3,
                "reassignments": 0,
                "under_replicated": 0,
                "under_min_isr": 0,
                "leaderless": 0,
            },
            "driver": {
                "state": self.state,
                "reason": self.reason,
                "since_ms": self.since_ms,
                "without_controller_ms": 30 if self.state in WINDOW else None,
                "window_ms": 80 if self.state == "DUAL_WRITE" else None,
                "can_abort": self.state in BEFORE_COMMIT,
                "can_roll_back": self.state == "DUAL_WRITE",
                "aborted": self.state == "ABORTED",
                "finding": self.finding,
                "trouble": None,
                "alarms": self.alarms,
                "replacing": None,
                "history": self.history[-50:],
                **told,
            },
            "log": {
                "migration": self.migration,
                "offset": 9,
                "epoch": 1,
                "metadata_version": 21,
                "topics": 3,
                "next_producer_id": 4000,
            },
            "claim": None,
            "dual_write": {
                "offset": 9,
                "multis_waiting": 0,
                "lag_ms": None,
                **self.divergence,
                "reconciled_writes": None,
                "lagging_partitions": self.lagging[0],
                "lagging_operations": self.lagging[1],
                "lagging_s": self.lagging[2],
                "unmirrored": [],
                "unmirrored_count": 0,
                "orders": [],
                "orders_count": 0,
                "only_kraft": self.only_kraft,
            },
            "gate": None if self.gate is None else self.gate.as_json(),
            "export": None,
            "audit": self.audit,
            "brokers": [self._broker(broker) for broker in self.brokers],
            "registrations_refused": [],
        }

    def _broker(self, broker: int) -> dict[str, Any]:
        return {
            "id": broker,
            "mode": "KRaft" if broker in self.kraft else "ZooKeeper",
            "epoch": 5,
            "fenced": False,
            "in_controlled_shutdown": False,
            "heartbeat_age_ms": 500,
            "metadata_version": [21, 21],
            "listeners": ["PLAINTEXT://127.0.0.1:9092"],
            "log_dirs": 1,
            "incarnation": "AAAAAAAAAAAAAAAAAAAAAA",
            "rack": None,
            "under_replicated": 0,
            "under_min_isr": 0,
            "offline_dirs": 0,
            "unassigned_dirs": 0,
            "updated": self.state == "DUAL_WRITE",
            "not_updated": None,
            "requests_waiting": 0,
            "problem": None,
        }

    # --- the control port ----------------------------------------------------------------------------------

    def app(self) -> Starlette:
        async def status(request: Request) -> Response:
            refused = self._authorized(request)
            answer = refused or JSONResponse(self.status())
            if refused is None and self.stands:
                self.elect()
            return answer

        async def ask(request: Request) -> Response:
            refused = self._authorized(request)
            if refused is not None:
                return refused
            operation = request.url.path.rpartition("/")[2]
            self.asked.append(operation)
            if not self.keep(operation):
                return JSONResponse({"detail": f"there is no {operation} possible in {self.state}"}, 409)
            self.on_ask(operation)
            return JSONResponse({"accepted": operation}, 202)

        async def withdraw(request: Request) -> Response:
            refused = self._authorized(request)
            if refused is not None or not self.tells_operations:
                return refused or JSONResponse({"detail": "Not Found"}, 404)
            return JSONResponse({"cancelled": self.operations.pop("takeover", None) is not None})

        routes = [Route("/v1/status", status, methods=["GET"]), Route(WITHDRAW, withdraw, methods=["POST"])]
        return Starlette(routes=[*routes, *(Route(f"/v1/{w}", ask, methods=["POST"]) for w in OPERATIONS)])

    def _authorized(self, request: Request) -> Response | None:
        if request.headers.get("authorization") == f"Bearer {self.token}":
            return None
        return JSONResponse({"detail": "the token of this controller's control file is needed"}, 401)


OPERATIONS = ("takeover", "abort", "rollback")
WITHDRAW = "/v1/cancel"
KEEPS = {
    "takeover": ("WAIT_QUORUM", "WAIT_BROKERS", "ABORTED"),
    "abort": BEFORE_COMMIT,
    "rollback": ("COMMITTING", "RESUMING", "SYNCING", "UPDATING_BROKERS", "DUAL_WRITE"),
}
"""States in which the driver keeps an operation."""
ENDS = {
    "takeover": ("TAKING_OVER", "ABORTING", "IDLE", "FENCED", "RETIRED"),
    "rollback": ("ROLLING_BACK", "ROLLING_BACK_EARLY", "ABORTING", "IDLE", "FENCED", "RETIRED"),
}
"""States in which it has begun it, or lets go of it."""


class FakeNetwork(httpx.AsyncBaseTransport):
    """Carries requests to the fake whose address they name; a dead one refuses the connection."""

    def __init__(self, controllers: list[FakeController]) -> None:
        self._ways = {10_000 + each.entry.node_id: each for each in controllers}

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        controller = self._ways[request.url.port or 80]
        if not controller.alive:
            raise httpx.ConnectError("refused", request=request)
        if controller.deaf:
            raise httpx.ReadTimeout("no answer", request=request)
        return await httpx.ASGITransport(controller.app()).handle_async_request(request)


@dataclass
class FakeZooKeeper:
    """What the claim looks like."""

    observed: ZooKeeperObservation = field(default_factory=ZooKeeperObservation)

    def broker_rules(self, broker: int = 0, migration_offset: int | None = None) -> None:
        self.observed = ZooKeeperObservation(
            Holder.ZOOKEEPER_BROKER,
            holder_id=broker,
            holder_since_ms=1_000,
            controller_epoch=3,
            migration_offset=migration_offset,
            brokers=(0, 1, 2),
        )

    def ours_rules(self, node: int = 3000) -> None:
        self.observed = ZooKeeperObservation(
            Holder.OURS,
            holder_id=node,
            holder_since_ms=2_000,
            kraft_epoch=1,
            controller_epoch=4,
            migration_offset=9,
            brokers=(0, 1, 2),
        )

    def nobody_rules(self) -> None:
        self.observed = ZooKeeperObservation(Holder.NOBODY, controller_epoch=3, brokers=(0, 1, 2))

    async def look(self, ours: tuple[int, ...]) -> ZooKeeperObservation:
        return self.observed

    async def close(self) -> None:
        return None


@dataclass
class FakeLauncher:
    """Starts fakes, which are not led at the first look. ends_at_once: every start ends before it answers."""

    controllers: dict[int, FakeController]
    launched: list[int] = field(default_factory=list)
    stopped: list[int] = field(default_factory=list)
    ends_at_once: bool = False
    answers: bool = True
    said: str = "Z2K-3012 /data cannot be used: no meta.properties in it."

    def launch(self, migration: str, entry: ControllerEntry) -> Launched:
        controller = self.controllers[entry.node_id]
        self.launched.append(entry.node_id)
        controller.pid = 4711 + len(self.launched)
        if not self.ends_at_once and self.answers:
            controller.start()
            controller.stands = len(self.controllers) == 1
        return Launched(controller.pid, "mark", f"/logs/{entry.node_id}.log")

    def runs(self, pid: int, mark: str) -> bool:
        if not self.answers:
            return True
        return any(each.alive and each.pid == pid for each in self.controllers.values())

    def ask_to_stop(self, pid: int, entry: ControllerEntry) -> bool:
        self.stopped.append(pid)
        for each in self.controllers.values():
            if each.pid == pid:
                each.stop()
        return True

    def words(self, log: str) -> str:
        return self.said


def denied(now: float) -> dict[str, Any]:
    """What a controller says of a peer that its authorizer does not let in."""
    return {
        "principal": "User:c",
        "operation": "ClusterAction",
        "requests": ["VoteRequest"],
        "host": "10.0.0.7",
        "count": 5490,
        "since": now - 61,
        "last": now - 0.5,
    }


PASSED_CHECK = {"exit": 0, "topics": 3, "partitions": 12, "brokers": [0, 1, 2], "findings": []}
FAMILIES = [
    {"family": "topics", "compared": 3, "equal": 3, "expected": 0, "different": 0, "not_read": 0},
    {"family": "producer ids", "compared": 1, "equal": 0, "expected": 1, "different": 0, "not_read": 0},
]
PASSED_AUDIT: dict[str, Any] = {
    "same": True,
    "families": FAMILIES,
    "differences": [],
    "expected": [],
    "seconds": {"total": 0.1},
    "zk": {},
    "kraft": {"offset": 9, "epoch": 1},
    "engine": "quick",
}
BROKERS_SAY_SO: dict[str, Any] = {
    "asked": [{"broker": each, "mode": "ZooKeeper", "compared": 3} for each in range(3)],
    "families": [{**FAMILIES[0], "compared": 9, "equal": 9}],
    "differences": [],
    "seconds": 0.1,
}
REHEARSED = {"topics": 3, "partitions": 12, "znodes": 48, "records": 20, "total_seconds": 0.1}


def a_difference(key: str = "orders-0", rule: str = "") -> dict[str, Any]:
    return {
        "family": "partitions",
        "key": key,
        "field": "isr",
        "kind": "changed",
        "zookeeper": [1],
        "log": [1, 2],
        "rule": rule,
    }


def brokers_differ(broker: int = 2, *silent: int) -> dict[str, Any]:
    """One broker has an older epoch; `silent` ones gave no answer. broker: -1: none differs."""
    found = {"broker": broker, "family": "partitions", "key": "orders-0", "field": "leader_epoch", "kind": "changed"}
    found |= {"on_broker": 3, "log": 4, "alone": "broker", "reason": ""}
    differ = int(broker >= 0)
    asked = [
        {"broker": each, "mode": "", "problem": "refused"}
        if each in silent
        else {"broker": each, "mode": "ZooKeeper", "compared": 3, "different": int(each == broker)}
        for each in range(3)
    ]
    families = [{**FAMILIES[0], "compared": 9, "equal": 9 - differ, "different": differ}]
    side = {**BROKERS_SAY_SO, "asked": asked, "families": families, "differences": [found] * differ}
    return {**PASSED_AUDIT, "same": False, "brokers": side}


def red_audit(*keys: str) -> dict[str, Any]:
    families = [{**FAMILIES[0], "equal": 3 - len(keys), "different": len(keys)}]
    return {**PASSED_AUDIT, "same": False, "families": families, "differences": [a_difference(key) for key in keys]}


def check_that_found(*found: Occurrence) -> Result:
    return Result(2, {**PASSED_CHECK, "exit": 2, "findings": [each.as_json() for each in found]}, "")


@dataclass
class FakeRunner:
    """Our commands; `results` is what each answers next."""

    results: dict[str, Result] = field(
        default_factory=lambda: {
            "check": Result(0, PASSED_CHECK, ""),
            "rehearse": Result(0, REHEARSED, ""),
            "audit": Result(0, PASSED_AUDIT, ""),
        }
    )
    runs: list[tuple[str, ...]] = field(default_factory=list)

    async def run(self, *arguments: str, limit_s: float) -> Result:
        self.runs.append(arguments)
        result = self.results[arguments[0]]
        if "--brokers" in arguments and isinstance(result.document, dict):
            result = replace(result, document={"brokers": BROKERS_SAY_SO, **result.document})
        if arguments[0] == "audit" and isinstance(result.document, dict):
            out = Path(arguments[arguments.index("--out") + 1])
            (out / REPORT_FILE).write_bytes(msgspec.json.encode(result.document))
        return result

    def count(self, command: str) -> int:
        return sum(run[0] == command for run in self.runs)


class FakeLog:
    """A metadata log as the service observes it: what a test puts there."""

    def __init__(self) -> None:
        self.observed = LogObservation(problem="no log in this test")
        self.image = EMPTY
        self.asked_to_lead: list[int] = []
        self.levels: dict[int, VoterLevels | str] = {}
        self.raised: list[int | str] = []
        self.refuses = ""
        self.min_isr: Mapping[int, int] = NOT_KNOWN

    async def ask_to_lead(self, node: int, observed: LogObservation) -> None:
        """It does, at once."""
        self.asked_to_lead.append(node)
        self.observed = msgspec.structs.replace(self.observed, leader=node, epoch=self.observed.epoch + 1)

    async def levels_of(self, node: int) -> VoterLevels:
        found = self.levels[node]
        if isinstance(found, str):
            raise OSError(found)
        return found

    async def raise_feature(self, feature: str, level: int, observed: LogObservation) -> None:
        """Done by the leader; `refuses` says why not."""
        self.raised.append(level if feature == METADATA_VERSION else f"{feature}={level}")
        if self.refuses:
            raise OSError(self.refuses)

        def raised(known: VoterLevels) -> VoterLevels:
            if feature == METADATA_VERSION:
                return msgspec.structs.replace(known, finalized=level)
            return msgspec.structs.replace(known, features={**known.features, feature: level})

        self.levels = {node: each if isinstance(each, str) else raised(each) for node, each in self.levels.items()}

    async def look(self, now: float, min_isr: Mapping[int, int] = NOT_KNOWN) -> LogObservation:
        self.min_isr = min_isr
        return msgspec.structs.replace(self.observed, at=now)

    def close(self) -> None:
        return None


class FakePartitions:
    """ZooKeeper's partitions before the takeover: the log that a test made has their counts."""

    def __init__(self) -> None:
        self.problem = ""
        self.closed = False

    def joined(
        self, log: LogObservation, live: tuple[int, ...], now: float, min_isr: Mapping[int, int] = NOT_KNOWN
    ) -> LogObservation:
        return msgspec.structs.replace(log, problem=self.problem or log.problem)

    async def close(self) -> None:
        self.closed = True
