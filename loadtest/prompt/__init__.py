"""How a session becomes requests: messages, their tokens and their bytes."""
