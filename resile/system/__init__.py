"""Facts from the operating system: exit status, start time and cgroups of processes, file locks.

These modules are the bottom layer: they import no other module of Resile and may be imported by
every one. They import only the standard library, because agents and supervisors load them at start.
"""
