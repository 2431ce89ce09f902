"""What the exporter and the parity check cost, and how fast the files are."""
