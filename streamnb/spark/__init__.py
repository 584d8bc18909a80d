"""Learning on Apache Spark: workers predict and learn separately, with the model after the last batch."""
