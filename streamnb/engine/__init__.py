"""The semantics of the stream: pure; what it asks of the outside is in ports.py."""
