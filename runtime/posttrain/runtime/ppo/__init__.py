"""Proximal policy optimization (PPO): advantages, losses, rollouts and the trainer."""
