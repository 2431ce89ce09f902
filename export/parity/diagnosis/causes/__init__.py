"""The detectors of causes. Each looks for one cause and states the evidence."""
