"""The report of a data set, in every form."""
