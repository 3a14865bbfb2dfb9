"""The node agent: gives slices to programs, publishes time slots, reconciles with NVML."""
