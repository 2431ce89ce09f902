"""What is kept of a shard: small, and the same in whatever order shards are merged."""
