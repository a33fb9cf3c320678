"""An inventory as a document, whole and without contradiction; tests change copies of it."""

from __future__ import annotations

from typing import Any


def an_inventory() -> dict[str, Any]:
    brokers = [
        {
            "id": number,
            "host": f"b{number}",
            "rack": f"r{number}",
            "properties": "/etc/kafka/server.properties",
            "log_dirs": ["/data/kafka"],
            "unit": "kafka.service",
        }
        for number in (1, 2, 3)
    ]
    controllers = [
        {
            "id": 2999 + number,
            "host": f"c{number}",
            "properties": "/etc/kafka/controller.properties",
            "log_dirs": ["/var/lib/kafka-controller"],
            "unit": "kafka-controller.service",
            "guard": "/usr/local/lib/zk2kraft/zk2kraft-guard",
        }
        for number in (1, 2, 3)
    ]
    return {
        "version": 1,
        "cluster": {
            "name": "orders-prod",
            "zookeeper": "zk1:2181,zk2:2181/kafka",
            "bootstrap_servers": "b1:9092,b2:9092",
            "quorum": {"voters": "3000@c1:9093,3001@c2:9093,3002@c3:9093"},
        },
        "actuator": {"kind": "exec", "template": "ssh-systemd.yaml", "settings": {"login": "kafka"}},
        "brokers": brokers,
        "controllers": controllers,
    }
