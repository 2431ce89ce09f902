"""Statistics of a shard: small, and equal in every order of merging."""
