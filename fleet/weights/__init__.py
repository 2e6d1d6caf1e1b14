"""Decide about weights in object stores: what must be there, what is right, what is left to do."""
