"""Drive a rollout: the part that touches things. What to do is decided in `fleet.rollout`."""
