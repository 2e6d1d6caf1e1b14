"""Send a request, read and time its stream, and name what went wrong."""
