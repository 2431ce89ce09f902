"""Connectors to data sets and clusters of other libraries, built on the public interface alone."""
