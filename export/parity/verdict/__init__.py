"""Running one runtime and comparing what it returns."""
