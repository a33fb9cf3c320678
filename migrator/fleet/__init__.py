"""Brokers and controllers as nodes that somebody operates: inventory, files, actuators, rolling restarts."""
