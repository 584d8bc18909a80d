"""Learning on Apache Spark: workers predict by the model after the last batch, and learn apart from it."""
