"""Decide about racks that exist: what differs, what is fit, which replica moves, what is drawn.

Pure: what was read from clusters and nodes comes in, sentences, plans and pictures go out.
"""
