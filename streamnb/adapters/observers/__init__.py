"""Who watches a running learner: HTTP, Prometheus, the watchdog."""
