"""What the report of a check says: its results in groups, as sentences, tables and pictures, in one document."""
