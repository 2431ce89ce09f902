"""The signature of a model: names, dtypes and dynamic dimensions of its inputs and outputs."""
