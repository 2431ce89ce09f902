"""From a converted graph to the model that is written: weights, names, order, checks."""
