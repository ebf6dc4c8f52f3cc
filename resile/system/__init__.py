"""What the operating system tells, in Python: how a process ended, since when it runs, its cgroups.

These modules lie below all others, import none of them, and may be imported by each. They import
the standard library alone, because agents and supervisors load them as they start.
"""
