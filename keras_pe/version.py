"""The version of the package, for setuptools and for the notes of an artifact."""

__version__ = "0.1.0"
