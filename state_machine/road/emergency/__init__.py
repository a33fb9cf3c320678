"""The way back while a host or a broker is dead: what still holds a stop, and who is left out by name."""
