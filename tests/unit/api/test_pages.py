"""The page: what a tired stranger finds on it in every phase, and the form before a step."""

from __future__ import annotations

import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from api.pages import pages, words
from migrator.findings.content import ISR_INCOMPLETE, ORPHAN_CONFIG
from migrator.findings.finding import Occurrence
from state_machine.children.commands import Result
from state_machine.policy.phases import Phase
from state_machine.rows.store import find_migration
from tests.unit.api.service import Served
from tests.unit.state_machine.fakes import check_that_found, denied, red_audit

VOID = {"meta", "link", "br", "input", "hr", "img"}


class Reader(HTMLParser):
    """Reads a page as a text browser does, and minds that every tag is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text: list[str] = []
        self.tags: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        assert not any(name.startswith("on") or name == "style" for name, _ in attrs), "no inline scripts, no styles"
        assert tag != "script" or attrs == [("src", "/page.js"), ("defer", None)]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def read(served: Served, path: str = "/migrations/1", status: int = 200) -> str:
    answer = served.http.get(path)
    assert answer.status_code == status, answer.text
    return text_of(answer.text)


def text_of(page: str) -> str:
    reader = Reader()
    reader.feed(page)
    assert reader.open == [], "every tag is closed"
    return re.sub(r"\s+", " ", " ".join(reader.text))


@pytest.mark.parametrize("phase", list(Phase))
def test_the_page_renders_in_every_phase(served: Served, phase: Phase) -> None:
    with served.world.store.writing() as session:
        find_migration(session, 1).phase = phase
    text = read(served)
    assert f"orders is in {phase}" in text
    assert "Undo from here" in text
    assert "Steps from here" in text


def test_the_first_screen_answers_what_one_is_woken_for(served: Served) -> None:
    served.run(served.world.to_dual_write())
    text = read(served)
    first_screen = text[: text.index("Steps from here")]
    for words_ in (
        "orders is in DUAL_WRITE",
        "controller 3000 (zk2kraft, KRaft mode)",
        "not now; last takeover: 80 ms",
        "zk2kraft rollback : a ZooKeeper-mode broker becomes controller",
        "Lost:",
    ):
        assert words_ in first_screen


def test_ready_shows_each_condition_with_what_was_seen(served: Served) -> None:
    served.run(served.world.to_ready())
    text = read(served)
    assert "advance to TAKEOVER: advance…" in text
    assert "True that rehearsal is under 10 minutes old" in text
    assert "keys compared by quick, 0 different" in text


def test_a_closed_gate_says_no_and_names_the_page(served: Served) -> None:
    served.world.runner.results["audit"] = Result(1, red_audit("a-0"), "")
    served.run(served.world.to_ready())
    text = read(served)
    assert "advance to TAKEOVER: closed" in text
    assert "False the audit of the last rehearsal passed 4 keys compared" in text.replace("3 keys", "4 keys")
    assert "Z2K-4020" in text


def test_a_blocked_migration_says_so_first(served: Served) -> None:
    served.run(served.world.to_dual_write())
    served.world.launcher.answers = False
    served.world.controller.kill()
    served.rounds(2)
    text = read(served)
    assert text.index("Blocked.") < text.index("Undo from here")
    assert "every controller answers" in text


def test_the_page_renews_itself_and_forms_do_not(served: Served) -> None:
    page, form_ = (served.http.get(f"/migrations/1{path}").text for path in ("", "/steps/advance"))
    assert '<noscript><meta http-equiv="refresh" content="2"></noscript>' in page
    assert '<script src="/page.js" defer></script>' in page
    assert 'http-equiv="refresh"' not in form_
    assert "<script" not in form_


def test_a_service_that_was_away_finds_its_page_where_it_was(served: Served) -> None:
    """In the engine that runs it; the document is one of a few fields (page.test.js)."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("there is no node here: the script of the page is not run")
    subprocess.run([node, Path(__file__).with_name("page.test.js"), pages.SCRIPT], check=True, timeout=60)
    assert served.http.get("/page.js").text == pages.SCRIPT.read_text()
    assert "script-src 'self'" in served.http.get("/migrations/1").headers["content-security-policy"]


def test_one_migration_is_shown_at_once_and_several_are_listed(served: Served) -> None:
    assert served.http.get("/").headers["location"] == "/migrations/1"
    served.world.store.create(
        type(served.world.inventory)(**{**_fields(served), "name": "payments"}), who="test", at=1.0
    )
    assert "payments" in read(served, "/")


def _fields(served: Served) -> dict[str, Any]:
    inventory = served.world.inventory
    return {name: getattr(inventory, name) for name in inventory.__struct_fields__}


def test_a_foreign_one_gets_an_empty_list_with_a_hint(served: Served) -> None:
    served.world.store.migrations = list  # type: ignore[method-assign]
    assert "None yet" in read(served, "/")


# --- forms ------------------------------------------------------------------------------------------------


def form(served: Served, word: str = "advance", **fields: str) -> tuple[int, str, str]:
    answer = served.http.post(f"/migrations/1/steps/{word}", data={"name": "orders", **fields})
    return answer.status_code, answer.headers.get("location", ""), answer.text


def test_the_form_shows_the_gate_and_asks_for_the_name(served: Served) -> None:
    served.run(served.world.to_ready())
    text = read(served, "/migrations/1/steps/advance")
    assert "Type the name of the cluster, orders" in text
    assert "the cluster has no controller" in text
    assert "yes no" not in text


def test_the_form_of_an_undo_says_what_is_lost(served: Served) -> None:
    served.run(served.world.to_dual_write())
    text = read(served, "/migrations/1/steps/rollback")
    assert "Lost: nothing that ZooKeeper lacks; the metadata log is retired" in text


def test_a_form_records_the_same_operation_as_rest(served: Served) -> None:
    status, location, _ = form(served, to="PREFLIGHT", expected_version="1", who="Ada", reason="go", key="k1")
    assert (status, location) == (303, "/migrations/1#operations")
    assert form(served, to="PREFLIGHT", expected_version="1", who="Ada", reason="go", key="k1")[0] == 303
    (operation,) = served.world.store.operations(1)
    assert (operation.name, operation.who, operation.reason, operation.to_phase) == (
        "ADVANCE",
        "Ada",
        "go",
        "PREFLIGHT",
    )
    served.rounds()
    assert "succeeded CREATED to PREFLIGHT" in read(served)


def test_a_wrong_name_does_nothing(served: Served) -> None:
    status, _, page = form(served, name="payments")
    assert status == 409
    assert "Z2K-4017" in text_of(page)
    assert served.world.store.operations(1) == []


def test_a_form_that_is_too_old_is_refused(served: Served) -> None:
    status, _, page = form(served, expected_version="7")
    assert status == 409
    assert "is at version 1; the request expected 7" in text_of(page)


def test_a_form_for_a_closed_gate_shows_every_failed_check(served: Served) -> None:
    served.run(served.world.run_operation("PAUSE", reason="lunch"))
    status, _, page = form(served)
    assert status == 409
    assert "False the migration is not paused paused by Ada: lunch" in text_of(page)


def test_a_field_that_cannot_be_is_refused(served: Served) -> None:
    status, _, page = form(served, to="NOWHERE")
    assert status == 422
    assert "Z2K-4002" in text_of(page)


@pytest.mark.parametrize("word", ["pause", "resume", "advance", "rollback", "abort"])
def test_every_step_has_a_form(served: Served, word: str) -> None:
    assert word in read(served, f"/migrations/1/steps/{word}")


@pytest.mark.parametrize("path", ["/migrations/9", "/migrations/1/steps/jump", "/audits/9"])
def test_what_does_not_exist_is_a_page_too(served: Served, path: str) -> None:
    assert "Z2K-4004" in read(served, path, status=404)


def test_an_audit_has_its_own_page_with_its_differences(served: Served) -> None:
    served.world.runner.results["audit"] = Result(1, red_audit("a-0"), "")
    served.run(served.world.to_ready())
    text = read(served, "/audits/1")
    assert "partitions a-0 isr changed [1] [1, 2]" in text


def test_names_that_look_like_markup_are_shown_as_text(served: Served) -> None:
    served.post_pause = served.post("/migrations/1/pause", {"reason": "<b>x</b>", "who": "<i>"})  # type: ignore[attr-defined]
    served.rounds()
    assert "<b>x</b>" not in served.http.get("/migrations/1").text
    assert "paused by <i>: <b>x</b>" in read(served)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0.0 s"),
        (0.084, "84 ms"),
        (3.14, "3.1 s"),
        (59.9, "59 s"),
        (200, "3 min 20 s"),
        (18600, "5 h 10 min"),
        (None, "-"),
    ],
)
def test_a_duration_is_told_as_people_say_it(seconds: float | None, text: str) -> None:
    assert words.span(seconds) == text


def test_times_of_a_driver_are_told_to_the_millisecond() -> None:
    assert words.stamp(1_700_000_000.0429) == "2023-11-14 22:13:20.042"
    assert words.clock(1_700_000_000, 1_700_000_010) == "22:13:20"
    assert words.clock(1_700_000_000, 1_700_100_000) == "2023-11-14 22:13:20"


def test_the_page_says_whom_a_controller_denies_what(served: Served) -> None:
    served.run(served.world.to_dual_write())
    assert "Denied requests" not in read(served)
    served.world.controller.denials = [denied(served.world.clock())]
    served.rounds(1)
    page = read(served)
    assert "Denied requests" in page
    assert "User:c ClusterAction VoteRequest 5490" in page


# --- many findings ----------------------------------------------------------------------------------------


def not_whole(count: int) -> list[Occurrence]:
    names = [f"orders-{number}" for number in range(count)]
    return [ISR_INCOMPLETE.found(partition=name, replicas=(1, 2), isr=(1,), leader=1) for name in names]


def checked(served: Served, *found: Occurrence) -> None:
    served.world.runner.results["check"] = check_that_found(*found)
    served.run(served.world.to_preflight())
    served.rounds(3)


def test_findings_of_one_code_stand_together_with_how_many_there_are_and_a_page_of_all(served: Served) -> None:
    checked(served, ORPHAN_CONFIG.found(path="/config/topics/gone"), *not_whole(250))
    page = read(served)
    assert "Z2K-1008 blocks 250 findings" in page
    section = page.partition("Findings")[2].partition("Brokers")[0]
    assert section.count("in sync [1]") == section.count("orders-") == 3
    assert "all 250" in page
    assert section.count(ISR_INCOMPLETE.remedy) == 1
    assert section.index("Z2K-1008") < section.index("/config/topics/gone"), "what blocks comes first"
    everything = read(served, "/migrations/1/findings/Z2K-1008")
    assert all(f"orders-{number}:" in everything for number in range(250))
    assert "None is open now" in read(served, "/migrations/1/findings/Z2K-1999")
    assert "Z2K-4004" in read(served, "/migrations/7/findings/Z2K-1008", 404)


def test_few_findings_are_shown_as_they_are(served: Served) -> None:
    checked(served, *not_whole(3))
    section = read(served).partition("Findings")[2].partition("Brokers")[0]
    assert section.count("in sync [1]") == 3
    assert "all 3" not in section


def test_rest_has_the_groups_and_on_request_every_finding_of_a_code(served: Served) -> None:
    checked(served, *not_whole(250))
    (group,) = (each for each in served.get("/migrations/1")["finding_groups"] if each["code"] == "Z2K-1008")
    assert (group["count"], len(group["first"]), group["severity"]) == (250, 3, "blocks")
    assert group["remedies"] == [ISR_INCOMPLETE.remedy]
    found = served.get("/migrations/1/findings?only_open=true&code=Z2K-1008&limit=1000")["items"]
    assert len({each["says"] for each in found}) == 250
