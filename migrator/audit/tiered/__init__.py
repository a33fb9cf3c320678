"""Tiered storage: what brokers say of segments that they copied elsewhere."""
