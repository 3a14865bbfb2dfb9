"""A simulated GPU: libcuda and libnvidia-ml that behave like a named machine, and a load generator."""
