"""Commands, the preload flag, environments and the cache: the parts without processes."""

import json
import sys
from collections.abc import Callable, Collection
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resile.agent.nursery import (
    CommandKind,
    Preload,
    PreloadMode,
    PreloadSyntaxError,
    WorkerCommand,
)
from resile.agent.nursery.environment import differences, mentioned, shared_variables
from resile.agent.nursery.inside.protocol import (
    Exited,
    Importing,
    Message,
    MessageReader,
    PreloadResult,
    SignalWorker,
    Spawn,
    pack,
)
from resile.agent.nursery.inside.variables import is_per_worker
from resile.agent.nursery.learned_imports import ImportFacts, PreloadCache
from resile.agent.nursery.preload_list import PreloadList
from resile.agent.nursery.scan import Scan
from tests.local.nursery.harness import executable, module, script


def test_a_command_becomes_the_arguments_of_a_process() -> None:
    assert script("t.py", "a").argv() == [sys.executable, "-u", "t.py", "a"]
    assert module("pkg.t", "a").argv() == [sys.executable, "-u", "-m", "pkg.t", "a"]
    assert executable("sh", "-c", "x").argv() == ["sh", "-c", "x"]


@pytest.mark.parametrize("flags", [("-I",), ("-uE",), ("-S", "-u"), ("-X", "dev", "-i")])
def test_flags_that_hide_the_hook_make_workers_cold(flags: tuple[str, ...]) -> None:
    assert "interpreter runs with" in script("t.py", flags=flags).why_cold()


@pytest.mark.parametrize(
    "flags", [(), ("-u",), ("-OO", "-B"), ("-W", "-I"), ("-X", "-S"), ("-Wignore::E",), ("-XI",)]
)
def test_other_flags_do_not(flags: tuple[str, ...]) -> None:
    assert script("t.py", flags=flags).why_cold() == ""


def test_programs_and_other_interpreters_are_cold() -> None:
    other = WorkerCommand(kind=CommandKind.SCRIPT, target="t.py", python="/opt/python")
    assert "/opt/python" in other.why_cold()
    assert "sh" in executable("sh").why_cold()


def test_the_preload_flag_is_auto_none_or_a_list() -> None:
    assert Preload.parse("auto") == Preload(PreloadMode.AUTO)
    assert Preload.parse(" none ") == Preload(PreloadMode.NONE)
    assert Preload.parse("torch, numpy.linalg") == Preload(
        PreloadMode.LISTED, ("torch", "numpy.linalg")
    )


@pytest.mark.parametrize("text", ["", "a,", "a b", "torch;numpy", "-x", "a..b", "1a"])
def test_anything_else_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(PreloadSyntaxError, match=r"--preload: .* expected auto, none, check, or"):
        Preload.parse(text)


environments = st.dictionaries(
    st.sampled_from(["RANK", "MASTER_PORT", "TORCHELASTIC_RUN_ID", "OMP_NUM_THREADS", "A", "B"]),
    st.sampled_from(["1", "2"]),
)


@given(environments, environments)
def test_only_places_may_differ(nursery: dict[str, str], worker: dict[str, str]) -> None:
    same = shared_variables(nursery) == shared_variables(worker)
    found = differences(shared_variables(nursery), worker)
    assert (found == []) is same
    assert found == sorted(found)
    assert not any(is_per_worker(name) for name in found)


text = st.text(st.characters(exclude_categories=[]), max_size=20)
messages = st.one_of(
    st.builds(SignalWorker, st.integers(), st.integers()),
    st.builds(Importing, text),
    st.builds(Exited, st.integers(), st.integers()),
    st.builds(
        PreloadResult,
        st.lists(text),
        st.lists(text),
        st.booleans(),
        text,
        st.dictionaries(text, text),
    ),
    st.builds(
        Spawn, st.integers(), st.booleans(), st.lists(text), st.dictionaries(text, text), text
    ),
)


@given(st.lists(messages, max_size=5), st.data())
def test_messages_survive_any_fragmentation(sent: list[Message], data: st.DataObject) -> None:
    stream = b"".join(pack(message) for message in sent)
    descriptors = list(range(100, 100 + 3 * sum(isinstance(m, Spawn) for m in sent)))
    reader = MessageReader()
    reader.feed(b"", descriptors)
    received: list[tuple[Message, list[int]]] = []
    while stream:
        size = data.draw(st.integers(1, len(stream)))
        reader.feed(stream[:size])
        stream = stream[size:]
        received.extend(reader.messages())
    assert [message for message, _ in received] == sent
    assert [number for _, numbers in received for number in numbers] == descriptors


def cache_in(folder: Path, *libraries: str) -> PreloadCache:
    env = {"XDG_CACHE_HOME": str(folder / "cache")}
    cache = PreloadCache.of(script("t.py"), Scan(libraries), cwd=str(folder), env=env)
    assert cache is not None
    return cache


def test_what_was_learnt_is_remembered(tmp_path: Path) -> None:
    facts = ImportFacts(
        ("a", "b.c"),
        frozenset({"d"}),
        {"e": "runs a thread"},
        frozenset({"a"}),
        {"b": ("HF_HOME",)},
        {"b": {"HF_HOME": True}},
    )
    assert cache_in(tmp_path).read() is None
    cache_in(tmp_path).write(facts)
    assert cache_in(tmp_path).read() == facts


def test_a_script_with_other_imports_has_another_memory(tmp_path: Path) -> None:
    cache_in(tmp_path, "torch").write(ImportFacts(("a",)))
    assert cache_in(tmp_path, "torch", "numpy").read() is None


def test_an_installation_makes_what_was_learnt_obsolete(tmp_path: Path) -> None:
    cache = cache_in(tmp_path)
    cache.write(ImportFacts(("a",)))
    content = json.loads(cache.path.read_text())
    cache.path.write_text(json.dumps({**content, "installed": [1]}))
    assert cache.read() is None


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"installed": 3}', "\x00", "null"])
def test_a_broken_memory_is_no_memory(tmp_path: Path, content: str) -> None:
    cache = cache_in(tmp_path)
    cache.write(ImportFacts(("a",)))
    cache.path.write_text(content)
    assert cache.read() is None
    cache.write(ImportFacts(("a",)))
    broken = {**json.loads(cache.path.read_text()), "modules": [1, {}]}
    cache.path.write_text(json.dumps(broken))
    assert cache.read() is None


def test_a_memory_that_cannot_be_written_hurts_nobody(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file where a folder should be")
    cache_in(tmp_path).write(ImportFacts(("a",)))
    assert cache_in(tmp_path).read() is None


def test_the_memory_is_in_the_home_folder_if_there_is_one(tmp_path: Path) -> None:
    command, cwd = script("t.py"), str(tmp_path)
    cache = PreloadCache.of(command, Scan(), cwd=cwd, env={"HOME": "/home/me"})
    assert cache is not None
    assert cache.path.parent == Path("/home/me/.cache/resile/preload")
    assert PreloadCache.of(command, Scan(), cwd=cwd, env={}) is None


def test_knowledge_grows_and_leaves_out_what_cannot_be_preloaded(tmp_path: Path) -> None:
    preload_list = PreloadList(modules=["a", "b"], own=["mine"], memory=cache_in(tmp_path))
    assert preload_list.wanted == [], "the text may never come to import them"
    assert preload_list.learn(["a", "b", "c", "mine.part", "mine"]) == 3
    assert preload_list.wanted == ["a", "b", "c"]
    assert preload_list.certain == []
    preload_list.blame("a", "it runs a thread")
    preload_list.confirm(PreloadResult(["b"], ["c"], False, "", {}, {}))
    assert preload_list.wanted == preload_list.certain == ["b"]
    assert preload_list.learn(["a.part", "c", "d"]) == 1, "what is below a goes with it"
    later = PreloadList(modules=["a", "e"], memory=cache_in(tmp_path))
    assert later.wanted == ["b", "d"]
    assert later.certain == ["b"]


def mentions(**packages: str) -> Callable[[str, Collection[str]], list[str]]:
    """A stub of `mentioned` for packages that mention one variable each."""
    return lambda package, names: [name for name in names if name in ("*", packages.get(package))]


def test_a_trusted_package_is_certain_at_once() -> None:
    preload_list = PreloadList(modules=["json", "torch", "torch._dynamo", "pandas", "numpy"])
    assert preload_list.certain == ["json", "torch", "torch._dynamo"], "pandas may set anything"
    preload_list.note_changed("numpy", [])
    preload_list.judge("numpy")
    assert preload_list.certain == ["json", "torch", "torch._dynamo", "numpy"]


@pytest.mark.parametrize(
    ("settings", "certain"),
    [({"OMP_NUM_THREADS"}, False), ({"*"}, False), ({"MINE"}, True), ({"MASTER_ADDR"}, True)],
)
def test_a_setting_in_the_text_keeps_back_what_mentions_it(
    settings: set[str], certain: bool
) -> None:
    says = mentions(torch="OMP_NUM_THREADS")
    preload_list = PreloadList(modules=["torch"], settings=settings, mentioned=says)
    assert (preload_list.certain == ["torch"]) is certain


def test_what_a_worker_does_counts_more_than_the_text(tmp_path: Path) -> None:
    says = mentions(torch="OMP_NUM_THREADS")

    def preload_list() -> PreloadList:
        return PreloadList(
            modules=["torch"],
            settings={"OMP_NUM_THREADS"},
            memory=cache_in(tmp_path),
            mentioned=says,
        )

    unaware = preload_list()
    unaware.note_changed("torch", ["RANK"])
    assert unaware.judge("torch") == []
    assert unaware.wanted == [], "the text sets it, and nobody knows when"
    unaware.note_changed("wandb", ["OMP_NUM_THREADS"])
    unaware.judge("wandb")
    assert unaware.certain == preload_list().certain == ["torch"], "it is set afterwards"
    unaware.note_changed("torch", ["OMP_NUM_THREADS"])
    assert unaware.judge("torch") == ["OMP_NUM_THREADS"]
    assert unaware.wanted == preload_list().wanted == []


def test_a_variable_is_found_in_the_files_of_a_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack.libs").mkdir()
    (tmp_path / "pack" / "__init__.py").write_text("os.environ['IN_PYTHON']; 'PART_OF_IT'")
    (tmp_path / "pack" / "empty.py").touch()
    (tmp_path / "pack.libs" / "lib.so.1").write_bytes(b"\0IN_C\0")
    (tmp_path / "single.py").write_text("os.getenv('ALONE')")
    monkeypatch.syspath_prepend(str(tmp_path))
    names = ["IN_PYTHON", "IN_C", "PART_OF", "ALONE"]
    assert mentioned("pack", names) == ["IN_C", "IN_PYTHON"]
    assert mentioned("single", names) == ["ALONE"]
    assert mentioned("nowhere", names) == []
    assert mentioned("single", ["*"]) == ["*"]
