"""Observe a running worker: Prometheus metrics, HTTP health, terminal, watchdog.

All are sensors (`engine.sensor.Sensor`): the worker calls them between two steps, and they change
nothing.

    worker_observers.py     assembles the sensors of a process; waits for a log out of reach
    prometheus_sensor.py    metrics of a worker; prometheus_quality.py has scores and rates
    http_endpoints.py       /live, /ready and /metrics in threads of their own
    watchdog.py             ends the process if its worker hangs in a call; recovery makes that safe
"""
