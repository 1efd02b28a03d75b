"""The errors of signatures and statements."""

from posttrain.runtime.errors import StepError


class ProvenanceError(StepError):
    """A statement that cannot be signed, or that does not hold, with cause and advice."""


class SignatureError(ProvenanceError):
    """A signature that is not valid, or not that of a trusted signer."""
