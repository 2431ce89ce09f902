"""Runs the shards of a data set, stores their results, and measures their rows."""
