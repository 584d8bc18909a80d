"""Adapters: each connects one external system through one port."""
