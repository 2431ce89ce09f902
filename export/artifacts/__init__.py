"""Results of an export and artifacts from disk: records, formats, one reader a format."""
