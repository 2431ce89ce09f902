"""What may have become of an array: pure functions of what it should be and what it is."""
