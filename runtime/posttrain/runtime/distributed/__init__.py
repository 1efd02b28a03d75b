"""Multi-process steps: launch, rendezvous, sharding strategies and vLLM."""
