"""Models of learners that share the partitions of a stream: read, added, written as text, and published."""
