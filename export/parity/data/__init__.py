"""Rows of a data set: where they come from, in shards, and in batches that a model takes."""
