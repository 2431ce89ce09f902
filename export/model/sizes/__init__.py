"""The valid sizes of a model's inputs, found by shape inference and by a search."""
