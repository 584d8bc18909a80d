"""History as if the truth had always been known: a model learned anew from the log."""
