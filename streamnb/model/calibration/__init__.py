"""Calibration of probabilities: temperature scaling, histogram binning, Platt scaling."""
