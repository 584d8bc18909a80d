"""A model that follows a running learner, and answers over HTTP or predicts the events of the log."""
