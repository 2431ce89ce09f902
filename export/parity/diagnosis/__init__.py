"""Where a failing artifact differs, and why."""
