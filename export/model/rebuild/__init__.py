"""The same model made again, with its weights: in another precision, or a clone."""
