"""One file for each command, which holds its options' meaning and nothing that another command needs."""
