"""Alembic's entry: run the steps in `versions/` on the connection that database.py gives.

By hand, for a new step: `alembic --config state_machine/alembic.ini revision --autogenerate -m "what it does"`.
"""

from __future__ import annotations

from alembic import context
from sqlalchemy import create_engine

from state_machine.rows.tables import Base

connection = context.config.attributes.get("connection")
if connection is None:
    connection = create_engine(context.config.get_main_option("sqlalchemy.url") or "sqlite://").connect()
context.configure(connection=connection, target_metadata=Base.metadata, render_as_batch=True)
with context.begin_transaction():
    context.run_migrations()
