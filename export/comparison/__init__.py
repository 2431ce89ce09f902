"""Whether two runtimes say the same: reference, inputs, run, compare, and the tolerance."""
