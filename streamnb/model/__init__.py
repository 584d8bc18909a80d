"""The mathematics: pure, without I/O, clock, logging or Kafka. River's vocabulary (x: dict, y)."""
