"""Publishes artifacts: writes beside the destination, and renames into place."""
