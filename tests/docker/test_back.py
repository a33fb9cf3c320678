"""docker/compose.yaml, back from SOAK: every broker in KRaft mode, every controller stock, and no step is final yet.

The service starts no controllers there, so this test starts the containers of ours when it says that they are missing,
as an operator does. So it does with a broker that met Kafka's flaw of docs/undo.md: that container is restarted.
"""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.docker.composition import CONTROLLERS, LOOKS_FOR_FLAWS_S, Composition
from tests.docker.road import assert_nothing_lost, start_traffic, to_dual_write, to_soak

pytestmark = [pytest.mark.docker, pytest.mark.timeout(3600)]


def test_a_cluster_of_containers_goes_back_from_soak(composition: Composition) -> None:
    traffic = start_traffic(composition)
    migration = to_dual_write(composition)
    to_soak(composition, migration)
    composition.wait_view(migration, why_not_back, "a way back")
    composition.post(f"/migrations/{migration}/rollback", {"who": "first person", "reason": "a test"})

    started: list[int] = []
    looked = time.monotonic()

    def why_not(view: dict[str, Any]) -> str | None:
        nonlocal looked
        if time.monotonic() - looked > LOOKS_FOR_FLAWS_S:
            composition.restart_flawed()
            looked = time.monotonic()
        for row in (view["road"] or {}).get("nodes", ()):
            if (row["roll"], row["step"]) == ("ours", "STARTED") and row["node_id"] not in started:
                composition.engine.docker("start", f"zk2kraft-controller-{row['node_id']}")
                started.append(row["node_id"])
        return None if view["phase"] == "ROLLED_BACK" else f"{view['phase']}: {view['waiting']}"

    view = composition.wait_view(migration, why_not, "ROLLED_BACK")
    assert sorted(started) == list(CONTROLLERS)
    assert not {f"zk2kraft-kafka-controller-{node}" for node in CONTROLLERS} & composition.running()
    assert view["active_controller"]["kind"] == "a ZooKeeper-mode broker", view["active_controller"]
    traffic.stop()
    assert_nothing_lost(composition, traffic)


def why_not_back(view: dict[str, Any]) -> str | None:
    back = view["road"]["back"]
    if back is None:
        return f"{view['phase']}: {view['waiting']}"
    return None if back["possible"] else str(back["why_not"])
