"""What a model takes and returns: names, dtypes and dynamic dimensions."""
