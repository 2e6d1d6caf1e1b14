"""Report a rollout: its steps over what frontends, replicas and clients saw meanwhile."""
