"""The ledger: a record of what was trained, written by the workers, and the check of that record.

Every worker appends to a file of its own the indices that each of its steps trained, and the step
and round that it resumed from (:mod:`~resile.ledger.writer`). Afterwards anyone with the folder can
check that each index of each epoch counts exactly once (:mod:`~resile.ledger.check`), separately
for each group of the job. Imports no torch.
"""

from resile.ledger.check import LedgerVerdict, check
from resile.ledger.errors import LedgerDamaged, LedgerError, NoLedger
from resile.ledger.reader import read_ledger
from resile.ledger.writer import FOLDER_VARIABLE, Ledger, round_name

__all__ = [
    "FOLDER_VARIABLE",
    "Ledger",
    "LedgerDamaged",
    "LedgerError",
    "NoLedger",
    "LedgerVerdict",
    "check",
    "read_ledger",
    "round_name",
]
