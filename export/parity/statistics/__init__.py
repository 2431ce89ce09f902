"""Statistics of a shard: small records that merge to the same result in any order."""
