"""Checks of a live endpoint."""
