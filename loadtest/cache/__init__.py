"""What the prefix cache could have served."""
