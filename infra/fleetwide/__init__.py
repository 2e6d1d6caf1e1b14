"""Declare what all regions of a fleet share, in one AWS account."""
