"""What `doctor` looks at: each check is a function from values to findings, or gathers such values."""
