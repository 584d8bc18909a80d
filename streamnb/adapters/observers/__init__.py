"""Observers of a running learner: HTTP, Prometheus, the watchdog."""
