"""The version of the package: what setuptools reads, and what an artifact says made it."""

__version__ = "0.1.0"
