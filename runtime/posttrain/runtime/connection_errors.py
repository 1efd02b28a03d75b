"""Errors of HTTP connections as text, and the Retry-After header."""

import re


def explain_connection_error(error: BaseException, without_tls: str) -> str:
    """Describe a failed connection by its first cause. `without_tls`: what to do without TLS."""
    import ssl

    while (cause := error.__cause__ or error.__context__) is not None:
        error = cause
    reason = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    if isinstance(error, ssl.SSLCertVerificationError):
        return (
            f"the server's certificate is not trusted: {error.verify_message}; if a private authority signed"
            " it, set SSL_CERT_FILE to a file with the authority's certificate"
        )
    if isinstance(error, ssl.SSLError):
        return f"no TLS connection: {reason}; if the server does not use TLS, {without_tls}"
    return reason


def parse_retry_after(header: str | None) -> float | None:
    """Parse a Retry-After header, which is a number of seconds or a date. Returns seconds."""
    from datetime import UTC, datetime
    from email.utils import parsedate_to_datetime

    if header is None:
        return None
    if re.fullmatch(r"\s*\d+(\.\d+)?\s*", header):
        return float(header)
    try:
        when = parsedate_to_datetime(header)
    except ValueError:
        return None
    return max(0.0, (when.astimezone(UTC) - datetime.now(UTC)).total_seconds())
