"""What holds for every test."""

from hypothesis import settings

settings.register_profile("no clock", deadline=None)
settings.load_profile("no clock")
"""How long an example takes says how busy the machine is: that belongs into a benchmark."""
