"""Hosts are asked beside each other, on threads of their own, and what they said has its own age."""
