"""The stages of every export, from the arguments of an exporter to the published file."""
