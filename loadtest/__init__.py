"""Agentic coding traffic, the cache oracle and the gates that judge a run."""
