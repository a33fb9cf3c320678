"""`engine: stock` where brokers and controllers log in to each other by Kerberos or by tokens, from end to end."""

from __future__ import annotations

from dataclasses import replace

import pytest

from migrator.lab.cluster import LabCluster
from migrator.lab.ours import OurController
from migrator.lab.servers.laboratory import Laboratory
from migrator.lab.servers.ports import HOST
from migrator.lab.servers.properties import Value
from tests.e2e import test_broker_logins as logins
from tests.e2e.road_stage import why_not_at_the_end
from tests.e2e.stock_stage import STOCK_SETTINGS, StockStage
from tests.e2e.test_broker_logins import BY_NAME, Estate, cluster_of

pytestmark = [pytest.mark.lab, pytest.mark.long]

MAP = "PLAINTEXT:PLAINTEXT,INSIDE:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT"
kerberos, tokens, estate = logins.kerberos, logins.tokens, logins.estate


class StockLoginStage(StockStage):
    """Brokers on INSIDE and controllers on CONTROLLER want a login of everybody; clients come without one."""

    def __init__(self, laboratory: Laboratory, estate: Estate) -> None:
        self.estate = estate
        super().__init__(laboratory, joins=True, cluster=cluster_with_controllers(laboratory, estate))

    def start_to_join(self) -> list[OurController]:
        """Controllers are found by a name of which the key server has principals."""
        ours = super().start_to_join()
        for each in ours:
            extra: dict[str, Value] = {
                **STOCK_SETTINGS,
                "listeners": f"CONTROLLER://{BY_NAME}:{each.spec.port}",
                "listener.security.protocol.map": MAP,
                "inter.broker.listener.name": "INSIDE",
                "sasl.mechanism.inter.broker.protocol": self.estate.mechanism,
                "sasl.mechanism.controller.protocol": self.estate.mechanism,
                **self.estate.of(self.estate.broker, "INSIDE"),
                **self.estate.of(self.estate.broker, "CONTROLLER"),
            }
            each.spec = replace(each.spec, voters=each.spec.voters.replace(f"@{HOST}:", f"@{BY_NAME}:"), extra=extra)
        return ours

    def before_service(self) -> None:
        self.fleet.quorum_security = {"protocol": "SASL_PLAINTEXT", "sasl_mechanism": self.estate.mechanism}
        for stock in self.fleet.stock.values():
            stock.options = self.estate.flags


def cluster_with_controllers(laboratory: Laboratory, estate: Estate) -> LabCluster:
    """Brokers know how to log in to controllers, which their operator prepared."""
    cluster = cluster_of(laboratory, estate, brokers=3)
    for broker in cluster.brokers:
        extra = {**broker.spec.extra, "listener.security.protocol.map": MAP, **estate.of(estate.broker, "CONTROLLER")}
        broker.spec = replace(broker.spec, extra=extra)
    return cluster


def test_to_the_end_where_controllers_listen_with_a_login(laboratory: Laboratory, estate: Estate) -> None:
    """A controller listener that ours refuse (Z2K-3022)."""
    stage = StockLoginStage(laboratory, estate)
    stage.to_dual_write()
    stage.to_the_end()
    stage.wait_view(why_not_at_the_end)
    stage.assert_proven()
