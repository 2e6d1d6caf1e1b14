"""Show a test live: tabs of Locust's page, a page of charts, CSV files, and a login."""
