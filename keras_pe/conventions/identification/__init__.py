"""Identifies the convention of a table of encodings."""
