"""Inputs to try, pure comparison, verdict, cause, report."""
