"""What measures speed and latency, and what parts bring; `measure.py` has the commands."""
