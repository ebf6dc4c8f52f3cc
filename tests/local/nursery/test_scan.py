"""The imports and settings found in the text of a script."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resile.agent.nursery import CommandKind, WorkerCommand
from resile.agent.nursery.preload_list import ImplicitImport, implicit_imports
from resile.agent.nursery.scan import Scan, scan
from tests.local.nursery.harness import module, script

Write = Callable[[str, str], Path]


def scanned(folder: Path, command: WorkerCommand, **env: str) -> Scan:
    return scan(command, cwd=str(folder / "work"), env=env)


def test_imports_are_found_wherever_they_stand(tmp_path: Path, write: Write) -> None:
    write(
        "train.py",
        """
        from __future__ import annotations
        import os, torch.nn as nn
        from torch.optim import SGD, Adam as A
        from numpy import *
        def main():
            import zlib
            try:
                import lzma
            except ImportError:
                pass
        """,
    )
    assert scanned(tmp_path, script("train.py")).libraries == (
        "os",
        "torch.nn",
        "torch.optim",
        "torch.optim.SGD",
        "torch.optim.Adam",
        "numpy",
        "zlib",
        "lzma",
    )


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("os.environ['A'] = '1'", {"A"}),
        ("environ['A'] = environ['B']", {"A"}),
        ("del os.environ['A']", {"A"}),
        ("os.environ.setdefault('A', '1'); os.putenv('B', '2')", {"A", "B"}),
        ("os.environ.update({'A': '1'}, B='2')", {"A", "B"}),
        ("os.environ.update(settings)", {"*"}),
        ("os.environ |= {'A': '1'}", {"A"}),
        ("for name in names: os.environ[name] = '1'", {"*"}),
        ("from dotenv import load_dotenv; load_dotenv()", {"*"}),
        ("variables = os.environ; variables['A'] = '1'", {"*"}),
        ("print(os.environ['A'], os.environ.get('B'), os.getenv('C'), {**os.environ})", set()),
        ("mine['A'] = '1'; mine.update(A=1)", set()),
    ],
)
def test_variables_that_the_text_sets_are_found(
    tmp_path: Path, write: Write, text: str, settings: set[str]
) -> None:
    write("train.py", text)
    assert scanned(tmp_path, script("train.py")).settings == settings


def test_what_only_type_checkers_import_is_left_out(tmp_path: Path, write: Write) -> None:
    write(
        "train.py",
        """
        import typing
        if typing.TYPE_CHECKING:
            import pandas
        else:
            import json
        """,
    )
    assert scanned(tmp_path, script("train.py")).libraries == ("typing", "json")


def test_the_users_own_modules_are_read_and_never_offered(tmp_path: Path, write: Write) -> None:
    write("train.py", "import helper\nfrom models.net import Net\nimport random")
    write("helper.py", "import zlib, train")
    write("models/__init__.py", "from . import parts")
    write("models/net.py", "from .parts.layer import Layer\nfrom .. import nothing")
    write("models/parts/layer.py", "import torch.nn")
    write("random.py", "import json")
    found = scanned(tmp_path, script("train.py"))
    assert set(found.libraries) == {"zlib", "torch.nn", "json"}
    assert found.own == {"helper", "models", "random", "train"}


def test_a_folder_of_data_is_not_a_package(tmp_path: Path, write: Write) -> None:
    write("train.py", "import wandb")
    write("wandb/run.log", "")
    assert scanned(tmp_path, script("train.py")).libraries == ("wandb",)


def test_modules_on_the_python_path_are_the_users_own(tmp_path: Path, write: Write) -> None:
    write("train.py", "import shared")
    write("lib/shared.py", "import bz2")
    found = scanned(tmp_path, script("train.py"), PYTHONPATH="lib")
    assert found.libraries == ("bz2",)
    assert found.own == {"shared"}


@pytest.mark.parametrize("target", ["pack.train", "pack", "lonely"])
def test_modules_are_scanned_like_scripts(tmp_path: Path, write: Write, target: str) -> None:
    write("pack/__init__.py", "")
    for name in ("pack/train.py", "pack/__main__.py", "lonely.py"):
        write(name, "import zlib")
    assert scanned(tmp_path, module(target)).libraries == ("zlib",)


def test_an_installed_module_is_found_without_being_imported(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    found = scanned(tmp_path, module("json.tool"))
    assert "argparse" in found.libraries


@pytest.mark.parametrize("text", ["def f(:", "\x00", "import", "x = '\ud800'", "(" * 500])
def test_a_file_that_cannot_be_read_says_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "train.py").write_bytes(text.encode(errors="surrogatepass"))
    assert scanned(tmp_path, script("train.py")) == Scan()


def test_missing_scripts_and_programs_say_nothing(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    program = WorkerCommand(kind=CommandKind.EXECUTABLE, target="train.py")
    for command in (script("nowhere.py"), module("no.where"), program):
        assert scanned(tmp_path, command).libraries == ()


def test_an_optimizer_brings_its_companions(tmp_path: Path, write: Write) -> None:
    for text in (
        "import torch\ntorch.optim.SGD([])",
        "from torch.optim import SGD",
        "from torch import optim",
        "from torch.nn.parallel import DistributedDataParallel as DDP",
    ):
        write("train.py", text)
        assert implicit_imports(scanned(tmp_path, script("train.py"))) == ["torch._dynamo"]
    write("train.py", "import torch\nprint(torch.zeros(3))")
    assert implicit_imports(scanned(tmp_path, script("train.py"))) == []


names = st.sampled_from(["a", "b", "c", "d"])


@given(
    libraries=st.sets(names),
    words=st.frozensets(names),
    table=st.lists(
        st.builds(
            ImplicitImport,
            library=names,
            words=st.frozensets(names),
            modules=st.tuples(names, names),
        )
    ),
)
def test_companions_follow_the_table(
    libraries: set[str], words: frozenset[str], table: list[ImplicitImport]
) -> None:
    found = implicit_imports(Scan(tuple(sorted(libraries)), frozenset(), words), table)
    expected = [
        module
        for row in table
        if row.library in libraries and (not row.words or row.words & (words | libraries))
        for module in row.modules
    ]
    assert found == expected
