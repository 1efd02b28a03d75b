"""Name resolution: references, their order, and the lineage of models."""
