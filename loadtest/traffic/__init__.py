"""What agents send: profiles, and the sessions drawn from them."""
