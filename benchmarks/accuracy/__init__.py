"""How far the encodings in use are from the exact signal."""
