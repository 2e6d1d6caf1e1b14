"""The k3fleet command line."""
