"""What speaks against putting stock controllers in the place of ours now (the gate of REPLACING_CONTROLLERS).

In:   the image, the claim as it stands in ZooKeeper and as we hold it, orders that stand, an open transaction.
Out:  findings; none of them when stock 3.9 can go on from this log and this ZooKeeper.
Elsewhere: when this is looked at (node.driver.dual_write), who reads it (DriverStatus.replacing), the stock files.
Source: Kafka 3.9 `KRaftMigrationDriver` (INACTIVE while /migration says -1), `KRaftMigrationZkWriter` (configuration
without a form in ZooKeeper never becomes equal, K-11), `ZkMigrationClient`; end-of-road 2.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from migrator.driver.claim import Claim, ClaimObservation, still_ours
from migrator.driver.orders import Orders
from migrator.findings.driver import STOCK_CANNOT_CONTINUE, STOCK_CANNOT_MIRROR, STOCK_NEEDS_SECRET
from migrator.findings.finding import Occurrence
from migrator.model.image import Image
from migrator.model.values import ConfigType, MigrationState, is_password

WITHOUT_ZNODE: Final = {ConfigType.CLIENT_METRICS: "client-metrics", ConfigType.GROUP: "group"}
"""Configuration that stock compares with ZooKeeper and has no place for there."""


def against_stock(
    image: Image,
    observed: ClaimObservation,
    claim: Claim | None,
    orders: Orders,
    *,
    encodes: bool,
    transaction_open: bool = False,
) -> tuple[Occurrence, ...]:
    """What speaks against stock controllers, in the order in which an operator would repair it.

    claim: as this node holds it, None when it holds none.

    encodes: this controller's file, of which stock's is made, has the secret for brokers' passwords.
    transaction_open: never of a leader: it aborts what an earlier one left open before it leads, and a copy is one run.
    """
    reasons = (STOCK_CANNOT_CONTINUE.found(reason=why) for why in _why_not_now(image, observed, claim, orders))
    opened = STOCK_CANNOT_CONTINUE.found(reason="a metadata transaction is open in the log")
    return (*reasons, *((opened,) if transaction_open else ()), *_content(image, encodes))


def _why_not_now(image: Image, observed: ClaimObservation, claim: Claim | None, orders: Orders) -> Iterator[str]:
    if image.migration is not MigrationState.MIGRATION:
        yield f"the log is in {image.migration.name}, not in MIGRATION"
    if claim is None or not still_ours(observed, claim):
        yield "/controller or /migration is not as this controller wrote it"
    if observed.controller_owner or (claim is not None and claim.ephemeral):
        yield "/controller ends with a session; a stock controller expects a persistent one"
    if observed.migration is None or observed.migration.kraft_metadata_offset <= 0:
        yield "/migration has no offset above 0, so a stock controller stays inactive"
    if orders.given:
        yield f"{len(orders.given)} orders stand in ZooKeeper, for instance {orders.given[0]}"


def brokers_with_passwords(image: Image) -> list[str]:
    """Whose dynamic configuration holds passwords, by name."""
    return sorted(
        key.name or "(all brokers)"
        for key, config in image.configs.items()
        if key.type == ConfigType.BROKER and any(map(is_password, config))
    )


def _content(image: Image, encodes: bool) -> Iterator[Occurrence]:
    """What stock stumbles on in each comparison, and what it cannot write without a secret."""
    odd = sorted(key for key in image.configs if key.type in WITHOUT_ZNODE)
    if odd:
        first = f"{WITHOUT_ZNODE[ConfigType(odd[0].type)]} {odd[0].name}"
        yield STOCK_CANNOT_MIRROR.found(count=len(odd), first=first)
    secret = brokers_with_passwords(image)
    if secret and not encodes:
        yield STOCK_NEEDS_SECRET.found(count=len(secret), first=secret[0])
