"""Streamed datasets: files that are downloaded, prepared and deleted while a stage trains on their rows."""
