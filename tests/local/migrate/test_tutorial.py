"""The tutorial's own lines run unchanged under `resile run`, and the files that it shows appear."""

from __future__ import annotations

import re
from pathlib import Path

from tests.local.migrate.moving import FAR, Moved

SCRIPT = Path(__file__).parent / "scripts" / "tutorial.py"
BLOCK = """\
# metircs to be recorded
metircs = {'epoch': -1, 'best_epoch': -1, 'best_acc': 0.}

# A migrator helps training models on k8s more secure.
from migration import migrator
migrator.register('model', model)
migrator.register('optimizer', optimizer)
migrator.register('metircs', metircs)
migrator.listening()
if migrator.resume:  # note: migrate_ckpt has higher priority than args.ckpt
    migrator.load_ckpt()  # load ckpt at all ranks
    print('load migration ckpt from epoch {}, metrics: {}'.format(
        metircs['epoch'], metircs))
"""


def best_after(epoch: int) -> dict[str, float]:
    """The script's metrics after that epoch."""
    best = max(range(epoch + 1), key=lambda one: one * 37 % 101)
    return {"epoch": epoch, "best_epoch": best, "best_acc": float(best * 37 % 101)}


def test_its_block_is_moved_and_both_ranks_go_on_with_their_best_score(moved: Moved) -> None:
    assert BLOCK in SCRIPT.read_text()
    moved.train(script=SCRIPT, STEPS=str(FAR))
    assert moved.hook("poststart").returncode == 0
    moved.reached(5)
    last = moved.stop()
    files = {path.name for path in moved.volume.iterdir() if not path.name.startswith(".")}
    assert files == {"migration.pth", "signal", "preStop.log", "postStart.log"}
    assert moved.signal == "resume"
    assert moved.saved["metircs"] == best_after(last)

    again = moved.train(script=SCRIPT, STEPS=str(last + 5))
    assert again.wait() == 0, again.output
    assert moved.beginnings() == [("resumed", last + 1)] * 2
    said = re.findall(r"load migration ckpt from epoch (\d+), metrics: (\{.*\})", again.output)
    assert said == [(str(last), str(best_after(last)))] * 2
