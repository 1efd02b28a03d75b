"""The options that say whose signatures count: those of SSH keys, or of an identity in Sigstore."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

import click

from posttrain.cli.invalid_usage import InvalidUsage
from posttrain.cli.recipe_origin import origin_files

if TYPE_CHECKING:
    from posttrain.runtime.provenance.verify_artifact import Trust

_ALLOWED = "allowed_signers"
_REVOKED = "revoked_keys"


class TrustOptions(TypedDict):
    """The values of the options, as click passes them."""

    allowed_signers: str
    revoked_keys: str | None
    verify_time: str | None
    certificate_identity: str | None
    certificate_oidc_issuer: str | None


_OPTIONS = (
    click.option(
        "--allowed-signers",
        metavar="FILE",
        default=_ALLOWED,
        show_default=True,
        help="The signers whom you trust, in the format of OpenSSH and git.",
    ),
    click.option(
        "--revoked-keys",
        metavar="FILE",
        help="Keys that do not count any more: a revocation list of OpenSSH, or public keys; default:"
        f" {_REVOKED} next to the allowed signers, if it exists.",
    ),
    click.option(
        "--verify-time",
        metavar="YYYYMMDD[HHMM]",
        help="Accept keys that were valid at this time, such as one that has expired since; default: now.",
    ),
    click.option(
        "--certificate-identity",
        metavar="IDENTITY",
        help="Trust this identity in Sigstore instead, such as the URL of a workflow.",
    ),
    click.option("--certificate-oidc-issuer", metavar="URL", help="The issuer of that identity."),
)


def trust_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options; the command takes them as a `TrustOptions`."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def names_signers(options: TrustOptions) -> bool:
    """Whether the options or the default file name any signer."""
    named = options["allowed_signers"] != _ALLOWED or options["certificate_identity"] is not None
    return named or Path(_ALLOWED).is_file()


def read_trust(options: TrustOptions) -> "Trust":
    """Whom the options trust. A revocation list that is missing is an error: it must not be forgotten."""
    identity, issuer = options["certificate_identity"], options["certificate_oidc_issuer"]
    if (identity is None) != (issuer is None):
        raise InvalidUsage("--certificate-identity and --certificate-oidc-issuer belong together: set both")
    if identity is not None and issuer is not None:
        from posttrain.runtime.provenance.sigstore_bundle import TrustedIdentity

        return TrustedIdentity(identity=identity, issuer=issuer)
    from posttrain.runtime.provenance.ssh_keygen import TrustedKeys

    allowed, listed, time = Path(options["allowed_signers"]), options["revoked_keys"], options["verify_time"]
    if allowed.is_file() and (pulled := origin_files(allowed)):
        message = f"{allowed} comes with a pulled recipe ({pulled[0]}), which cannot say whom you trust"
        raise InvalidUsage(f"{message}; name your own file with --allowed-signers")
    revoked = Path(listed) if listed is not None else allowed.with_name(_REVOKED)
    if not revoked.is_file() and (listed is not None or os.path.lexists(revoked)):
        raise InvalidUsage(f"no such file: {revoked}; name the list of revoked keys")
    if time is not None and not _is_time(time):
        raise InvalidUsage(f"--verify-time takes YYYYMMDD[HHMM[SS]], such as 20270131; got `{time}`")
    return TrustedKeys(
        allowed_signers=allowed, revoked_keys=revoked if revoked.exists() else None, verify_time=time
    )


def _is_time(text: str) -> bool:
    """Whether ssh-keygen, which knows the time zone, can read it."""
    from datetime import date, time

    digits = text.removesuffix("Z")
    if len(digits) not in (8, 12, 14) or not (digits.isascii() and digits.isdigit()):
        return False
    clock = digits[8:].ljust(6, "0")
    try:
        date(int(digits[:4]), int(digits[4:6]), int(digits[6:8]))
        time(int(clock[:2]), int(clock[2:4]), int(clock[4:]))
    except ValueError:
        return False
    return True
