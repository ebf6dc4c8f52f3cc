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
from resile.agent.nursery.cache import Learnt, PreloadCache
from resile.agent.nursery.environment import differences, is_place, without_place
from resile.agent.nursery.inside.frames import FrameReader, pack
from resile.agent.nursery.inside.messages import Exited, Importing, Message, Ready, Signal, Spawn
from resile.agent.nursery.knowledge import Knowledge
from resile.agent.nursery.scan import Scan
from resile.agent.nursery.settings import mentioned

from .cradle import executable, module, script


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
    same = without_place(nursery) == without_place(worker)
    found = differences(without_place(nursery), worker)
    assert (found == []) is same
    assert found == sorted(found)
    assert not any(is_place(name) for name in found)


text = st.text(st.characters(exclude_categories=[]), max_size=20)
messages = st.one_of(
    st.builds(Signal, st.integers(), st.integers()),
    st.builds(Importing, text),
    st.builds(Exited, st.integers(), st.integers()),
    st.builds(
        Ready,
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
    reader = FrameReader()
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
    learnt = Learnt(
        ("a", "b.c"),
        frozenset({"d"}),
        {"e": "runs a thread"},
        frozenset({"a"}),
        {"b": ("HF_HOME",)},
        {"b": {"HF_HOME": True}},
    )
    assert cache_in(tmp_path).read() is None
    cache_in(tmp_path).write(learnt)
    assert cache_in(tmp_path).read() == learnt


def test_a_script_with_other_imports_has_another_memory(tmp_path: Path) -> None:
    cache_in(tmp_path, "torch").write(Learnt(("a",)))
    assert cache_in(tmp_path, "torch", "numpy").read() is None


def test_an_installation_makes_what_was_learnt_obsolete(tmp_path: Path) -> None:
    cache = cache_in(tmp_path)
    cache.write(Learnt(("a",)))
    content = json.loads(cache.path.read_text())
    cache.path.write_text(json.dumps({**content, "installed": [1]}))
    assert cache.read() is None


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"installed": 3}', "\x00", "null"])
def test_a_broken_memory_is_no_memory(tmp_path: Path, content: str) -> None:
    cache = cache_in(tmp_path)
    cache.write(Learnt(("a",)))
    cache.path.write_text(content)
    assert cache.read() is None
    cache.write(Learnt(("a",)))
    broken = {**json.loads(cache.path.read_text()), "modules": [1, {}]}
    cache.path.write_text(json.dumps(broken))
    assert cache.read() is None


def test_a_memory_that_cannot_be_written_hurts_nobody(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file where a folder should be")
    cache_in(tmp_path).write(Learnt(("a",)))
    assert cache_in(tmp_path).read() is None


def test_the_memory_is_in_the_home_folder_if_there_is_one(tmp_path: Path) -> None:
    command, cwd = script("t.py"), str(tmp_path)
    cache = PreloadCache.of(command, Scan(), cwd=cwd, env={"HOME": "/home/me"})
    assert cache is not None
    assert cache.path.parent == Path("/home/me/.cache/resile/preload")
    assert PreloadCache.of(command, Scan(), cwd=cwd, env={}) is None


def test_knowledge_grows_and_leaves_out_what_cannot_be_preloaded(tmp_path: Path) -> None:
    knowledge = Knowledge(modules=["a", "b"], own=["mine"], memory=cache_in(tmp_path))
    assert knowledge.wanted == [], "the text may never come to import them"
    assert knowledge.learn(["a", "b", "c", "mine.part", "mine"]) == 3
    assert knowledge.wanted == ["a", "b", "c"]
    assert knowledge.certain == []
    knowledge.blame("a", "it runs a thread")
    knowledge.confirm(Ready(["b"], ["c"], False, "", {}, {}))
    assert knowledge.wanted == knowledge.certain == ["b"]
    assert knowledge.learn(["a.part", "c", "d"]) == 1, "what is below a goes with it"
    later = Knowledge(modules=["a", "e"], memory=cache_in(tmp_path))
    assert later.wanted == ["b", "d"]
    assert later.certain == ["b"]


def mentions(**packages: str) -> Callable[[str, Collection[str]], list[str]]:
    """What `mentioned` would say of packages that mention one variable each."""
    return lambda package, names: [name for name in names if name in ("*", packages.get(package))]


def test_a_trusted_package_is_certain_at_once() -> None:
    knowledge = Knowledge(modules=["json", "torch", "torch._dynamo", "pandas", "numpy"])
    assert knowledge.certain == ["json", "torch", "torch._dynamo"], "pandas may set anything"
    knowledge.note_changed("numpy", [])
    knowledge.judge("numpy")
    assert knowledge.certain == ["json", "torch", "torch._dynamo", "numpy"]


@pytest.mark.parametrize(
    ("settings", "certain"),
    [({"OMP_NUM_THREADS"}, False), ({"*"}, False), ({"MINE"}, True), ({"MASTER_ADDR"}, True)],
)
def test_a_setting_in_the_text_keeps_back_what_mentions_it(
    settings: set[str], certain: bool
) -> None:
    says = mentions(torch="OMP_NUM_THREADS")
    knowledge = Knowledge(modules=["torch"], settings=settings, mentioned=says)
    assert (knowledge.certain == ["torch"]) is certain


def test_what_a_worker_does_counts_more_than_the_text(tmp_path: Path) -> None:
    says = mentions(torch="OMP_NUM_THREADS")

    def knowledge() -> Knowledge:
        return Knowledge(
            modules=["torch"],
            settings={"OMP_NUM_THREADS"},
            memory=cache_in(tmp_path),
            mentioned=says,
        )

    unaware = knowledge()
    unaware.note_changed("torch", ["RANK"])
    assert unaware.judge("torch") == []
    assert unaware.wanted == [], "the text sets it, and nobody knows when"
    unaware.note_changed("wandb", ["OMP_NUM_THREADS"])
    unaware.judge("wandb")
    assert unaware.certain == knowledge().certain == ["torch"], "it is set afterwards"
    unaware.note_changed("torch", ["OMP_NUM_THREADS"])
    assert unaware.judge("torch") == ["OMP_NUM_THREADS"]
    assert unaware.wanted == knowledge().wanted == []


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
