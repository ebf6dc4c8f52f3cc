"""Starting a master on this machine: the state directory, and the master's process."""
