"""Measures the costs of the exporter and the parity check, and the speed of the files."""
