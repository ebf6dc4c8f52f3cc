"""The ledger: what was really trained, written down by those who trained it, and the proof from it.

Every worker appends to a file of its own which indices each of its steps trained, and from which
step of which round it had resumed (:mod:`~resile.ledger.writer`). Afterwards anybody with the
folder can find out whether each index of each epoch counts exactly once
(:mod:`~resile.ledger.check`), in each group of the job for itself. Imports no torch.
"""

from resile.ledger.check import Verdict, check
from resile.ledger.errors import LedgerDamaged, LedgerError, NoLedger
from resile.ledger.reader import read_ledger
from resile.ledger.writer import FOLDER_VARIABLE, Ledger, round_name

__all__ = [
    "FOLDER_VARIABLE",
    "Ledger",
    "LedgerDamaged",
    "LedgerError",
    "NoLedger",
    "Verdict",
    "check",
    "read_ledger",
    "round_name",
]
