"""The recount of the features of a softmax regression."""
