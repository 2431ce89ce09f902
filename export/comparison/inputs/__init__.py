"""What a check feeds a model."""
