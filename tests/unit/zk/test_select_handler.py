"""Waiting for sockets as kazoo asks, by the system's own `select`."""

from __future__ import annotations

import fcntl
import resource
import socket
from collections.abc import Iterator

import pytest

from migrator.zk.select_handler import SelectHandler

ABOVE_SELECT = 1_024


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


def test_a_socket_is_told_once_there_is_something_to_read(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    assert SelectHandler().select([ours], [], [], 0.0) == ([], [], [])
    theirs.send(b"x")
    assert SelectHandler().select([ours], [ours], [], 5.0) == ([ours], [ours], [])


def test_a_descriptor_above_the_limit_of_select_is_waited_for_as_well(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    if resource.getrlimit(resource.RLIMIT_NOFILE)[0] <= ABOVE_SELECT:
        pytest.skip("this process may not open so many files")
    ours, theirs = pair
    with socket.socket(fileno=fcntl.fcntl(ours, fcntl.F_DUPFD, ABOVE_SELECT)) as high:
        assert SelectHandler().select([high], [], [], 0.0) == ([], [], [])
        theirs.send(b"x")
        assert SelectHandler().select([high], [], [], 5.0) == ([high], [], [])
