"""A port is given once: within a run, and among runs."""

from __future__ import annotations

import socket
import subprocess
import sys

import pytest

from migrator.findings.finding import FindingError
from migrator.lab.servers import ports
from migrator.lab.servers.ports import HOST, LAST, PortBook

RESERVE_ALL = """
from migrator.lab.servers import ports
ports.port_range = lambda: ({first}, {last})
book = ports.PortBook()
got = []
try:
    while True:
        got.append(book.reserve())
except Exception as error:
    print(*sorted(got), flush=True)
"""


def quiet_ports(count: int) -> tuple[int, int]:
    """A range in which nobody listens just now; above what a laboratory beside this test may reserve."""
    for first in range(LAST, 32_760, count):
        try:
            for port in range(first, first + count):
                socket.create_server((HOST, port)).close()
        except OSError:
            continue
        return first, first + count
    raise AssertionError("every port above the laboratories is taken")


def test_two_callers_in_one_run_get_different_ports(monkeypatch: pytest.MonkeyPatch) -> None:
    few = quiet_ports(8)
    monkeypatch.setattr(ports, "port_range", lambda: few)
    one, other = PortBook(), PortBook()
    given = [book.reserve() for book in (one, other, one, other)]
    one.close()
    other.close()
    assert len(set(given)) == 4


def test_another_run_gets_only_what_this_run_left(monkeypatch: pytest.MonkeyPatch) -> None:
    four = quiet_ports(4)
    monkeypatch.setattr(ports, "port_range", lambda: four)
    book = PortBook()
    ours = {book.reserve(), book.reserve()}
    script = RESERVE_ALL.format(first=four[0], last=four[1])
    other = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    book.close()
    theirs = {int(port) for port in other.stdout.split()}
    assert not ours & theirs
    assert len(ours | theirs) == 4


def test_a_port_on_which_somebody_listens_is_not_given(monkeypatch: pytest.MonkeyPatch) -> None:
    one = quiet_ports(1)
    monkeypatch.setattr(ports, "port_range", lambda: one)
    book = PortBook()
    with socket.create_server((HOST, one[0])), pytest.raises(FindingError) as caught:
        book.reserve()
    assert caught.value.code == "Z2K-6006"
    assert book.reserve() == one[0]
    book.close()


def test_a_port_is_free_again_when_its_book_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    one = quiet_ports(1)
    monkeypatch.setattr(ports, "port_range", lambda: one)
    book = PortBook()
    assert book.reserve() == one[0]
    book.close()
    again = PortBook()
    assert again.reserve() == one[0]
    again.close()


def test_ports_stay_below_those_of_outgoing_connections() -> None:
    first, last = ports.port_range()
    assert ports.FIRST <= first < last <= ports.LAST
