"""Decoders of language models: their folder of files, a run call by call, and generation."""
