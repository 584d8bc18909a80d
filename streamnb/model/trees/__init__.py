"""Tree-augmented naive Bayes and Chow-Liu trees."""
