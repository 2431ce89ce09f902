"""Content of a check's report: its results in groups, as sentences, tables and pictures, in one document."""
