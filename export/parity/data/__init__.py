"""Reads the rows of a data set, in shards, and makes batches that a model takes."""
