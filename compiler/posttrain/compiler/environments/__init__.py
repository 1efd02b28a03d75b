"""Checks of environments and of the stages that use them."""
