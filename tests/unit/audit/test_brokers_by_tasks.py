"""The same brokers asked from one process, by one task and by two: the same word of each fault. No Spark is started
here: each step is pickled as Spark does it (tests/e2e/test_third_side.py has real tasks, and real brokers).
"""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from api.commands.audits import print_brokers
from migrator.audit.brokers.answers import BrokerReading
from migrator.audit.brokers.compare import compare_broker
from migrator.audit.brokers.lagging import ReadUpTo, lag_of
from migrator.audit.brokers.tasks import SLOT, TOLD, KeptRow, KeptStep
from migrator.audit.brokers.told import side_of, tell
from migrator.audit.compare import DIFFERENCES_SHOWN, MOVED_ON, BrokersSide, Difference
from migrator.audit.fingerprints import PREFIX, SecretFingerprints
from migrator.audit.log_states import LogStates
from migrator.audit.normalise import PARTITIONS, TOPIC_CONFIGS, LogFacts
from migrator.audit.security_facts import ACLS
from migrator.findings.audit import AUDIT_CANNOT_READ
from migrator.findings.finding import FindingError
from migrator.model.jaas import KerberosLogin
from migrator.model.values import SecurityProtocol
from migrator.node.brokers.sent_access import AccessOfFile
from migrator.node.brokers.what_they_say import WhomToAsk
from migrator.node.tools import asking_by_tasks
from migrator.node.tools import third_side as module
from migrator.node.tools.asking_by_tasks import LookedAt
from migrator.node.tools.third_side import BrokersAsked, LagAsked, third_side
from migrator.node.transport.client_security import PLAINTEXT
from migrator.node.transport.security import ListenerSecurity, SaslSettings
from migrator.wire.messages.metadata import ConfigRecord
from migrator.wire.schema import Message
from tests.unit.audit.test_brokers_side import ACL, FAULTS, Spoil, a_log, add, drop, put, says
from tests.unit.audit.test_lagging import LATER, READ, states_behind

Facts = dict[int, dict[str, dict[str, Any]]]
NO_TIME: Final = (0.0, 0.0, 0.0)


@dataclass
class TasksHere:
    """Runs steps as Spark does: every task gets a copy of the step, and the rows that it left."""

    at_once: int
    master: str = "local[2]"
    remote: bool = False
    rows: list[list[KeptRow]] = field(default_factory=list)
    told: list[KeptRow] = field(default_factory=list)
    steps: int = 0

    def keep(self, tasks: int) -> TasksHere:
        self.rows = [[KeptRow(each, SLOT, b"")] for each in range(tasks)]
        return self

    def run(self, step: KeptStep) -> list[KeptRow]:
        self.steps += 1
        self.rows = [list(pickle.loads(pickle.dumps(step))(iter(each))) for each in self.rows]
        self.told = [row for each in self.rows for row in each if row.nth == TOLD]
        return self.told


@dataclass
class Estate:
    """Brokers whose answers are played, look by look; the last one goes on. silent: who never answers."""

    looks: Sequence[Facts]
    silent: dict[int, str] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)
    look: int = -1

    def reading(self, broker: int) -> BrokerReading | str:
        if broker in self.silent:
            return self.silent[broker]
        facts = copy.deepcopy(self.looks[min(self.look, len(self.looks) - 1)][broker])
        for family in self.problems:
            facts.pop(family, None)
        return BrokerReading(broker, kraft=True, facts=facts, problems=dict(self.problems))

    def everybody(self, only: Any, without: Any) -> list[int]:
        self.look += 1
        wanted = {*self.looks[0], *self.silent} if only is None else set(only)
        return sorted(wanted - set(without))

    async def whom(self, addresses: Any, log: Any, security: Any, *, only: Any, without: Any) -> WhomToAsk:
        return WhomToAsk({each: ("k", each) for each in self.everybody(only, without)}, {})

    async def one(self, broker: int, *given: Any) -> BrokerReading | str:
        return self.reading(broker)

    async def all(
        self, addresses: Any, log: Any, security: Any, take: Any, *, only: Any, without: Any, limit_s: float
    ) -> dict[int, str]:
        silent = {}
        for each in self.everybody(only, without):
            found = self.reading(each)
            if isinstance(found, str):
                silent[each] = found
            else:
                take(found)
        return silent


@dataclass(frozen=True)
class Audit:
    """What all engines are given. later: records behind what brokers have read, by this lag."""

    looks: Sequence[Facts]
    two_sides: Sequence[Difference] = ()
    silent: dict[int, str] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)
    later: tuple[Message, ...] = ()
    lag: tuple[int, int] = (7, 4_000)
    log: Callable[[], LogFacts] = a_log

    def by(self, tasks: TasksHere | None, monkeypatch: pytest.MonkeyPatch) -> BrokersSide:
        estate = Estate(self.looks, self.silent, self.problems)
        monkeypatch.setattr(module, "read_brokers", estate.all)
        monkeypatch.setattr(asking_by_tasks, "whom_to_ask", estate.whom)
        monkeypatch.setattr(asking_by_tasks, "read_broker", estate.one)
        read, lag = self.log, None
        if self.later:
            behind = states_behind(*self.later)
            lag = LagAsked(lambda: dict.fromkeys(self.looks[0], ReadUpTo(READ + 1, lag_of(*self.lag))), behind)
            read = lambda: behind(READ).facts  # noqa: E731
        side = third_side(BrokersAsked("k1:9092"), read, self.two_sides, lag=lag, tasks=tasks, looks_after_s=NO_TIME)
        return without_chance(side)

    def by_all(self, monkeypatch: pytest.MonkeyPatch) -> BrokersSide:
        """What all three say."""
        quick = self.by(None, monkeypatch)
        for at_once in (1, 2):
            assert self.by(TasksHere(at_once), monkeypatch) == quick, f"{at_once} tasks"
        return quick


def without_chance(side: BrokersSide) -> BrokersSide:
    """Each audit has a key of its own for secrets, and takes its time."""
    document = msgspec.to_builtins(msgspec.structs.replace(side, seconds=0.0))
    return msgspec.convert(_with_one_key(document), BrokersSide)


def _with_one_key(value: Any) -> Any:
    match value:
        case dict():
            return {name: _with_one_key(each) for name, each in value.items()}
        case list():
            return [_with_one_key(each) for each in value]
        case str() if value.startswith(PREFIX):
            return PREFIX
        case _:
            return value


def spoiled(spoil: Spoil) -> Facts:
    facts = {1: says(1), 2: says(2), 3: says(3)}
    spoil(facts[1])
    return facts


@pytest.mark.parametrize(("spoil", "told"), FAULTS)
def test_every_fault_is_told_in_the_same_words_by_one_process_one_task_and_two(
    spoil: Spoil, told: list[tuple[str, str, str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    side = Audit([spoiled(spoil)]).by_all(monkeypatch)
    assert [(each.family, each.key, each.field_, each.kind) for each in side.differences] == told
    assert [each.broker for each in side.asked] == [1, 2, 3]
    assert {each.broker for each in side.differences} <= {1}


def test_all_faults_together_are_told_in_the_same_order(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = {broker: says(broker) for broker in range(1, 8)}
    for number, (spoil, _) in enumerate(FAULTS):
        with suppress(KeyError):  # this broker has no such key
            spoil(facts[1 + number % 7])
    side = Audit([facts]).by_all(monkeypatch)
    assert len({each.family for each in side.differences}) == 9
    assert len({each.broker for each in side.differences}) >= 6


@pytest.mark.parametrize("looks", [(3, 4, 4, 4), (1, 2, 3, 2), (3, 2, 3, 3), (3, 3, 3, 3)])
def test_who_catches_up_or_moves_is_told_from_who_differs(
    looks: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    played = [spoiled(put(PARTITIONS, "orders-0", "leader_epoch", value)) for value in looks]
    side = Audit(played).by_all(monkeypatch)
    assert side.same is (len(set(looks)) > 1)


@pytest.mark.parametrize(("zookeeper", "rule"), [(3, ""), (9, ""), (3, MOVED_ON)])
def test_who_stands_alone_is_known_where_a_broker_is_asked(
    zookeeper: int, rule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    two = Difference(PARTITIONS, "orders-0", "leader_epoch", "changed", zookeeper, 4, rule)
    other = Difference(ACLS, ACL, "", "missing in zookeeper", None, {}, "")
    side = Audit([spoiled(put(PARTITIONS, "orders-0", "leader_epoch", 3))], [two, other]).by_all(monkeypatch)
    assert side.zookeeper_alone == [f"ACLs {ACL}"]
    assert side.same is bool(rule)


def test_a_silent_broker_and_a_family_that_is_refused_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    audit = Audit([spoiled(drop(ACLS, ACL))], silent={4: "no answer in time"}, problems={ACLS: "error 31"})
    side = audit.by_all(monkeypatch)
    assert [(each.broker, each.problem, each.refused) for each in side.asked] == [
        *((each, "", "ACLs: error 31") for each in (1, 2, 3)),
        (4, "no answer in time", ""),
    ]
    assert not side.complete


def test_a_broker_that_falls_silent_between_two_looks_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = spoiled(drop(ACLS, ACL))
    tasks = TasksHere(2)
    audit = Audit([facts])
    asked = audit.by(tasks, monkeypatch)
    assert [each.outcome for each in asked.asked] == ["diverged", "passed", "passed"]

    estate = Estate([facts])
    monkeypatch.setattr(asking_by_tasks, "whom_to_ask", estate.whom)

    async def then_silent(broker: int, *given: Any) -> BrokerReading | str:
        return "connection refused" if estate.look else estate.reading(broker)

    monkeypatch.setattr(asking_by_tasks, "read_broker", then_silent)
    side = third_side(BrokersAsked("k1:9092"), a_log, tasks=TasksHere(2), looks_after_s=NO_TIME)
    assert [(each.broker, each.problem) for each in side.asked] == [(1, "connection refused"), (2, ""), (3, "")]
    assert side.differences == []


@pytest.mark.parametrize("lag", [(7, 4_000), (1_204, 35_000)], ids=["as a healthy one", "beyond"])
@pytest.mark.parametrize("later", [each for each, _ in LATER], ids=range(len(LATER)))
def test_lag_is_told_from_a_difference_in_tasks(
    later: Message, lag: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = {1: says(1), 2: says(2), 3: says(3)}
    side = Audit([facts], later=(later,), lag=lag).by_all(monkeypatch)
    assert any(each.lagging for each in side.asked)
    if lag[1] > 10_000:
        assert all(each.lags for each in side.differences if each.family != "logs")


def test_only_what_differs_is_asked_and_judged_again(monkeypatch: pytest.MonkeyPatch) -> None:
    quiet, loud = TasksHere(2), TasksHere(2)
    facts = {1: says(1), 2: says(2), 3: says(3)}
    assert Audit([facts]).by(quiet, monkeypatch).same
    assert quiet.steps == 1
    record = ConfigRecord(2, "orders", "retention.ms", "2000")
    Audit([facts], later=(record,)).by(loud, monkeypatch)
    assert loud.steps == 1 + len(NO_TIME) + 1, "all looks, and one that judges lag"


def test_of_brokers_that_differ_in_everything_the_driver_holds_what_a_report_carries(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Rows of the others stay with the tasks."""
    many = 3 * DIFFERENCES_SHOWN

    def spoil(facts: dict[str, dict[str, Any]]) -> None:
        for number in range(many):
            add(TOPIC_CONFIGS, f"planted-{number:05}", {"retention.ms": str(number)})(facts)

    facts = {1: says(1), 2: says(2)}
    for each in facts.values():
        spoil(each)
    audit = Audit([facts])
    assert audit.by_all(monkeypatch).left_off == 2 * many - DIFFERENCES_SHOWN
    tasks = TasksHere(2)
    audit.by(tasks, monkeypatch)
    for row in tasks.told:
        looked: LookedAt = pickle.loads(row.data)
        assert looked.told is not None
        assert (len(looked.told.differences), looked.told.left_off) == (DIFFERENCES_SHOWN, many - DIFFERENCES_SHOWN)
    kept = [row for rows in tasks.rows for row in rows if row.nth > TOLD]
    assert sum(map(len, (row.data for row in kept))) > sum(len(row.data) for row in tasks.told)


def test_nothing_is_told_behind_what_a_broker_left_off() -> None:
    """A report carries the first differences of all brokers, and says how many follow: none of them is skipped."""
    told = []
    for broker in (1, 2):
        facts = says(broker)
        for number in range(4):
            add(TOPIC_CONFIGS, f"planted-{number}", {"retention.ms": "1"})(facts)
        told.append(tell(compare_broker(BrokerReading(broker, True, facts), a_log(), SecretFingerprints()), []))
    cut = msgspec.structs.replace(told[0], differences=told[0].differences[:2], left_off=2)
    side = side_of([cut, told[1]], {}, (), [], 0.0)
    assert [(each.key, each.broker) for each in side.differences] == [
        *(("planted-0", 1), ("planted-0", 2)),
        ("planted-1", 1),
    ]
    assert side.left_off == 5


def test_no_broker_that_answers_is_the_same_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(FindingError) as here:
        third_side(BrokersAsked("127.0.0.1:1"), a_log)
    with pytest.raises(FindingError) as by_tasks:
        third_side(BrokersAsked("127.0.0.1:1"), a_log, tasks=TasksHere(2))
    assert str(here.value) == str(by_tasks.value)
    assert here.value.code == AUDIT_CANNOT_READ.code


def test_states_and_facts_of_a_log_arrive_in_a_task() -> None:
    states: LogStates = pickle.loads(pickle.dumps(states_behind(LATER[0][0])(READ)))
    assert states.of((TOPIC_CONFIGS, "orders")) == states_behind(LATER[0][0])(READ).of((TOPIC_CONFIGS, "orders"))
    assert pickle.loads(pickle.dumps(a_log())).topics() == ["orders"]


def test_a_kerberos_login_keeps_the_question_here_and_the_report_says_why(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On other hosts. On this one, tasks log in by the file of the controller themselves."""
    audit = Audit([spoiled(drop(ACLS, ACL))])
    quick = audit.by(None, monkeypatch)
    kerberos = KerberosLogin("us@EXAMPLE", keytab="/k", service="kafka")
    sasl = SaslSettings((), "GSSAPI", {}, kerberos=kerberos)
    access = ListenerSecurity("c.properties", "INSIDE", SecurityProtocol.SASL_PLAINTEXT, sasl=sasl)
    asked = BrokersAsked("k1:9092", access=access, file=Path("c.properties"))
    remote, local = (
        TasksHere(2, master, remote=master != "local[2]") for master in ("spark://cluster:7077", "local[2]")
    )
    side = without_chance(third_side(asked, a_log, tasks=remote, looks_after_s=NO_TIME))
    assert remote.steps == 0
    assert side.asked_here.startswith("Z2K-5017 The Kerberos login of us@EXAMPLE for brokers cannot go to ")
    assert msgspec.structs.replace(side, asked_here="") == quick
    print_brokers(side)
    assert side.asked_here in capsys.readouterr().out
    monkeypatch.setattr(AccessOfFile, "here", lambda _: PLAINTEXT)
    Audit([spoiled(drop(ACLS, ACL))]).by(local, monkeypatch)
    assert without_chance(third_side(asked, a_log, tasks=local, looks_after_s=NO_TIME)) == quick


def test_a_login_that_a_task_cannot_use_is_told_of_each_of_its_brokers(monkeypatch: pytest.MonkeyPatch) -> None:
    """As an expired token, or a file that is gone meanwhile."""
    audit = Audit([{1: says(1), 2: says(2)}])
    audit.by(None, monkeypatch)  # it plays brokers
    access = ListenerSecurity("gone.properties", "INSIDE", SecurityProtocol.SASL_PLAINTEXT)
    asked = BrokersAsked("k1:9092", access=access, file=Path("gone.properties"))
    side = third_side(asked, a_log, tasks=TasksHere(1), looks_after_s=NO_TIME)
    assert [each.broker for each in side.asked] == [1, 2]
    assert all("gone.properties" in each.problem for each in side.asked)
    assert not side.complete
