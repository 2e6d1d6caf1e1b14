"""Read and touch racks that exist: their nodes, their replicas, what their clouds tell."""
