"""The report for a change board, from a database that is seeded: before, in the middle, after, and rolled back."""

from __future__ import annotations

import asyncio
import re
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from api.change.text import change_lines
from api.change.views import as_html, as_json, style, takes
from api.standalone import plain, style_hash
from state_machine.change.document import SCHEMA, ChangeReport
from state_machine.change.facts import read_facts
from state_machine.change.plan import restarts_of
from state_machine.change.report import change_report
from state_machine.change.way_back_times import time_back
from state_machine.nodes.restart_evidence import restart_documents
from state_machine.policy.phases import Phase
from tests.support.seeded_change import SECRET, SeededChange, Stage, seeded_change
from tests.unit.api.test_pages import text_of
from tests.unit.state_machine.rolling.test_rolling import Rolling

HOSTILE = '<script src="//x.example/a.js"></script>\u202e"><img src=x onerror=alert(1)> {{ 7*7 }}'


def report_of(seeded: SeededChange) -> ChangeReport:
    return change_report(read_facts(seeded.store, seeded.settings, seeded.id, seeded.now))


def report(directory: Path, stage: Stage, **given: Any) -> ChangeReport:
    seeded = seeded_change(directory, stage, **given)
    try:
        return report_of(seeded)
    finally:
        seeded.store.close()


def test_before_the_change_the_board_sees_each_restart_in_its_order_and_what_it_costs_to_go_back(
    tmp_path: Path,
) -> None:
    found = report(tmp_path, Stage.PLANNED)
    assert found.state == "planned"
    planned = [(each.phase, each.node, each.host, each.file) for each in found.restarts]
    assert planned[:3] == [  # by rack, then id
        (Phase.BROKERS_JOINING, 3, "b3", "migration"),
        (Phase.BROKERS_JOINING, 1, "b1", "migration"),
        (Phase.BROKERS_JOINING, 2, "b2", "migration"),
    ]
    assert [each.file for each in found.restarts] == ["migration"] * 3 + ["kraft"] * 3 + ["stock"] * 3 + [""] * 3 + [
        "finalized"
    ] * 3
    assert [each.number for each in found.restarts] == list(range(1, 16))
    (host,) = (each for each in found.hosts if each.host == "c2")
    assert [node.restarts for node in host.nodes] == [(8, 11, 14)]
    assert next((each.phase, each.state) for each in found.legs if each.phase) == (Phase.BROKERS_JOINING, "now")
    assert [each.what for each in found.legs if each.irreversible][-1] == "metadata.version to 4.4-IV2 (33)"
    assert not any(each.measured for each in found.durations)
    assert all("assumed" in each.source or "settings" in each.source for each in found.durations)
    assert 86_400 < found.total.low_s < found.total.high_s
    assert found.back.now.command == "zk2kraft rollback"
    assert not found.back.irreversible
    assert "FINALIZING" in found.back.last_moment
    assert [each.phase for each in found.back.phases if not each.possible] == [Phase.FINALIZING, Phase.COMPLETED]
    assert [(each.owner, each.holds) for each in found.waivers] == [("Grace", True), ("Grace", False)]


def test_before_the_change_the_board_sees_how_long_going_back_takes_from_each_phase(tmp_path: Path) -> None:
    """Three brokers, three controllers, `settle_s` 60 s; a broker at least 12 s, a controller at least 6 s."""
    found = report(tmp_path, Stage.PLANNED)
    takes = {each.phase: each.takes for each in found.back.phases}
    assert [phase for phase, each in takes.items() if each is None] == [Phase.FINALIZING, Phase.COMPLETED]
    counted = {phase: (each.restarts, each.low_s, each.high_s) for phase, each in takes.items() if each is not None}
    assert counted[Phase.READY] == (0, 1.0, 10.0)
    assert counted[Phase.COPY] == (0, 0.0, 60.0)
    assert counted[Phase.DUAL_WRITE] == (0, 0.1, 30.0)
    broker, controller = 60 + 900 + 300 + 7_200, 60 + 900 + 300  # settle_s, stop, start, in_sync
    assert counted[Phase.ROLLING_BROKERS] == (6, 0.1 + 3 * 72, 30 + 6 * broker)  # original files: always
    assert counted[Phase.REPLACING_CONTROLLERS] == (9, 0.1 + 6 * 72, 30 + 6 * broker + 3 * controller)
    assert counted[Phase.SOAK] == (9, 0.1 + 6 * 72 + 3 * 66, 30 + 6 * broker + 3 * controller)
    soak = takes[Phase.SOAK]
    assert soak is not None
    assert soak.what == (
        "3 controllers restart (ours), 3 brokers restart (back), 3 brokers restart (original), and the rollback itself"
    )
    assert not soak.measured
    assert "assumed for one restart" in soak.source
    assert "waiting for people, maintenance windows and audits is not in it" in soak.source
    assert found.back.now.takes == takes[Phase.BROKERS_JOINING]


def test_brokers_that_keep_the_file_of_their_operator_restart_once_on_the_way_back(tmp_path: Path) -> None:
    seeded = seeded_change(tmp_path, Stage.MIDDLE)
    facts = read_facts(seeded.store, seeded.settings, seeded.id, seeded.now)
    restarts = restarts_of(facts)
    whole = time_back(facts, restarts, Phase.SOAK)
    by_hand = [replace(each, checksum_after=each.checksum_before) if each.roll == "join" else each for each in restarts]
    once = time_back(facts, by_hand, Phase.SOAK)
    seeded.store.close()
    assert whole is not None
    assert once is not None
    assert (whole.restarts, once.restarts) == (9, 6)
    assert whole.low_s > once.low_s
    assert whole.high_s > once.high_s


def test_going_back_now_takes_what_the_nodes_that_are_left_took_before(tmp_path: Path) -> None:
    """Two of three brokers are in KRaft mode, one failed on its way; no controller was replaced."""
    found = report(tmp_path, Stage.MIDDLE)
    now = found.back.now.takes
    assert now is not None
    assert now.what == "3 brokers restart (back), 3 brokers restart (original), and the rollback itself"
    assert now.measured
    assert 6 * 30 < now.low_s <= now.high_s < 30 + 6 * 40
    (soak,) = (each.takes for each in found.back.phases if each.phase == Phase.SOAK)
    assert soak is not None
    assert not soak.measured, "no controller was restarted yet"


@pytest.mark.parametrize("stage", list(Stage))
def test_the_time_of_going_back_is_on_the_page_and_in_the_text(tmp_path: Path, stage: Stage) -> None:
    document = as_json(report(tmp_path, stage))
    (soak,) = (each for each in document["back"]["phases"] if each["phase"] == Phase.SOAK)
    shown = takes(soak)
    assert " to " in shown
    page = as_html(document)
    assert f"<th>going back from there takes</th><td>{shown} " in page
    assert f'<td class="n">{shown}</td>' in page
    lines = change_lines(document)
    assert f"going back  from SOAK, at any moment in it: {shown}, {soak['takes']['what']}" in lines


def test_a_report_of_an_earlier_release_has_no_time_of_going_back_and_is_shown(tmp_path: Path) -> None:
    document = as_json(report(tmp_path, Stage.PLANNED))
    for each in (document["back"]["now"], *document["back"]["phases"]):
        del each["takes"]
    assert "<th>going back from there takes</th><td>- " in as_html(document)
    assert not any("at any moment in it" in line for line in change_lines(document))
    assert msgspec.convert(document, ChangeReport).back.now.takes is None


def test_in_the_middle_what_was_measured_takes_the_place_of_what_was_assumed(tmp_path: Path) -> None:
    found = report(tmp_path, Stage.MIDDLE)
    assert found.state == "under way"
    (left,) = (each for each in found.durations if each.what.startswith("ROLLING_BROKERS"))
    assert left.measured
    assert left.restarts == 1
    assert "2 restarts of the same rolling restart" in left.source
    assert 31 <= left.low_s <= left.high_s <= 38
    assert any("controller" in each.what and not each.measured for each in found.durations)
    assert found.notices == ("broker 3 failed: Z2K-4202 Its process ended after it was started.",)
    assert any(each.startswith("broker 3 (kraft) failed in STARTED") for each in found.not_verified)
    assert [each.step for each in found.restarts[3:6]] == ["WHOLE", "WHOLE", "FAILED"]


def test_after_the_change_each_restart_has_its_evidence_and_nothing_leads_back(tmp_path: Path) -> None:
    found = report(tmp_path, Stage.COMPLETED)
    assert found.state == "completed"
    assert found.back.irreversible
    assert found.back.now.ready is None
    assert found.back.irreversible_since == found.restarts[12].began_at
    assert found.notices[0].startswith("irreversible from here")
    for each in found.restarts:
        assert each.seconds
        assert each.ready
        assert each.whole
        assert each.log_end
        assert bool(each.diff) == bool(each.file)
        assert not each.file or each.checksum_before != each.checksum_after
    assert found.total.restarts == 0
    assert [(each.kind, each.seconds) for each in found.without_controller] == [("takeover", 0.412), ("observed", 1.2)]
    assert (found.canary.answered, found.canary.failed) == (43_200, 3)
    assert [each.who for each in found.approvals] == ["Grace"]
    assert [each.result for each in found.audits] == ["passed", "incomplete", "passed"]
    said = "\n".join(found.not_verified)
    assert "not read: controller 3002" in said
    assert "4 keys were not read" in said
    assert "waived: Z2K-7040" in said


def test_a_rollback_is_reported_with_both_ways_and_nothing_more_is_planned(tmp_path: Path) -> None:
    found = report(tmp_path, Stage.ROLLED_BACK)
    assert found.state == "rolled back"
    assert not found.back.irreversible
    assert [each.roll for each in found.restarts] == [*["join"] * 3, *["kraft"] * 3, *["back"] * 3, *["original"] * 3]
    assert all(each.step == "WHOLE" for each in found.restarts)
    assert found.total.high_s == 0
    assert found.risks == tuple(each for each in found.risks if each.open)


def test_after_the_change_the_report_says_since_when_zookeeper_is_unreachable_and_when_its_data_may_go(
    tmp_path: Path,
) -> None:
    found = report(tmp_path, Stage.COMPLETED)
    end = found.zookeeper_end
    assert end is not None
    assert end.unreachable_since is not None
    assert end.may_delete_from == end.unreachable_since + 1_800 + 30 * 86_400
    assert "its data may be deleted from" in end.says
    document = as_json(found)
    assert f"end of ZooKeeper  {end.says}" in change_lines(document)
    assert end.says in as_html(document)
    assert report(tmp_path / "middle", Stage.MIDDLE).zookeeper_end is None


def test_the_znodes_of_the_migration_are_listed_before_and_after_a_rollback(tmp_path: Path) -> None:
    found = report(tmp_path, Stage.ROLLED_BACK)
    assert found.own_znodes is not None
    rows = {each.path: (each.before, each.after) for each in found.own_znodes.znodes}
    assert rows["/kafka/migration"] == ('version 912: {"version":0,"kraft_controller_id":3000}', "absent")
    assert rows["/kafka/controller_epoch"] == ("version 7: 8", "version 8: 9")
    document = as_json(found)
    assert "znode  /kafka/controller_epoch  before: version 7: 8; after: version 8: 9" in change_lines(document)
    page = as_html(document)
    assert all(path in page for path in rows)
    assert "After the rollback: read at" in page


@pytest.mark.parametrize("stage", list(Stage))
def test_a_secret_of_a_file_is_in_no_form_of_the_report_and_the_page_needs_nothing_from_elsewhere(
    tmp_path: Path, stage: Stage
) -> None:
    seeded = seeded_change(tmp_path, stage)
    document = as_json(report_of(seeded))
    page = as_html(document)
    assert SECRET not in page
    assert SECRET.encode() not in msgspec.json.encode(document)
    assert SECRET not in "\n".join(change_lines(document))
    with seeded.store.reading() as session:  # nor is it kept
        assert SECRET.encode() not in msgspec.json.encode(list(restart_documents(session, seeded.id).values()))
    seeded.store.close()
    text_of(page)
    assert not re.search(r"<(script|link|img|iframe|object|embed)\b|@import|url\(|@font-face|https?://", page)
    assert "@media print" in page


@pytest.mark.parametrize("stage", list(Stage))
def test_a_hostile_name_is_shown_as_text(tmp_path: Path, stage: Stage) -> None:
    document = as_json(report(tmp_path, stage, hostile=HOSTILE))
    page = as_html(document)
    text_of(page)  # no script, no handler, every tag closed
    assert "<script" not in page
    assert "<img" not in page
    assert "&lt;script src=" in page
    assert "{{ 7*7 }}" in page
    assert "\u202e" not in page
    assert "\\u202e" in page
    assert all("\n" not in line and "\u202e" not in line for line in change_lines(document))


def test_what_is_no_text_is_shown_as_a_code() -> None:
    assert plain({"a": ["\x1b[2J", "\ud800", "tab\t", "é 日本"]}) == {"a": ["\\x1b[2J", "\\ud800", "tab\t", "é 日本"]}


def test_the_same_facts_give_the_same_report(tmp_path: Path) -> None:
    one, other = report(tmp_path / "one", Stage.COMPLETED), report(tmp_path / "other", Stage.COMPLETED)
    assert one == other
    assert as_html(as_json(one)) == as_html(as_json(other))


def test_programs_can_rely_on_the_fields_of_schema_1(tmp_path: Path) -> None:
    """A field is never renamed or removed without another number of the schema."""
    document = as_json(report(tmp_path, Stage.COMPLETED))
    assert document["schema"] == SCHEMA == 1
    assert set(document) >= {
        *("schema", "migration", "name", "cluster_id", "phase", "state", "at", "created_at", "created_by", "waiting"),
        *("paused", "zookeeper", "bootstrap_servers", "notices", "no_plan", "inventory_digest", "windows", "hosts"),
        *("restarts", "files", "durations", "total", "risks", "waivers", "back", "approvals", "operations", "phases"),
        *("without_controller", "canary", "audits", "backups", "not_verified"),
    }
    assert set(document["restarts"][0]) >= {
        *("number", "roll", "phase", "role", "node", "host", "rack", "path", "file", "step", "began_at", "ended_at"),
        *("seconds", "checksum_before", "checksum_after", "log_end", "detail", "trouble", "diff", "ready", "whole"),
    }
    assert set(document["back"]) >= {
        *("now", "phases", "last_by_command", "last_moment", "irreversible", "irreversible_since"),
    }
    assert set(document["waivers"][0]) >= {"what", "node", "owner", "reason", "end", "holds"}
    assert msgspec.json.decode(msgspec.json.encode(document), type=ChangeReport) == msgspec.convert(
        document, ChangeReport
    )


def test_a_hundred_brokers_are_a_page_within_seconds(tmp_path: Path) -> None:
    seeded = seeded_change(tmp_path, Stage.COMPLETED, brokers=100)
    began = time.process_time()
    found = report_of(seeded)
    page = as_html(as_json(found))
    took = time.process_time() - began
    seeded.store.close()
    assert len(found.restarts) == 209
    assert len(found.hosts) == 103
    assert page.count("<h4>") > 400
    assert took < 10, f"{took:.1f} s of the processor"


def test_without_an_inventory_file_the_report_says_that_there_is_no_plan(tmp_path: Path) -> None:
    seeded = seeded_change(tmp_path, Stage.PLANNED)
    settings = seeded.settings.model_copy(update={"fleets": None})
    found = change_report(read_facts(seeded.store, settings, seeded.id, seeded.now))
    seeded.store.close()
    assert found.hosts == ()
    assert found.restarts == ()
    assert "Z2K-4207" in found.no_plan
    assert any("no plan per host" in each for each in found.not_verified)
    assert "no inventory names the nodes" in found.total.source


def test_a_damaged_inventory_file_is_named_and_ends_no_report(tmp_path: Path) -> None:
    seeded = seeded_change(tmp_path, Stage.MIDDLE)
    (tmp_path / "fleets" / "orders-prod.yaml").write_text("version: [")
    found = report_of(seeded)
    seeded.store.close()
    assert "Z2K-7001" in found.no_plan
    assert [each.step for each in found.restarts if each.roll == "kraft"] == ["WHOLE", "WHOLE", "FAILED"]


def test_the_policy_of_the_page_allows_its_own_style_only() -> None:
    assert re.fullmatch(r"sha256-[A-Za-z0-9+/]{43}=", style_hash(style()))


def test_the_service_keeps_the_change_of_each_file_and_what_held_before_and_after(tmp_path: Path) -> None:
    """A rolling restart by the service itself, on files in a directory."""
    world = Rolling(tmp_path)
    for number in (0, 1, 2):
        file = world.hosts.file(number)
        file.write_text(file.read_text() + f"ssl.key.password={SECRET}\n# {SECRET} is the old one\n")

    async def story() -> None:
        await world.to_rolling()
        await world.until(lambda: world.rolled)

    asyncio.run(story())
    found = change_report(read_facts(world.store, world.settings, world.id, world.clock()))
    world.store.close()
    kraft = [each for each in found.restarts if each.roll == "kraft"]
    assert [each.node for each in kraft] == [0, 1, 2]
    for each in kraft:
        assert "+process.roles=broker" in each.diff
        assert "-zookeeper.metadata.migration.enable=true" in each.diff
        assert "nothing was under-replicated for 2 s" in [fact.name for fact in each.ready]
        assert "the broker registered anew" in [fact.name for fact in each.whole]
        assert each.checksum_before != each.checksum_after
    assert SECRET not in as_html(as_json(found))
    measured = [each for each in found.durations if each.what.startswith("done: ROLLING_BROKERS")]
    assert measured
    assert measured[0].measured
