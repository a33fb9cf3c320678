"""The list of classes for the archive, made of several JVMs' lists. Every test with a broker uses the archive."""

from __future__ import annotations

from pathlib import Path

from migrator.lab.classes import merged_lists

LAMBDA = "@lambda-proxy kafka/Kafka$ apply (Lkafka/Kafka$;)Lscala/Function0; ()V REF_invokeStatic kafka/Kafka$ main$1"


def test_lists_of_classes_become_one_without_ids_and_without_classes_of_other_loaders(tmp_path: Path) -> None:
    broker, tool = tmp_path / "0", tmp_path / "1"
    broker.write_text(f"# NOTE\njava/lang/Object id: 0\nkafka/Kafka id: 7\n{LAMBDA}\n")
    tool.write_text("java/lang/Object id: 0\nkafka/tools/StorageTool id: 7\nA id: 9 super: 0 source: /plugin.jar\n")
    assert merged_lists([tool, broker]) == ["java/lang/Object", "kafka/Kafka", LAMBDA, "kafka/tools/StorageTool"]
