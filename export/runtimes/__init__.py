"""One file a runtime: how to load an artifact and run it."""
