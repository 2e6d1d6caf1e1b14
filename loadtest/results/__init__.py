"""What a run did: records, figures, and what servers say."""
