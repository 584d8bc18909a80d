"""Progressive validation and detectors of drift."""
