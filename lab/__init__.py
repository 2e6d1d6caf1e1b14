"""The rehearsal lab: a real control plane, router and gateway on one machine, mocked GPUs."""
