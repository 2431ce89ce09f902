"""A failure in a file, and running it again."""
