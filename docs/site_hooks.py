"""What mkdocs is told beside mkdocs.yml: runbooks become pages, and folders in the navigation name their pages.

In:   `runbooks/*.md`, which lie outside docs so that they also travel in the wheel and in the image.
Out:  pages below `runbooks/` of the site, a start page, navigation.
Elsewhere: what the site looks like (mkdocs.yml).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]
RUNBOOKS = ROOT / "runbooks"

START = """# zk2kraft

Moves an Apache Kafka cluster from ZooKeeper to KRaft while clients keep producing and consuming.

* **Tutorial**: [your own cluster](your-cluster.md), from ZooKeeper to dual-write and back.
* **How-to**: [the service](service.md), [controllers](drop-in.md), [to the end](to-the-end.md), [undo](undo.md).
* **Reference**: [commands](reference/cli.md), [REST](reference/rest.md), [findings](reference/findings.md),
  [metrics](reference/metrics.md).
* **Explanation**: [how it is built](architecture.md).
"""


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Folders of the navigation become their pages."""
    folders = {
        "runbooks/": [f"runbooks/{path.name}" for path in sorted(RUNBOOKS.glob("*.md"))],
        "decisions/": [f"decisions/{path.name}" for path in sorted((ROOT / "docs" / "decisions").glob("*.md"))],
    }
    config.nav = _filled(config.nav, folders)
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    files.append(File.generated(config, "index.md", content=START))
    for path in sorted(RUNBOOKS.glob("*.md")):
        files.append(File.generated(config, f"runbooks/{path.name}", content=runbook_page(path.read_text())))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """In the repository a page names a runbook from where it lies; in the site both have one root."""
    return markdown.replace("](../runbooks/", "](runbooks/").replace("](../../runbooks/", "](../runbooks/")


def runbook_page(text: str) -> str:
    """Its columns are made with spaces, so everything but the heading is shown as it stands."""
    heading, _, rest = text.partition("\n")
    return f"{heading}\n\n````text\n{rest.strip()}\n````\n"


def _filled(nav: Any, folders: dict[str, list[str]]) -> Any:
    if isinstance(nav, list):
        return [_filled(each, folders) for each in nav]
    if isinstance(nav, dict):
        return {title: _filled(each, folders) for title, each in nav.items()}
    return folders.get(nav, nav)
