"""What every address needs: the store, the clock, and a way to wake the loop.

In:   put into the application once (app.py).
Out:  `Parts`, given to handlers by FastAPI; common parameters.
Rule: no handler touches Kafka, ZooKeeper or a process. It reads rows, or writes an operation down and wakes the loop.
One exception: before a migration gets the address of a ZooKeeper, it is tried whether anybody listens there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, TypeAlias

from fastapi import Depends, Header, Path, Query, Request
from fastapi.exceptions import RequestValidationError

from migrator.findings.finding import Occurrence
from state_machine.rows.store import Store
from state_machine.settings import ServiceSettings

Alone: TypeAlias = Callable[[int, Callable[[], None]], None]


def _at_once(migration_id: int, work: Callable[[], None]) -> None:
    """Do the work at once: without a loop nothing runs meanwhile."""
    work()


@dataclass(frozen=True, slots=True)
class Parts:
    """last_round_at: when the loop last saw to it that every migration has its task, None before the first time.

    alone_with: does blocking work between two rounds of a migration. troubles: what keeps a round from its end now.
    reach: raises Z2K-2001 within some 2 s when no server of a connect string accepts connections.
    """

    store: Store
    settings: ServiceSettings
    clock: Callable[[], float]
    wake: Callable[[], None]
    last_round_at: Callable[[], float | None]
    alone_with: Alone = _at_once
    troubles: Mapping[int, Occurrence] = field(default_factory=dict)
    reach: Callable[[str], None] = lambda connect: None


def parts_of(request: Request) -> Parts:
    parts: Parts = request.app.state.parts
    return parts


def no_unknown_parameters(request: Request) -> None:
    """Refuse what the address has not: `dry_run` where there is none would act, a wrong name shows all. Z2K-4002."""
    known = {each.alias for each in request.scope["route"].dependant.query_params}
    unknown = sorted(request.query_params.keys() - known)
    if unknown:
        raise RequestValidationError(
            [{"loc": ("query", each), "msg": "this address has no such parameter"} for each in unknown]
        )


ServiceParts = Annotated[Parts, Depends(parts_of)]
Number = Annotated[int, Path(ge=1, le=2**31 - 1)]
Key = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=200,
        pattern=r"^[!-~]+$",
        description="repeating a request with the same key is safe",
    ),
]
DryRunFlag = Annotated[bool, Query(description="only evaluate the gate; record nothing")]
Cursor = Annotated[int, Query(ge=0, le=2**31 - 1, description="number of the first item")]
Limit = Annotated[int, Query(ge=1, le=500, description="how many at most")]
