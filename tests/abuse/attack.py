"""What is tried against real processes by somebody without credentials: a table that the attacks fill."""

import dataclasses
import typing

ATTACKS = []


@dataclasses.dataclass
class Attack:
    tried: str
    before: str  # what came of it before there was a defence
    is_short: bool  # runs in every test, not only in `make abuse`
    is_about_memory: bool  # what a process keeps, which no sanitizer leaves as it is
    run: typing.Callable  # (binary, model, seconds) -> what comes of it now; raises when that is wrong


def attack(tried, before, is_short=False, is_about_memory=False):
    """Of a function that takes the binary, the model folder and how long to go on, in seconds."""

    def add(function):
        ATTACKS.append(Attack(tried, before, is_short, is_about_memory, function))
        return function

    return add
