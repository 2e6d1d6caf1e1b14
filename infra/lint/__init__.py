"""Check manifests, ours and other people's, by rules that know why they exist."""
