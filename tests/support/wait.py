"""Waiting for a state, with a deadline. The only place in the tests that sleeps."""

import time


def eventually(predicate, deadline_s, describe, poll_s=0.02, unless=None):
    """Polls `predicate` until it returns something true, and returns that.

    An AssertionError, ConnectionError or TimeoutError inside the predicate counts as "not yet".
    `describe` says what is waited for: a text, or a function that makes one when time is up.
    `unless` is called between polls; it raises when waiting has become pointless.
    """
    started = time.monotonic()
    last_problem = None
    while True:
        try:
            result = predicate()
            if result:
                return result
            last_problem = None
        except (AssertionError, ConnectionError, TimeoutError) as problem:
            last_problem = problem
        if unless is not None:
            unless()
        if time.monotonic() - started >= deadline_s:
            what = describe() if callable(describe) else describe
            because = f"; last problem: {last_problem}" if last_problem else ""
            raise TimeoutError(f"not within {deadline_s} s: {what}{because}") from last_problem
        time.sleep(poll_s)
