"""Start a program that outlives its starter, and write its pid file: PIDFILE PROGRAM ARGS...

Run as a script, with nothing but the standard library. The *child* writes the pid file and then
becomes the program, so the program never runs without a pid file, even if the caller is killed at
any time. The content is `pid start-time boot`; a pid alone may later belong to another process.
"""

import os
import sys


def main() -> None:
    """Return once the program has replaced the child, or has failed to start."""
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
