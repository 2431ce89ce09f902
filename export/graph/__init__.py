"""The traced graph of a model: the trace, the replacements of operators, and queries of the graph."""
