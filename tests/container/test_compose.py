"""compose.yaml is of the standard's form, and what it says fits the program."""

import re
from pathlib import Path
from typing import Any

import pytest
import typer.main
import yaml
from compose_spec import PyCompose

from app.cli import app
from swarm.run_file import AccessSection

VARIABLE = re.compile(r"\$\{(\w+)(?::([-?])([^}]*))?\}")


def filled(text: str, given: dict[str, str]) -> str:
    """The file with its variables replaced, as Compose does."""

    def value(found: re.Match[str]) -> str:
        name, kind, default = found.groups()
        assert name in given or kind == "-", f"{name}: {default}"
        return given.get(name) or (default or "" if kind == "-" else "")

    return VARIABLE.sub(value, text)


@pytest.fixture(scope="module")
def text(pytestconfig: pytest.Config) -> str:
    """The file as Compose sees it: variables and what is merged are in their places."""
    whole = filled((pytestconfig.rootpath / "compose.yaml").read_text(), {"POSTGRES_PASSWORD": "x"})
    return yaml.safe_dump({key: part for key, part in yaml.safe_load(whole).items() if not key.startswith("x-")})


@pytest.fixture(scope="module")
def services(text: str) -> dict[str, Any]:
    return yaml.safe_load(text)["services"]


def test_it_is_of_the_standard_form(text: str) -> None:
    assert set(PyCompose.from_yaml(text).service_names()) == {"coordinator", "dashboard", "postgres", "trainer"}
    for wrong in ("depend_on:", "depends_on_:"):
        with pytest.raises(ValueError, match="depend"):
            PyCompose.from_yaml(text.replace("depends_on:", wrong))


def test_a_password_has_to_be_chosen(pytestconfig: pytest.Config) -> None:
    with pytest.raises(AssertionError, match="POSTGRES_PASSWORD: set it"):
        filled((pytestconfig.rootpath / "compose.yaml").read_text(), {})


def test_the_commands_are_the_program_s(services: dict[str, Any]) -> None:
    commands = typer.main.get_command(app)
    for name in ("coordinator", "dashboard", "trainer"):
        verb, *arguments = services[name]["command"]
        context = commands.commands[verb].make_context(verb, list(arguments))  # type: ignore[attr-defined]
        assert context.params


def test_the_coordinator_releases_with_a_token_of_its_own(pytestconfig: pytest.Config) -> None:
    given = {"POSTGRES_PASSWORD": "x", "HF_TOKEN": "hf_reads", "SAHAJ_RELEASE_TOKEN": "hf_writes"}
    services = yaml.safe_load(filled((pytestconfig.rootpath / "compose.yaml").read_text(), given))["services"]
    tokens = {name: one["environment"].get("HF_TOKEN") for name, one in services.items() if "environment" in one}
    assert tokens == {"postgres": None, "coordinator": "hf_writes", "trainer": "hf_reads"}


def test_the_parts_wait_for_each_other_and_ports_are_the_usual_ones(services: dict[str, Any]) -> None:
    for name, others in (("coordinator", ["postgres"]), ("dashboard", ["coordinator"]), ("trainer", ["coordinator"])):
        needed = services[name]["depends_on"]
        assert {other: needed[other]["condition"] for other in others} == dict.fromkeys(others, "service_healthy")
    port = AccessSection.model_fields["port"].default
    assert f"{port}:{port}" in services["coordinator"]["ports"]
    assert f"http://coordinator:{port}" in services["trainer"]["command"]
    assert "ports" not in services["postgres"], "the ledger is nobody else's business"


def test_a_trainer_that_is_not_wanted_does_not_ring_for_ever(services: dict[str, Any]) -> None:
    assert "restart" not in services["trainer"]
    assert services["trainer"]["deploy"]["restart_policy"] == {"condition": "on-failure", "max_attempts": 5}
    assert {services[name]["restart"] for name in ("coordinator", "dashboard", "postgres")} == {"unless-stopped"}


def test_what_it_needs_of_this_folder_is_there(services: dict[str, Any], pytestconfig: pytest.Config) -> None:
    dockerfile = (pytestconfig.rootpath / "Dockerfile").read_text()
    for service in services.values():
        if "build" in service:
            assert (pytestconfig.rootpath / service["build"]["context"] / "Dockerfile").is_file()
            assert all(f"ARG {name}=" in dockerfile for name in service["build"]["args"])
    (mounted,) = services["coordinator"]["volumes"]
    assert f"WORKDIR {Path(mounted.split(':')[1])}" in dockerfile
