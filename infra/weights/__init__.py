"""Bring weights and what belongs to them to where they are served."""
