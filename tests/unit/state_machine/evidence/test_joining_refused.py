"""A broker whose file cannot become the migration file is told before any broker is restarted.

Files of the field cases id-above-1000, map-other-protocol and control-plane-CONTROLLER, and their like, as the service
meets them on its road; `zk2kraft render` says the same (tests/unit/fleet/test_joining_files.py).
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final

import pytest

from state_machine.policy.phases import Phase
from tests.unit.state_machine.evidence.test_joining import Joining

LAST: Final = 1
"""In the order of restarts: it is the controller of the cluster."""
LINES: Final = (
    "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:SSL",
    "reserved.broker.max.id=0",
    "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,controller:sasl_plaintext",
    "listeners=PLAINTEXT://127.0.0.1:9101,CONTROLLER://127.0.0.1:9201",
)


def with_line(directory: Path, line: str) -> Joining:
    world = Joining(directory)
    with world.hosts.file(LAST).open("a") as file:
        file.write(f"{line}\n")
    return world


@pytest.mark.parametrize("line", LINES)
def test_what_would_be_refused_of_the_last_broker_is_said_before_the_first_one_is_stopped(
    line: str, tmp_path: Path
) -> None:
    """As what the takeover gate would refuse (Z2K-1050): the others would have been restarted before."""
    world = with_line(tmp_path, line)

    async def story() -> None:
        await world.to_joining()
        await world.turn(40)
        assert "Z2K-7032" in world.waiting
        assert line.partition("=")[0] in world.waiting
        refused = await world.run_operation("ADVANCE", to=Phase.BROKERS_JOINING)
        assert refused.state == "refused"
        await world.turn(5)
        assert world.acts == []

    asyncio.run(story())
