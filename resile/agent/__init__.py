"""One node: joins rounds, runs its workers, reports."""
