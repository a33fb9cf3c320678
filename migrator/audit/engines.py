"""Which engine compares where nobody says: Spark, where it is installed.

In:   nothing. Out: the name of an engine; whether a Spark master is on a network.
Elsewhere: the engines (run.py), the extra `spark` of the package (pyproject.toml).
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Final, Literal

HOW_TO_INSTALL_SPARK: Final = (
    "PySpark is not installed: pip install 'zk2kraft[spark]', or compare in this process with --engine quick"
)


def spark_is_installed() -> bool:
    return find_spec("pyspark") is not None


def default_engine() -> Literal["spark", "quick"]:
    return "spark" if spark_is_installed() else "quick"


def is_local(master: str) -> bool:
    """Whether Spark runs in this machine's processes alone. master: such as `local[*]` or `spark://HOST:PORT`."""
    return master.startswith("local")
