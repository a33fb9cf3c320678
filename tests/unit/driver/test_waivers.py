"""Partitions that are not whole and were accepted: by name, by pattern, up to a share."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from migrator.driver.checks.waivers import lifted, parse_waiver
from migrator.findings.preflight import WAIVED, WAIVER_EXCEEDED

ORDERS = [f"orders-{number}" for number in range(20)]
EVERYONE = [*ORDERS, "payments-0", "payments-1"]
BROKEN = ["orders-3", "orders-7", "payments-1"]


def said(*waivers: str) -> tuple[set[str], list[str]]:
    free, found = lifted([parse_waiver(each) for each in waivers], BROKEN, EVERYONE)
    return free, [f"{each.code} {each.text}" for each in found]


@pytest.mark.parametrize(
    ("waivers", "free"),
    [
        ((), set()),
        (("orders-3",), {"orders-3"}),
        (("orders-3:50%",), set()),
        (("orders-*",), {"orders-3", "orders-7"}),
        (("orders-*:10%",), {"orders-3", "orders-7"}),
        (("orders-*:9.9%",), set()),
        (("orders-*:9.9%", "orders-7"), {"orders-7"}),
        (("*s-*:100%",), set(BROKEN)),
        (("audit-*",), set()),
    ],
)
def test_a_waiver_lifts_what_it_matches_unless_that_is_more_than_its_share(
    waivers: tuple[str, ...], free: set[str]
) -> None:
    assert said(*waivers)[0] == free


def test_what_a_waiver_lifts_or_does_not_is_said() -> None:
    _, found = said("orders-*:5%", "payments-*", "audit-*")
    assert found == [
        "Z2K-1121 The waiver orders-*:5% lifts nothing: 2 of the 20 partitions that it matches are not fully in sync.",
        "Z2K-1120 The waiver payments-* lifts Z2K-1008 from 1 partitions, the first payments-1.",
    ]
    assert (WAIVED.code, WAIVER_EXCEEDED.code) == ("Z2K-1120", "Z2K-1121")


@pytest.mark.parametrize(
    "text", ["orders-*:10", "orders-*:%", "orders-*:0%", "orders-*:101%", "a b", "*", "*:5%", "x:-1%", ""]
)
def test_what_is_no_waiver_is_refused_with_its_text(text: str) -> None:
    with pytest.raises(ValueError, match=f"^.*{re.escape(text)}"):
        parse_waiver(text)


@given(st.text("ab*.-1", min_size=1, max_size=8), st.text("ab.-1", min_size=1, max_size=10))
def test_a_star_stands_for_any_text_and_nothing_else_is_special(pattern: str, name: str) -> None:
    if pattern.strip("*"):
        assert bool(parse_waiver(pattern).matches([name])) == fnmatchcase(name, pattern)
