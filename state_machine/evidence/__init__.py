"""What gates look at, put together from rows."""
