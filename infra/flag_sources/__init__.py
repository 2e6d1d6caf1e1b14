"""Read the flags and variables of an engine out of its wheels, without running the engine."""
