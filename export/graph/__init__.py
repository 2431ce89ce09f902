"""The model traced once, and what the graph shows."""
