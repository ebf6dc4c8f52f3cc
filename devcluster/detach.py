"""Start a program that outlives its starter, and leave a note of who it is: PIDFILE PROGRAM ARGS...

Run as a script of its own, with nothing but the standard library. The *child* writes the note and
then becomes the program, so there is no moment at which the program runs and the note is missing:
whoever called may be killed at any time. The note is `pid start-time boot`; a pid alone would
sooner or later be somebody else's.
"""

import os
import sys


def main() -> None:
    """Return once the program has replaced the child, or has failed to."""
    pid_file, *argv = sys.argv[1:]
    read_end, write_end = os.pipe()
    if os.fork():
        os.close(write_end)
        os.read(read_end, 1)  # Ends when exec closes the other end.
        return
    os.setsid()
    new = f"{pid_file}.{os.getpid()}"
    with open(new, "w") as note:
        note.write(f"{os.getpid()} {_own_start_time()} {_boot()}\n")
    os.rename(new, pid_file)  # noqa: PTH104
    os.execv(argv[0], argv)


def _own_start_time() -> str:
    with open("/proc/self/stat") as stat:
        return stat.read().rpartition(")")[2].split()[19]


def _boot() -> str:
    with open("/proc/sys/kernel/random/boot_id") as boot:
        return boot.read().strip()


if __name__ == "__main__":
    main()
