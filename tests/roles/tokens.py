"""Tokens of a router's tenants, as an operator makes them and a client shows them."""

import pathlib
import subprocess


class Tokens:
    """A tokens file; each token as `kvferry token` makes it."""

    def __init__(self, binary, path):
        self.binary, self.file = binary, pathlib.Path(path)
        self.file.write_text("tokens:\n")

    def add(self, tenant, *flags):
        made = subprocess.run([self.binary, "token", tenant, *flags], check=True, capture_output=True, text=True)
        with self.file.open("a") as file:
            file.write(made.stderr)
        return made.stdout.strip()


def bearer(token):
    return [("authorization", f"Bearer {token}")] if token is not None else []
