"""Values and conversions that every room shares: kinds, weights, names, checks of a state.

    messages.py              a sentence for people, with its event name and fields
    message_names.py         all names of messages, dead letters and problems over HTTP, with their levels
    example_weights.py       weights and counts in units of 1/1024 example
    nominal_values.py        the text by which nominal values are compared
    similar_labels.py        labels that look the same; imports no numpy, as commands use it
    number_ranges.py         whether a number is missing, finite, or in a range
    json_conversion.py       times, durations, decimals and bytes as JSON values
    parameter_checks.py      checks of constructor arguments, and how messages show values
    state_validation.py      what a saved state must be, as a table, checked before it is used
    savable.py, hooks.py     functions for files and notebooks, filled by other rooms

A kernel checks no bounds, so `state_validation.checked` is the barrier
between a file and an array that a kernel indexes.
"""
