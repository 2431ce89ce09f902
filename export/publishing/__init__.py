"""Nothing half, nothing lost: what is written beside its destination and renamed into place."""
