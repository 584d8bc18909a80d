"""What the engine asks of a model, what a model answers, and a River classifier as such a model."""
