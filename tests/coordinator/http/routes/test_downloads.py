"""The notebook of a run and the program that it installs, as the coordinator serves them."""

import hashlib
import io
import zipfile

import httpx
import nbformat

from coordinator.http.badges import plain
from coordinator.join_script.script import CONSTRAINTS, SCRIPT
from coordinator.notebook.wheel import this_program
from tests.coordinator.http.conftest import Serve


def test_the_notebook_is_served_with_the_link_by_which_one_has_come(serve: Serve) -> None:
    client = serve(open=True).client
    answer = client.get("/join.ipynb")
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["content-disposition"] == 'attachment; filename="join.ipynb"'
    notebook = nbformat.reads(answer.text, as_version=4)
    nbformat.validate(notebook)
    assert f'URL = "{str(client.base_url).rstrip("/")}"' in notebook.cells[1].source
    assert plain("test-run") in notebook.cells[0].source
    told = client.get("/join.ipynb", headers={"Host": "x$(reboot)"})
    assert "reboot" not in told.text and 'URL = ""' in nbformat.reads(told.text, as_version=4).cells[1].source
    public = serve(open=True, url="https://run.example.org/").client
    assert 'URL = "https://run.example.org"' in nbformat.reads(public.get("/join.ipynb").text, 4).cells[1].source


def test_the_script_joins_by_the_link_by_which_one_has_come(serve: Serve) -> None:
    client = serve(open=True).client
    answer = client.get("/join.sh")
    assert (answer.headers["cache-control"], answer.headers["content-type"]) == (
        "no-store",
        "text/x-shellscript; charset=utf-8",
    )
    program = this_program()
    link = str(client.base_url).rstrip("/")
    filled = f"RUN=test-run LINK={link} WHEEL={program.file_name} SHA256={program.sha256} FOLDER=program-test-run-"
    assert filled in answer.text
    strange = client.get("/join.sh", headers={"Host": "x$(reboot)"})
    assert strange.status_code == 404 and "reboot" not in strange.text
    public = serve(open=True, url="https://run.example.org/").client
    assert " LINK=https://run.example.org " in public.get("/join.sh", headers={"Host": "other"}).text


def test_where_a_release_has_it_is_told_by_the_releaser(serve: Serve) -> None:
    assert serve(open=True).client.get("/api/run").json()["notebook_at_hub"] == ""
    link = "https://huggingface.co/river/boats/blob/main/join.ipynb"
    assert serve(open=True, notebook_at_hub=lambda: link).client.get("/api/run").json()["notebook_at_hub"] == link


def test_the_program_is_the_one_that_the_notebook_pins(client: httpx.Client) -> None:
    program = this_program()
    answer = client.get(f"/program/{program.file_name}")
    assert hashlib.sha256(answer.content).hexdigest() == program.sha256
    assert program.sha256 in client.get("/join.ipynb").text
    again = client.get(f"/program/{program.file_name}", headers={"If-None-Match": answer.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    pins = client.get("/program/constraints.txt")
    assert pins.content == CONSTRAINTS.read_bytes() and pins.headers["content-type"].startswith("text/plain")
    with zipfile.ZipFile(io.BytesIO(answer.content)) as wheel:
        for path in (CONSTRAINTS, SCRIPT):
            assert wheel.read(f"coordinator/join_script/{path.name}") == path.read_bytes()
    for other in ("sahaj_swarm-0.0.1-py3-none-any.whl", "..%2f..%2fetc%2fpasswd"):
        assert client.get(f"/program/{other}").status_code == 404
