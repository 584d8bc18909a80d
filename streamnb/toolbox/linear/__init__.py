"""Linear models: exact least squares, gradient units, and logistic regression.

Events become rows of a design matrix, and predictions are functions of a weighted sum of a row.

    design_matrix.py          events as rows; columns appear as attributes and values are met
    comoments.py              sums of products in 106 bits: the statistics of least squares
    least_squares.py          weights from these sums, of full rank or not
    linear_regression.py      `LinearRegression`: exact at any moment, can be unlearned
    linear_unit.py, sigmoid_unit.py, gradient_unit.py   the delta rule, one event at a time
    logistic_regression.py    `LogisticRegression`: sequential Laplace, then Newton passes
"""
