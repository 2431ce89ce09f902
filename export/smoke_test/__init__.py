"""The artifact beside Keras, before it is published."""
