"""The agent of one node: joins rounds, runs the node's workers and reports on them."""
