"""What counts again, with whole numbers and plain dictionaries, and compares."""
