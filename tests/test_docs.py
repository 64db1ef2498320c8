"""What the documentation names is there, and its examples are valid."""

import ast
import re
import runpy
import subprocess
import sys
import textwrap
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

import pytest
import typer.main
import yaml

from app.cli import app
from swarm.run_file import parse_run

ROOT = Path(__file__).parents[1]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "dashboard" / "README.md",
    *sorted(ROOT.glob("docs/**/*.md")),
]
CODE = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"\]\(([^)\s]+)\)")
EXAMPLE = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
RUN_FILE = re.compile(r"^ *```yaml\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
PATH = re.compile(r"(?<![\w./~-])[\w.-]+(?:/[\w.-]+)*/?")
TEST = re.compile(r"\btest_\w+\b(?!\.py)")
COMMAND = re.compile(r"(?:^|`)sahaj ([a-z][^`\n#]*)", re.MULTILINE)
MODULE = re.compile(r"python -m ([\w.]+)")

each_page = pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])


@cache
def tracked() -> tuple[str, ...]:
    """Files of the repository and their folders, these with a slash at the end."""
    command = ["git", "ls-files", "-co", "--exclude-standard"]
    listed = subprocess.run(command, check=False, cwd=ROOT, capture_output=True, text=True)
    files = [name for name in listed.stdout.splitlines() if (ROOT / name).is_file()]
    if not files:
        pytest.skip("not a git checkout")
    folders = {f"{parent}/" for name in files for parent in Path(name).parents if parent != Path()}
    return (*files, *sorted(folders))


def is_there(path: str, near: str) -> bool:
    """Whether a path exists, from the repository's root, or below a folder that the same page names."""
    folder = path if path.endswith("/") else f"{path}/"
    ends = tuple(f"/{one}" for one in (path, folder))
    return any(one in (path, folder) or one.endswith(ends) for one in tracked()) or (ROOT / near / path).exists()


@each_page
def test_each_path_exists(page: Path):
    roots = {name.split("/")[0] for name in tracked() if "/" in name}
    text = page.read_text(encoding="utf-8")
    words = {word for code in CODE.findall(text) for word in PATH.findall(code)}
    paths = {word for word in words if word.endswith(".py") or ("/" in word and word.split("/")[0] in roots)}
    missing = sorted(path for path in paths if not is_there(path, str(page.parent.relative_to(ROOT))))
    assert not missing


@each_page
def test_each_link_leads_somewhere(page: Path):
    missing = []
    for target in LINK.findall(page.read_text(encoding="utf-8")):
        path, _, heading = target.partition("#")
        if "://" in path:
            continue
        linked = page.parent / path if path else page
        if not linked.exists() or (heading and heading not in headings(linked)):
            missing.append(target)
    assert not missing


def headings(page: Path) -> set[str]:
    """The anchors of a page, as GitHub makes them."""
    lines = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", line.lower()).strip().replace(" ", "-") for line in lines}


@each_page
def test_each_test_module_and_target_exists(page: Path):
    text = page.read_text(encoding="utf-8")
    named = {name for code in CODE.findall(text) for name in TEST.findall(code)}
    assert not named - all_tests()
    modules = [name.replace(".", "/") for name in MODULE.findall(text) if name.split(".")[0] in ("benchmarks", "tests")]
    assert not [one for one in modules if not {f"{one}.py", f"{one}/__main__.py"} & set(tracked())]
    targets = re.findall(r"(?:^|`|&& )make ([a-z-]+)", text, re.MULTILINE)
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert not [target for target in targets if f"\n{target}:" not in makefile]


@cache
def all_tests() -> set[str]:
    """The names of all test functions, and of the files that hold them."""
    files = [name for name in tracked() if re.fullmatch(r"tests/(.*/)?test_\w+\.py", name)]
    found = {Path(name).stem for name in files}
    for name in files:
        tree = ast.parse((ROOT / name).read_text(encoding="utf-8"))
        found |= {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    return found


def test_examples_type_check(tmp_path: Path):
    """Against our own code alone, which takes a second: reading the types of torch and others would take minutes."""
    examples = []
    for page in PAGES:
        for number, code in enumerate(EXAMPLE.findall(page.read_text(encoding="utf-8"))):
            imported = {node.module for node in ast.walk(ast.parse(code)) if isinstance(node, ast.ImportFrom)}
            assert all(module and find_spec(module) for module in imported)
            examples.append(tmp_path / f"{page.parent.name}_{page.stem}_{number}.py".replace("-", "_").lower())
            examples[-1].write_text(code, encoding="utf-8")
    assert examples
    ours = sorted({name.split("/")[0] for name in tracked() if name.endswith("/__init__.py")} | {"tests"})
    settings = tmp_path / "mypy.ini"
    settings.write_text(
        "[mypy]\nexplicit_package_bases = True\ndisallow_untyped_defs = True\nstrict_equality = True\n"
        f"follow_imports = skip\n[mypy-{','.join(f'{name}.*' for name in ours)}]\nfollow_imports = silent\n"
    )
    command = [sys.executable, "-m", "mypy", f"--config-file={settings}", "--cache-dir=/dev/null", *map(str, examples)]
    checked = subprocess.run(command, check=False, cwd=ROOT, capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def options_of(command: Any) -> set[str]:
    return {name for one in command.params for name in (*one.opts, *one.secondary_opts)}


@each_page
def test_each_command_and_its_options_exist(page: Path):
    text = re.sub(r" \\\n\s*", " ", page.read_text(encoding="utf-8"))
    unknown = []
    for words in (line.split() for line in COMMAND.findall(text)):
        command: Any = typer.main.get_command(app)
        while words and words[0] in (commands := getattr(command, "commands", {})):
            command = commands[words.pop(0)]
        options = options_of(command)
        if command.context_settings.get("allow_extra_args"):  # those of `sahaj join`
            options |= options_of(cast(Any, typer.main.get_command(app)).commands["join"])
        unknown += [f"{command.name} {word}" for word in words if word.startswith("--") and word not in options]
        unknown += words[:1] if commands else []  # it stands where a command should
    assert not unknown


@each_page
def test_parts_of_run_files_are_valid(page: Path):
    for text in RUN_FILE.findall(page.read_text(encoding="utf-8")):
        part = yaml.safe_load(textwrap.dedent(text))
        if "groups" not in part:  # rules for Prometheus
            access = {"access": {"open": True} | part["access"]} if "access" in part else {}
            parse_run({"name": "run", "data": {"train": [{"path": "text"}]}} | part | access, ROOT / "run.yaml")


def test_the_picture_of_the_architecture_shows_the_imports_that_there_are():
    program = runpy.run_path(
        str(ROOT / "docs" / "pictures" / "architecture.py")
    )  # imported, it would leave bytecode in docs/
    drawn = re.findall(r"<title>(\w+) imports (\w+)</title>", program["PICTURE"].read_text(encoding="utf-8"))
    found = sorted(pair for panel in program["panels"]() for pair in panel.imports)
    assert sorted(drawn) == found, "draw it again: python docs/pictures/architecture.py"
