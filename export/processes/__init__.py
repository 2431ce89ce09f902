"""Programs in processes of their own: how they start, answer, hang and end."""
