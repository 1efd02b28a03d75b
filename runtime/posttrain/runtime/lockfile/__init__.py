"""Resolves lock entries from external services: commits on the Hub, and image digests."""
