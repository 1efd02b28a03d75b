"""The exit codes, and the exception for an invalid command line."""

import click

EXIT_ERRORS = 1
EXIT_USAGE = 2


class InvalidUsage(click.ClickException):
    """An invalid command line: status 2."""

    exit_code = EXIT_USAGE
