"""Every figure that the README quotes, measured and rendered by one command: `python -m benchmarks`."""
