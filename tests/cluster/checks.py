"""What was found: each failure is printed as it is met, and `N passed, N failed` at the end."""

import sys
import time

passed, failures = 0, []


def check(claim, holds, found=""):
    global passed
    if holds:
        passed += 1
        return True
    failures.append(claim)
    print(f"FAILED: {claim}{f': {found}' if found != '' else ''}", flush=True)
    return False


def until(seconds, condition, pause_s=0.2):
    """The first true answer; the last one, when none came in time."""
    end = time.monotonic() + seconds
    while not (answer := condition()) and time.monotonic() < end:
        time.sleep(pause_s)
    return answer


def close():
    print(f"{passed} passed, {len(failures)} failed")
    sys.exit(1 if failures or not passed else 0)
