"""The action of a classifier with one hidden layer, and what its terms are made of."""
