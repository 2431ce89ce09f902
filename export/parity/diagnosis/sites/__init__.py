"""Where a change may be: each yields edits of a recorded call, which may give the artifact's numbers."""
