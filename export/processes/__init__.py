"""Subprocesses: start, requests, timeouts and end."""
