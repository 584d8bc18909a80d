"""The words of the house: what an attribute, a value, a weight, a prior and a saved state is.

Imports no other room.
"""
