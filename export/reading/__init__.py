"""What stands on disk, read without running it: one file a format."""
