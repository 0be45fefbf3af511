"""Patterns by example, their matcher, and the report of what was and what nearly was replaced."""
