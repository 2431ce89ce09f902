"""What a check compares with."""
