"""What the report of a data set says: sentences, tables and pictures of many rows, in one document and as JSON."""
