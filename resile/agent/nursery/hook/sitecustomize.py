"""Turns a starting interpreter into a nursery (a warm fork server), within its own start-up.

The agent starts `python script.py ...` with this folder at the front of PYTHONPATH. The
interpreter's `site` module imports `sitecustomize` when everything but the script itself is set
up, and finds this file. The process stays here and serves as a nursery. A forked worker returns
from here and the interpreter continues: it puts the script's folder on `sys.path`, reads the
script and runs it. So nothing about running a script is imitated; a warm worker *is* a
`python script.py`, with imports already done. (Run as a file, without PYTHONPATH, it is a nursery
for cold workers; cold Python workers pass through this file in their own start-up, for the one
finder that all workers have.)

There are two hazards. If an exception left this file, `site` would report it and continue to run
the user's script in the nursery: hence every failure ends the process. If this file were not found
at all, the same would happen, so the agent first tries a harmless command.
"""

import os
import sys

_TASK = os.environ.pop("RESILE_NURSERY", "")


def _become_nursery(descriptor: int) -> None:
    nursery = os.getpid()
    baseline = set(sys.modules)
    try:
        _load_inside()
        from _resile_nursery.serve import serve  # type: ignore[import-not-found]

        # Looked up now: in a worker it would touch the name of every loaded module.
        ours = [name for name in sys.modules if name.startswith("_resile_nursery")]
        serve(descriptor, baseline)
    except KeyboardInterrupt:
        # Just before a child becomes a worker; an interrupt of the script looks the same.
        import signal

        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    except BaseException:
        import traceback

        traceback.print_exc()
        sys.stderr.flush()
        os._exit(70 if os.getpid() == nursery else 126)
    for name in ours:
        del sys.modules[name]


def _load_inside() -> None:
    """Load `resile.agent.nursery.inside` under a name of its own, without its parents."""
    from importlib.util import module_from_spec, spec_from_file_location

    folder = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "inside")
    spec = spec_from_file_location(
        "_resile_nursery",
        os.path.join(folder, "__init__.py"),
        submodule_search_locations=[folder],
    )
    assert spec is not None
    assert spec.loader is not None
    package = module_from_spec(spec)
    sys.modules[spec.name] = package
    spec.loader.exec_module(package)


def _stand_aside() -> BaseException | None:
    """Let the machine's own `sitecustomize` run, and return the exception that it ended with."""
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if entry != here]
    sys.path_importer_cache.pop(here, None)
    del sys.modules["sitecustomize"]
    try:
        import sitecustomize  # type: ignore[import-not-found]  # noqa: F401
    except BaseException as error:
        return error
    return None


def _be_a_cold_worker() -> None:
    _load_inside()
    from _resile_nursery.worker_start import begin  # type: ignore[import-not-found]

    begin(os.environ)
    for name in [name for name in sys.modules if name.startswith("_resile_nursery")]:
        del sys.modules[name]


if _TASK == "trial":
    os._exit(17)
if _TASK:
    _OUTCOME = _stand_aside() if __name__ == "sitecustomize" else None
    if _TASK == "cold":
        _be_a_cold_worker()
    else:
        _become_nursery(int(_TASK))
    if _OUTCOME is not None:
        # Usually an ImportError, because there is no other one; `site` handles each kind.
        raise _OUTCOME
