"""Readers and writers of StableHLO modules and jaxprs around one SSA graph."""
