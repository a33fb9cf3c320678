"""A port is given once: within a run, and among runs."""

from __future__ import annotations

import socket
import subprocess
import sys

import pytest

from migrator.errors import FindingError
from migrator.lab import ports
from migrator.lab.ports import HOST, PortBook

RESERVE_ALL = """
from migrator.lab import ports
ports.port_range = lambda: ({first}, {last})
book = ports.PortBook()
got = []
try:
    while True:
        got.append(book.reserve())
except Exception as error:
    print(*sorted(got), flush=True)
"""


def test_two_callers_in_one_run_get_different_ports(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "port_range", lambda: (31000, 31008))
    one, other = PortBook(), PortBook()
    given = [book.reserve() for book in (one, other, one, other)]
    one.close()
    other.close()
    assert len(set(given)) == 4


def test_another_run_gets_only_what_this_run_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "port_range", lambda: (31010, 31014))
    book = PortBook()
    ours = {book.reserve(), book.reserve()}
    script = RESERVE_ALL.format(first=31010, last=31014)
    other = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    book.close()
    theirs = {int(port) for port in other.stdout.split()}
    assert not ours & theirs
    assert len(ours | theirs) == 4


def test_a_port_on_which_somebody_listens_is_not_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "port_range", lambda: (31020, 31021))
    book = PortBook()
    with socket.create_server((HOST, 31020)), pytest.raises(FindingError) as caught:
        book.reserve()
    assert caught.value.code == "Z2K-6006"
    assert book.reserve() == 31020
    book.close()


def test_a_port_is_free_again_when_its_book_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "port_range", lambda: (31030, 31031))
    book = PortBook()
    assert book.reserve() == 31030
    book.close()
    again = PortBook()
    assert again.reserve() == 31030
    again.close()


def test_ports_stay_below_those_of_outgoing_connections() -> None:
    first, last = ports.port_range()
    assert ports.FIRST <= first < last <= ports.LAST
