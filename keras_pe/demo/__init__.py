"""The demonstration: a Transformer that forecasts a real series, exported and checked."""
