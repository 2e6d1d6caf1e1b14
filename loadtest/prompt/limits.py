"""Say how large what a prompt holds may be; light to import, for who only checks a profile."""

from __future__ import annotations

MOST_CALLS = 8
"""Calls that one answer may make at a time; a place beyond it has tags that were never seen."""
