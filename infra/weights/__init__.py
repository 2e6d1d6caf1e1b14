"""Bring weights and what belongs to them into every region's bucket, and keep them right."""
