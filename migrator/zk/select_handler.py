"""kazoo's threads, with the system's own `select` under them.

In:   the sockets of one connection. Out: those that can be read or written.
Elsewhere: TLS (tls_sockets.py), the session (session.py).
Why:  kazoo 2.11 makes and closes an epoll for each question, five times for a request (`selector_select`). That was a
tenth of an audit's processor time.
"""

from __future__ import annotations

import select
from collections.abc import Iterable
from typing import Any

from kazoo.handlers.threading import SequentialThreadingHandler


class SelectHandler(SequentialThreadingHandler):  # type: ignore[misc]  # kazoo has no types
    def select(
        self, readers: Iterable[Any], writers: Iterable[Any], broken: Iterable[Any], timeout: float | None = None
    ) -> tuple[list[Any], list[Any], list[Any]]:
        """Wait as `select.select` does; descriptors above its limit (1,023) are left to kazoo."""
        try:
            return select.select(readers, writers, broken, timeout)
        except ValueError:
            return super().select(readers, writers, broken, timeout)  # type: ignore[no-any-return]
