"""Bring weights into every region's bucket, and keep them right."""
