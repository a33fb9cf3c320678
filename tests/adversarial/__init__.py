"""Takeovers that are cut short, again and again, on real servers under load (docs/adversarial.md)."""
