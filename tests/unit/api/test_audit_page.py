"""The report of an audit as a page, as a file and in the service, and the way of each family from audit to audit."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import msgspec
import pytest

from api.audit_report.views import AboutAudit, as_html, style
from api.models import AuditView
from api.pages.trend import HEIGHT, LEAST, trends
from api.standalone import style_hash
from migrator.audit.compare import AskedBroker, AuditReport, BrokerDifference, BrokersSide, Difference, FamilyCount
from migrator.audit.normalise import PARTITIONS, PRODUCER_IDS, TOPICS
from migrator.audit.shape.cluster_shape import BrokerLoad, ClusterShape, SizeBucket
from state_machine.audits import audit_rows
from state_machine.children.commands import Result
from tests.support.kept_audits import a_report
from tests.unit.api.service import Served
from tests.unit.api.test_pages import read
from tests.unit.state_machine.fakes import PASSED_AUDIT, brokers_differ, red_audit

HOSTILE = '<script src="https://example.org/x.js"></script>\u202e'
ABOUT = AboutAudit("audit 7", 0.0, "/kept/a directory", True)
SHAPE = ClusterShape(
    3, 9, [SizeBucket(1, 2), SizeBucket(2, 1), SizeBucket(4, 0)], [SizeBucket(3, 9)], 0, [BrokerLoad(5, 9, 4)]
)


class Read(HTMLParser):
    """Tags with their attributes, texts, and whether every element that is opened is closed."""

    VOID = frozenset({"meta", "br"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.texts: list[str] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] != "style":
            self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())


def page(report: AuditReport, about: AboutAudit = ABOUT) -> Read:
    return Read(as_html(msgspec.to_builtins(report), about))


# --- the page ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["key", "field_", "kind", "zookeeper", "log", "rule", "family"])
def test_whatever_a_cluster_calls_its_things_is_text(place: str) -> None:
    found = msgspec.structs.replace(Difference(TOPICS, "t", "f", "changed", 1, 2), **{place: HOSTILE})
    report = a_report()
    report.differences, report.expected = [found], [found]
    report.zk |= {"connect": HOSTILE, "controller": HOSTILE}
    report.brokers = BrokersSide(
        asked=[AskedBroker(1, HOSTILE, HOSTILE)],
        differences=[BrokerDifference(1, HOSTILE, HOSTILE, HOSTILE, HOSTILE, [HOSTILE], HOSTILE, HOSTILE, HOSTILE)],
        zookeeper_alone=[HOSTILE],
        problem=HOSTILE,
    )
    report.seconds[HOSTILE] = 1.0
    html = as_html(msgspec.to_builtins(report), AboutAudit(HOSTILE, 0.0, HOSTILE, True))
    assert "<script" not in html
    assert "\u202e" not in html
    assert "script" not in {tag for tag, _ in Read(html).tags}
    assert HOSTILE[:-1] in Read(html).text


def test_the_page_needs_nothing_from_elsewhere() -> None:
    report = a_report([Difference(TOPICS, "t", "id", "changed", 1, 2)])
    report.shape = SHAPE
    html = as_html(msgspec.to_builtins(report), ABOUT)
    found = Read(html)
    assert {tag for tag, _ in found.tags} & {"script", "link", "img", "iframe", "object", "base", "form"} == set()
    assert not any({"src", "href", "style", "onload"} & attributes.keys() for _, attributes in found.tags)
    assert "url(" not in style()
    assert "@import" not in style()
    assert "prefers-color-scheme: dark" in style()
    assert "@media print" in style()
    assert re.findall("<style>(.*)</style>", html, re.DOTALL) == [style()]


@pytest.mark.parametrize(
    ("report", "said"),
    [
        (a_report(), "Passed. ZooKeeper and the log are equal: 110 keys compared."),
        (
            a_report(expected=[Difference(PRODUCER_IDS, "next", "n", "changed", 1, 2, "a margin")]),
            "are equal: 111 keys compared, 1 of them with a difference that a rule expects.",
        ),
        (
            a_report([Difference(TOPICS, "t", "id", "changed", 1, 2)]),
            "Diverged. Different between ZooKeeper and the log: 1 of 111 keys.",
        ),
        (
            a_report([Difference(TOPICS, "t", "", "not read", None, None, "why")]),
            "Incomplete. Not read, so that nothing is known of them: 1 key.",
        ),
        (
            a_report(brokers=BrokersSide(asked=[AskedBroker(1, "KRaft", compared=4)])),
            "Passed. ZooKeeper, the log and the brokers are equal: 110 keys compared.",
        ),
        (
            a_report(
                brokers=BrokersSide(asked=[AskedBroker(1, "KRaft", compared=4, different=2), AskedBroker(3, "", "x")])
            ),
            "Diverged. Different between brokers and the log: 2 keys. Brokers of which not all was read: 3.",
        ),
        (a_report(brokers=BrokersSide(problem="no answer")), "Incomplete. No broker was read."),
        (a_report(brokers=BrokersSide(asked=[])), "Incomplete. Not all was compared."),
    ],
    ids=["passed", "expected", "diverged", "incomplete", "brokers", "brokers differ", "no broker", "none asked"],
)
def test_the_verdict_stands_first_in_words(report: AuditReport, said: str) -> None:
    text = page(report).text
    assert said in text
    assert text.index(said) < text.index("Families")


def test_a_difference_has_both_sides_and_who_stands_alone() -> None:
    on_broker = BrokerDifference(2, PARTITIONS, "a-0", "leader", "changed", 1, 2, "broker")
    side = BrokersSide(
        asked=[AskedBroker(2, "ZooKeeper", compared=4, different=1)],
        families=[FamilyCount(PARTITIONS, 4, 3, 0, 1)],
        differences=[on_broker],
        zookeeper_alone=["topics orders id"],
        not_asked=[3],
        left_off=12,
    )
    report = a_report(
        [Difference(TOPICS, "orders", "id", "changed", {"a": [1]}, None)], brokers=side, left_off={"differences": 99}
    )
    text = page(report).text
    assert 'orders id changed {"a":[1]} - ZooKeeper stands alone' in text
    assert "2 a-0 leader changed 1 2 the broker stands alone" in text
    assert "99 more are counted above" in text
    assert "12 more differences of brokers" in text
    assert "Not asked, as wanted: 3" in text


def test_what_was_expected_stands_below_its_rule() -> None:
    text = page(a_report(expected=[Difference(PRODUCER_IDS, "next", "n", "changed", 1, 2, "a margin")])).text
    assert "Expected differences, by rule a margin producer ids, 1 told" in text


def test_the_figures_of_the_log_are_drawn_and_said() -> None:
    report = a_report()
    report.shape = SHAPE
    found = page(report)
    assert "3 topics, 9 partitions" in found.text
    assert "Topics by partitions partitions topics 1 2 2 to 3 1" in found.text, "empty buckets are left out"
    assert "3 and more 9" in found.text
    assert "broker replicas leads 5 9 4" in found.text
    assert {"svg", "rect"} <= {tag for tag, _ in found.tags}
    assert "The log in figures" not in page(a_report()).text


@pytest.mark.parametrize(
    ("about", "said"),
    [
        (ABOUT, "zk2kraft audit replay '/kept/a directory'"),
        (ABOUT._replace(has_inputs=False), "It kept no inputs"),
        (ABOUT._replace(directory=""), "Nothing else of this audit is kept."),
    ],
)
def test_the_page_says_how_to_see_it_again(about: AboutAudit, said: str) -> None:
    assert said in page(a_report(), about).text


def test_a_report_of_an_audit_that_read_nothing_is_a_page_too() -> None:
    report = a_report()
    report.zk, report.kraft, report.seconds, report.same = {}, {"offset": -1, "epoch": -1}, {}, False
    assert "log up to offset, epoch not read" in page(report).text


# --- in the service ---------------------------------------------------------------------------------------


def test_an_audit_links_its_page_and_the_page_allows_its_own_style_only(served: Served) -> None:
    served.world.runner.results["audit"] = Result(1, red_audit("a-0"), "")
    served.run(served.world.to_ready())
    audit = served.get("/audits/1")
    answer = served.http.get(audit["page"])
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/html")
    assert f"style-src '{style_hash(style())}'" in answer.headers["Content-Security-Policy"]
    text = Read(answer.text).text
    assert "audit 1, rehearsal" in text
    assert "a-0 isr changed [1] [1,2]" in text
    assert audit["page"] in served.http.get("/audits/1").text


def test_a_broker_that_was_restarted_is_left_out_of_the_page_as_of_the_row(served: Served) -> None:
    served.run(served.world.to_ready())
    store, home = served.world.store, Path(served.world.settings.directory)
    document: dict[str, Any] = brokers_differ(-1, 2)
    run, _ = audit_rows.ask_audit(store, 1, purpose="schedule", engine="quick", who="service", at=1.0)
    audit_rows.begin(store, run.id, kraft="/log", directory=str(home))
    (home / "report.json").write_bytes(msgspec.json.encode(document))
    audit_rows.finish(store, run.id, document, at=2.0, away={2})
    text = Read(served.http.get(served.get(f"/audits/{run.id}")["page"]).text).text
    assert "Passed. ZooKeeper, the log and the brokers are equal" in text
    assert "Not asked, as wanted: 2" in text


def test_an_audit_without_a_report_has_no_page(served: Served) -> None:
    served.run(served.world.to_ready())
    asked = served.post("/migrations/1/audits").json()
    assert asked["page"] is None
    missing = served.http.get(f"/api/v1/audits/{asked['id']}/report.html")
    assert (missing.status_code, missing.json()["code"]) == (404, "Z2K-4004")


def test_a_kept_report_that_cannot_be_read_is_named(served: Served) -> None:
    served.run(served.world.to_ready())
    audit = served.get("/audits/1")
    (Path(audit["directory"]) / "report.json").write_text("{")
    refused = served.http.get(audit["page"])
    assert (refused.status_code, refused.json()["code"]) == (404, "Z2K-5008")


# --- from audit to audit ----------------------------------------------------------------------------------


def audits_with(*counts: tuple[int, int, int] | None) -> list[AuditView]:
    """different, not read and expected keys of topics; None: an audit without that family."""
    return [
        AuditView.model_construct(
            id=number,
            families=[]
            if each is None
            else [{"family": TOPICS, **dict(zip(("different", "not_read", "expected"), each, strict=True))}],
        )
        for number, each in enumerate(counts, 1)
    ]


def test_a_family_is_drawn_on_its_own_scale_and_one_key_is_still_seen() -> None:
    from api.models import FamilyView

    views = audits_with((1_000, 0, 0), (0, 0, 1), None)
    for each in views:
        each.families = [FamilyView.model_construct(**found) for found in each.families]  # type: ignore[arg-type]
    (row,) = trends(views)
    assert (row.family, row.most) == (TOPICS, 1_000)
    assert [each[2:] for each in row.columns] == [(HEIGHT, 0.0, 0.0), (0.0, 0.0, LEAST), (0.0, 0.0, 0.0)]
    assert [each.counts is None for each in row.columns] == [False, False, True]
    assert trends([]) == []


def test_the_page_of_audits_shows_how_each_family_went(served: Served) -> None:
    served.run(served.world.to_ready())
    store = served.world.store
    for at, document in enumerate((red_audit("a-0", "a-1"), PASSED_AUDIT), 10):
        run, _ = audit_rows.ask_audit(store, 1, purpose="schedule", engine="quick", who="service", at=at)
        audit_rows.finish(store, run.id, document, at=at)
    audit_rows.ask_audit(store, 1, purpose="demand", engine="quick", who="olga", at=99.0)
    html = served.http.get("/migrations/1/audits").text
    assert "2 different, 0 not read, 0 expected" in html
    assert html.count('<rect class="different"') == 1
    text = read(served, "/migrations/1/audits")
    assert "the last 3 finished audits" in text
    assert "topics" in text
    assert '/migrations/1/audits"' in served.http.get("/migrations/1").text
    assert "Z2K-4004" in read(served, "/migrations/9/audits", status=404)


def test_a_migration_without_audits_has_a_page_of_them(served: Served) -> None:
    assert "None has finished yet." in read(served, "/migrations/1/audits")
