"""How long the encoding takes: the contestants in each runtime, on one thread and two."""
