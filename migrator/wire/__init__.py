"""Kafka's bytes: declared messages, generated codecs, record batches."""
