"""What measures speed and latency."""
