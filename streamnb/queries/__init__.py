"""Ask a model: predictions, explanations, published predictions, labels in force.

    query_model.py            which model is asked, how old it is, and predictions with warnings
    answers.py                explanations, words and labels as JSON values
    published_prediction.py   finds what was published of an event, and derives it again
    resolved_labels.py        the label in force, from records of the topic of labels

The command line and the HTTP service both answer through this room, so their answers agree.
"""
