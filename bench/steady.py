"""CPU used by agents and masters while training runs without faults.

All processes of a job that are neither its workers nor children of workers count: agents, their
helper processes, masters, a service the launcher needs. The result is the share of one core, per
node. CPU time comes from /proc/<pid>/stat, whose resolution (10 ms) is small compared to the
window.
"""

from bench.episodes import SETTLED_STEPS, TWO_BY_ONE, Findings, start_all
from bench.jobs import Job, running
from bench.launchers import Launcher
from bench.processes import command_line, cpu_seconds, parent

# A launcher's first seconds are busy with starting; they are not the steady state.
_WARM_UP = 5.0


def steady_cost(launcher: Launcher, findings: Findings, *, seconds: float) -> None:
    """Measure percent of one core, per node, over a window of training on 2 nodes x 1."""
    with running(launcher, TWO_BY_ONE, keep=findings.keep) as job:
        start_all(job)
        ready = job.wait_for_steps(world=2, steps=SETTLED_STEPS)
        job.wait_until(ready + _WARM_UP)
        before = overhead(job)
        job.wait_until(ready + _WARM_UP + seconds)
        after = overhead(job)
        masters = {pid for pid in after if launcher.is_master(command_line(pid))}
        nodes = job.site.shape.max_nodes

    def share(pids: set[int]) -> float:
        used = sum(after[pid] - before.get(pid, 0.0) for pid in pids)
        return 100 * used / seconds / nodes

    findings.values["steady-agent"] = share(set(after) - masters)
    findings.values["steady-master"] = share(masters)
    findings.values["steady-total"] = share(set(after))


def overhead(job: Job) -> dict[int, float]:
    """CPU seconds used so far by each process that does not train."""
    workers = {record.pid for record in job.records()}
    return {pid: cpu_seconds(pid) for pid in job.pids() if not _belongs_to(pid, workers)}


def _belongs_to(pid: int | None, workers: set[int]) -> bool:
    """Whether a process is a worker or descends from one."""
    while pid is not None and pid > 1:
        if pid in workers:
            return True
        pid = parent(pid)
    return False
