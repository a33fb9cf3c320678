"""Flaws of released Kafka that a log can be seen to run into."""
