"""Signs with the identity of a CI job through Sigstore, and verifies such bundles (extra `sigstore`).

Only a job with an OIDC token can sign. Verification uses the trust root that the package contains, or that an
earlier use has cached, so it needs no network.
"""

from collections.abc import Generator
from contextlib import contextmanager

from posttrain.runtime.lockfile.hub_revisions import first_line
from posttrain.runtime.provenance.dsse_envelope import PAYLOAD_TYPE
from posttrain.runtime.provenance.provenance_error import ProvenanceError, SignatureError
from posttrain.spec.record import record

BUNDLE_TYPE = "application/vnd.dev.sigstore.bundle.v0.3+json"


@record(kw_only=True)
class TrustedIdentity:
    """Who may sign: the identity in the certificate, such as the URL of a workflow, and its issuer."""

    identity: str
    issuer: str


def sign_bundle(payload: bytes) -> tuple[bytes, str]:
    """A bundle with a signed statement, and the identity of the signer. Raises `ProvenanceError`."""
    with _installed_extra():
        from sigstore import dsse, models, oidc, sign
    try:
        token = oidc.detect_credential()
    except oidc.IdentityError as error:
        raise ProvenanceError(f"the CI system gives no identity: {error}", _NO_IDENTITY) from None
    if token is None:
        raise ProvenanceError("there is no identity to sign with: this is no CI job", _NO_IDENTITY)
    try:
        identity = oidc.IdentityToken(token)
    except oidc.IdentityError as error:
        message = f"the CI system gives an identity that Sigstore does not accept: {error}"
        raise ProvenanceError(message, _NO_IDENTITY) from None
    try:
        context = sign.SigningContext.from_trust_config(models.ClientTrustConfig.production())
        with context.signer(identity) as signer:
            bundle = signer.sign_dsse(dsse.Statement(payload))
    except Exception as error:  # those of requests, and of private modules of the library
        cause = f"{type(error).__name__}: {first_line(error)}"
        raise ProvenanceError(
            f"Sigstore did not sign for {identity.identity}: {cause}", _NOT_SIGNED
        ) from None
    return bundle.to_json().encode(), identity.identity


_NO_IDENTITY = "run it in a CI job with an OIDC token (GitHub: `permissions: id-token: write`), or use --key"
_NOT_SIGNED = "check the access to the services of Sigstore, which is necessary to sign, or use --key"


def verify_bundle(data: bytes, trusted: TrustedIdentity) -> tuple[str, bytes]:
    """The signer and the statement of a bundle. Raises `SignatureError`."""
    with _installed_extra():
        from sigstore import models
        from sigstore.verify import Verifier, policy
    try:
        bundle = models.Bundle.from_json(data)
        expected = policy.Identity(identity=trusted.identity, issuer=trusted.issuer)
        kind, payload = Verifier.production(offline=True).verify_dsse(bundle, expected)
    except Exception as error:  # hostile bundles raise those of cryptography and of the JSON models, too
        raise SignatureError(f"the Sigstore bundle is not valid: {first_line(error)}") from None
    if kind != PAYLOAD_TYPE:
        raise SignatureError(f"the Sigstore bundle contains no in-toto statement but {kind:.100}")
    return f"{trusted.identity} ({trusted.issuer})", payload


@contextmanager
def _installed_extra() -> Generator[None]:
    try:
        yield
    except ImportError:
        advice = "install it: pip install 'posttrain[sigstore]'"
        raise ProvenanceError("the extra `sigstore` is not installed", advice) from None
