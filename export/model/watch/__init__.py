"""How Keras calls a model: its layers recorded, its private names in one place, and what lets it be traced."""
