"""The formats: one file or folder each, with a function that traces a model for it."""
