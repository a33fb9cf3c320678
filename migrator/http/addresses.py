"""The addresses of the service: every route, link and request of REST is one of these.

In:   numbers and names of what is meant.
Out:  `Address`: its template is the route, a call makes a link of it.
Elsewhere: what answers (api.rest, api.change), who asks (api.client, the laboratory), links in findings
(state_machine.rows.store).
A parameter that an address does not have is an error where the link is made, not a silent other answer: a link that
named one `signal` where the address said `trigger` showed the whole history for five days.
"""

from __future__ import annotations

from string import Formatter
from typing import Final
from urllib.parse import quote, urlencode

BASE: Final = "/api/v1"
"""All but the pages."""


class Address:
    """One address. template: as the router takes it, below BASE; parameters: those of its query."""

    def __init__(self, template: str, *parameters: str) -> None:
        self.template = template
        self.parameters = frozenset(parameters)
        self._places = {name for _, name, _, _ in Formatter().parse(template) if name}

    def __call__(self, **values: object) -> str:
        """The link. Parameters of the query whose value is None are left out. Raises KeyError for a name it lacks."""
        unknown = values.keys() - self._places - self.parameters
        if unknown:
            raise KeyError(f"{self.template} has no {sorted(unknown)}")
        path = self.template.format_map({name: quote(str(values[name]), safe="") for name in self._places})
        query = {name: values[name] for name in values if name in self.parameters and values[name] is not None}
        return BASE + path + (f"?{urlencode(query)}" if query else "")


_ONE: Final = "/migrations/{number}"

MIGRATIONS: Final = Address("/migrations", "who")
MIGRATION: Final = Address(_ONE, "who")
GATES: Final = Address(_ONE + "/gates")
AGREEMENT: Final = Address(_ONE + "/agreement", "to", "feature")
RAISES: Final = Address(_ONE + "/raises", "release")
BROKERS: Final = Address(_ONE + "/brokers")
QUORUM: Final = Address(_ONE + "/quorum")
FINDINGS: Final = Address(_ONE + "/findings", "only_open", "code", "limit")
EVENTS: Final = Address(_ONE + "/events", "trigger")
OPERATION: Final = Address(_ONE + "/operations/{operation}")
REPORT: Final = Address(_ONE + "/report")
CHANGE_REPORT: Final = Address(_ONE + "/change-report")
CHANGE_PAGE: Final = Address(_ONE + "/change-report.html")
AUDITS: Final = Address(_ONE + "/audits", "limit")
AUDIT: Final = Address("/audits/{number}")
AUDIT_PAGE: Final = Address("/audits/{number}/report.html")
DIFFERENCES: Final = Address("/audits/{number}/differences", "cursor", "limit")

STEPS: Final = {
    word: Address(f"{_ONE}/{word}", *parameters)
    for word, parameters in (
        ("advance", ("dry_run",)),
        ("abort", ("dry_run",)),
        ("rollback", ("dry_run",)),
        ("finalize-version", ("dry_run",)),
        ("pause", ()),
        ("resume", ()),
        ("approve", ()),
        ("back", ()),
    )
}
"""Operations, by the word of the command line."""

LINKED: Final = {
    "self": MIGRATION,
    "gates": GATES,
    "brokers": BROKERS,
    "quorum": QUORUM,
    "findings": FINDINGS,
    "events": EVENTS,
    "audits": AUDITS,
    "report": REPORT,
    "change-report": CHANGE_REPORT,
}
"""What the view of a migration names."""
