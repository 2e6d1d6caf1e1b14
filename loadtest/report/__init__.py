"""Show what a load test found: a self-contained page, tables, and files for other programs."""
