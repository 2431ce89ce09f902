"""What is done with the shards of a data set: who runs them, where their results stand, and how rows are measured."""
