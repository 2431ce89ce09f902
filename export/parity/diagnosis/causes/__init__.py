"""Why: each detector looks for one cause, and says what speaks for it."""
