"""Play sessions with Locust: one process or many, in stages or in search of a limit."""
