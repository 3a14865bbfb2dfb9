"""The exporter: reads slices and cards, publishes Prometheus metrics, never writes."""
