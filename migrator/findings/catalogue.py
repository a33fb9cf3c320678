"""All findings by their codes.

In:   the modules that declare them.
Out:  `CATALOGUE`, complete as soon as this module is imported.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import Final

from migrator.findings import audit, content, driver, fleet, laboratory, preflight, quorum, road, service, zookeeper
from migrator.findings.finding import GIVEN, Finding

MODULES: Final[tuple[ModuleType, ...]] = (
    content,
    preflight,
    zookeeper,
    driver,
    quorum,
    service,
    road,
    audit,
    laboratory,
    fleet,
)

CATALOGUE: Final[Mapping[str, Finding]] = GIVEN
