"""Exit statuses as text: the same words in logs, events, reports and errors."""

from __future__ import annotations

import signal

__all__ = ["describe_exit", "shell_code"]


def describe_exit(code: int) -> str:
    """Describe an exit status: "exited with code 3", "was killed by SIGKILL (code 137)".

    ``code`` is in the convention of subprocess: -n for signal n.
    """
    if code >= 0:
        return f"exited with code {code}"
    return f"was killed by {_signal_name(-code)} (code {shell_code(code)})"


def shell_code(code: int) -> int:
    """The code in the convention of shells and Kubernetes: 128 + n for signal n."""
    return 128 - code if code < 0 else code


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
