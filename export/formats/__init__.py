"""The formats: each has one file or folder, with a function that traces a model for the format."""
