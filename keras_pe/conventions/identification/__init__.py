"""Which convention made a table."""
