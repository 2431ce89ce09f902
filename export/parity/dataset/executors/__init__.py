"""Where shards run."""
