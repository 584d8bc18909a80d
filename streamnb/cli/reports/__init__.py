"""What commands print of a state."""
