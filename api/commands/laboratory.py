"""The laboratory as a command.

In:   what the command line read. Out: an exit code.
"""

from __future__ import annotations

from functools import partial
from importlib.util import find_spec
from typing import Any

from migrator.findings.laboratory import DEMO_NOT_POSSIBLE


def demo(*, full: bool = False, rollback_from: str | None = None, stock: bool = False, **options: Any) -> int:
    """A whole migration on this machine; `migrator.lab.demo.run.Options` names the options. full: to the end.
    stock: to the end by Kafka's own controllers.

    rollback_from: goes back from there first, and then to the end. Raises Z2K-6017 when there is no such point, and
    where the laboratory is not installed: it is a distribution of its own.
    """
    if find_spec("migrator.lab") is None:
        how = "pip install 'zk2kraft[lab]' installs it"
        raise DEMO_NOT_POSSIBLE.error(reason=f"the laboratory is not installed, and {how}")
    from migrator.lab.demo.full import run_full
    from migrator.lab.demo.points import Point
    from migrator.lab.demo.rollback_from import run_back_and_full
    from migrator.lab.demo.run import Options, run_demo
    from migrator.lab.demo.stock_engine import run_stock

    if stock:
        if rollback_from is not None:
            raise DEMO_NOT_POSSIBLE.error(reason="--rollback-from goes back from our controllers, not from stock")
        return run_demo(Options(**options), run_stock)
    if rollback_from is not None:
        if rollback_from not in set(Point):
            raise DEMO_NOT_POSSIBLE.error(reason=f"{rollback_from} is not one of {', '.join(Point)}")
        return run_demo(Options(**options), partial(run_back_and_full, Point(rollback_from)))
    return run_demo(Options(**options), run_full if full else None)
