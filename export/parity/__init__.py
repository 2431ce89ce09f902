"""Does the artifact say what the model says? Runs both, compares, and names the layer and the cause of a difference."""
