"""Linear models: least squares, gradient units, logistic regression by sequential Laplace and Newton."""
