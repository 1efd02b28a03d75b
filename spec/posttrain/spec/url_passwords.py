"""Masks the passwords and tokens in URLs, such as https://user:PASSWORD@host."""

import re

# A password extends to the last `@` before the path. The user of an HTTP URL without a password can be a
# token. A normalized path has one slash after the scheme.
_CREDENTIALS = re.compile(
    r"""(?P<head>\b[a-z][a-z0-9+.-]*://?[^\s/:@"'`]*:)(?P<secret>[^\s/"'`]+)@"""
    r"""|(?P<scheme>\bhttps?://?)(?P<token>[^\s/:@"'`]+)@""",
    re.IGNORECASE,
)


def mask_url_passwords(text: str, *, same_length: bool = False) -> str:
    """The text with stars in place of the passwords. With `same_length`, the columns do not change."""
    if ":/" not in text or "@" not in text:
        return text

    def mask(found: re.Match[str]) -> str:
        start, secret = found["head"] or found["scheme"], found["secret"] or found["token"]
        return f"{start}{'*' * len(secret) if same_length else '***'}@"

    return _CREDENTIALS.sub(mask, text)


def url_passwords(text: str) -> list[str]:
    """The passwords of the URLs in a text."""
    return [found["secret"] for found in _CREDENTIALS.finditer(text) if found["secret"]]
