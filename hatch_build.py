"""Which runbooks a wheel has; who has only the package reads them at importlib.resources.files("zk2kraft_runbooks").

Those of the laboratory come with the laboratory (packages/lab), except the one that says how to install it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

RUNBOOKS: Final = Path(__file__).resolve().parent / "runbooks"
LABORATORY: Final = "Z2K-60"
HOW_TO_INSTALL: Final = "Z2K-6017.md"


def of_laboratory(page: Path) -> bool:
    return page.name.startswith(LABORATORY) and page.name != HOW_TO_INSTALL


class Runbooks(BuildHookInterface):  # type: ignore[type-arg]
    """Of packages/lab: only the laboratory's."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        wanted = self.config.get("laboratory", False)
        pages = [page for page in sorted(RUNBOOKS.glob("*.md")) if of_laboratory(page) == wanted]
        build_data["force_include"].update({str(page): f"zk2kraft_runbooks/{page.name}" for page in pages})
