"""The board between a job's controller and everybody else.

The controller publishes its status and its decisions here; people ask here for other sizes or for
the job's end, and the controller reads what they asked. Everything is kept in the store with the
same commit as the story it belongs to, so a master that is killed in between forgets nothing.
What nodes use at the moment is not kept: it is told again every few seconds. Nor are the nodes'
addresses: a controller tells a master that was started again everything anew.

BoardError
├── NoController     nobody looks after this job's nodes
├── NotNow           the job is over or being deleted
├── WrongSize        a role that does not exist, or a size it cannot have
└── Unusable         a controller published what is no job
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from resile.job.addresses import Addresses
from resile.job.errors import JobError
from resile.job.events import EventKind
from resile.job.manifest import job_from_data
from resile.job.role import RoleSpec
from resile.job.spec import ElasticJob, JobSpec
from resile.job.status import DecisionNote
from resile.job.training import TrainingView
from resile.job.view import JobView, combine
from resile.master.groups import Groups
from resile.master.membership import Membership
from resile.master.records import BOARD_KEY, ENDINGS, BoardRecord
from resile.wire.messages import Usage
from resile.wire.views import Publication


class BoardError(Exception):
    """Base of all refusals; the text is for whoever asked."""


class NoController(BoardError):
    """There is no controller that could do it."""


class NotNow(BoardError):
    """The job is in no state for it."""


class WrongSize(BoardError):
    """The role or the size is not one the job has."""


class Unusable(BoardError):
    """What a controller published cannot be understood or kept."""


class Board:
    """One job's board. Every change is made inside the service's one task."""

    def __init__(self, groups: Groups, record: BoardRecord) -> None:
        self._groups = groups
        self.record = record
        self.usage: dict[str, Usage] = {}
        """What nodes use, by name."""
        self.addresses: Addresses | None = None
        """Where nodes are found, as it was published last."""

    @property
    def _main(self) -> Membership:
        return self._groups.main

    # --- the controller ---------------------------------------------------------------------

    def publish(self, publication: Publication, *, now: float) -> None:
        """Take the controller's word; decisions that were told before are not told again."""
        told = self.record.notes_told
        record = msgspec.structs.replace(
            self.record,
            manifest=publication.manifest,
            status=publication.status,
            notes_told=max(told, publication.first_note + len(publication.notes)),
            created=self.record.created or self._main.journal.wall(now),
        )
        job = _understood(record)
        for number, note in enumerate(publication.notes, publication.first_note):
            if number >= told:
                self._tell(note, now)
        self._keep(record)
        self.addresses = publication.addresses
        main = self._main
        main.adapt(job.spec.elasticity(), now=now)
        if publication.holders == 0:
            self._groups.nobody_holds_anything(now=now)
        if publication.wanted_nodes is not None and not main.job.outcome:
            main.want(publication.wanted_nodes, now=now)
        self._groups.direct(publication.groups, now=now)
        self._groups.rest(job.spec.suspend, now=now)

    def _tell(self, note: DecisionNote, now: float) -> None:
        ending = any(note.reason == kind.value for kind in ENDINGS.values())
        if ending and self._main.job.outcome is not None:
            return  # the master told of the job's end itself
        journal, number = self._main.journal, self._main.round.number
        journal.write(note.reason, note.sentence, now, round=number)

    # --- people -----------------------------------------------------------------------------

    def scale(self, sizes: Mapping[str, int], *, now: float) -> None:
        """Ask for other sizes; all of them or none."""
        spec = self._steerable("scaled")
        if not sizes:
            raise WrongSize("name at least one role and its size, such as worker=3")
        for role, size in sizes.items():
            if role not in spec.roles:
                raise WrongSize(f"there is no role '{role}'; there are {', '.join(spec.roles)}")
            check_size(role, spec.roles[role], size)
        wishes = {**self.record.wishes, **sizes}
        self._keep(msgspec.structs.replace(self.record, wishes=wishes))
        asked = ", ".join(f"{role}={size}" for role, size in sizes.items())
        self._say(EventKind.SCALE_REQUESTED, f"a user asked for {asked}", now)

    def suspend(self, wish: bool, *, now: float) -> None:
        """Ask for the job to be without nodes for a while, or to go on."""
        what = "suspended" if wish else "resumed"
        self._steerable(what)
        if self.record.suspend is not wish:
            self._keep(msgspec.structs.replace(self.record, suspend=wish))
            kind = EventKind.SUSPEND_REQUESTED if wish else EventKind.RESUME_REQUESTED
            self._say(kind, f"a user asked for the job to be {what}", now)

    def delete(self, *, now: float) -> None:
        """Ask for the job's end. Asking twice is asking once."""
        if self.record.manifest is None:
            raise NoController("this job has no controller; stop it where it was started")
        if not self.record.deleting:
            self._keep(msgspec.structs.replace(self.record, deleting=True))
            self._say(EventKind.DELETION_REQUESTED, "a user asked for the job to be deleted", now)

    def view(self, trainings: Mapping[str, TrainingView], *, now: float) -> JobView:
        """Everything there is to see. ``now`` is Unix time."""
        record = self.record
        return combine(
            self._main.job.job,
            status=record.status,
            trainings=trainings,
            manifest=record.manifest,
            usage=self.usage,
            wishes=record.wishes,
            suspend=record.suspend,
            deleting=record.deleting,
            created=record.created,
            now=now,
        )

    def _steerable(self, what: str) -> JobSpec:
        record = self.record
        if record.manifest is None or record.status is None:
            raise NoController(f"this job has no controller, so it cannot be {what}")
        if record.deleting:
            raise NotNow(f"the job is being deleted; it cannot be {what} any more")
        if record.status.finished or self._main.job.outcome:
            raise NotNow(f"the job is over; it cannot be {what} any more")
        return job_from_data(record.manifest).spec

    def _keep(self, record: BoardRecord) -> None:
        self.record = record
        self._main.journal.keep(BOARD_KEY, record)

    def _say(self, kind: EventKind, text: str, now: float) -> None:
        self._main.journal.tell(kind, text, now, round=self._main.round.number)


def _understood(record: BoardRecord) -> ElasticJob:
    """The job; :class:`Unusable` for what could be published, but neither understood nor kept."""
    try:
        job = job_from_data(record.manifest)
        msgspec.msgpack.encode(record)
    except (JobError, OverflowError, RecursionError, ValueError) as error:
        raise Unusable(f"this is not published: {error}") from None
    return job


def check_size(role: str, spec: RoleSpec, size: int) -> None:
    """Raise :class:`WrongSize` unless the role may have so many nodes."""
    bounds = spec.size
    if not bounds.min <= size <= bounds.max:
        raise WrongSize(
            f"role {role} may have {bounds.min} to {bounds.max} nodes, not {size} "
            "(min and max in the manifest)"
        )
    if size % spec.node_unit:
        raise WrongSize(f"role {role} grows in units of {spec.node_unit} nodes (nodeUnit)")
