"""What an export returns and what is read back: records, formats, one reader a format."""
