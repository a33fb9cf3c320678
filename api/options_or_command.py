"""A command with options of its own, and with commands below it.

In:   words of a command line. Out: the command, with its options; or one below it, and then no option is required.
Source: Typer's `invoke_without_command`, which asks for required options even where a command below is named.
"""

from __future__ import annotations

from typing import Any

from typer.core import TyperGroup


class OptionsOrCommand(TyperGroup):
    """Takes the first word as the name of a command below it, unless it is an option."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        below = bool(args) and not args[0].startswith("-")
        as_it_was = ctx.resilient_parsing
        ctx.resilient_parsing = as_it_was or below
        try:
            return super().parse_args(ctx, args)
        finally:
            ctx.resilient_parsing = as_it_was
