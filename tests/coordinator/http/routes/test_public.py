import base64
import datetime
import hashlib
import json
import os
import re
import shlex
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from coordinator.http.routes.people import first_day
from coordinator.http.routes.public import link
from coordinator.http.schemas import Period
from coordinator.notebook.wheel import this_program
from swarm.access.notices import read_notices
from tests.coordinator.http.conftest import Serve, Service, make_run, small_checkpoint
from tests.support.hub.stand_in import HubStandIn

PUBLIC = ("run", "progress", "leaderboard", "sessions", "checkpoints", "notices", "history", "fills", "machines")


def test_public_answers_may_be_kept_and_only_read(serve: Serve) -> None:
    client = serve(open=True, url="https://run.example.org").client
    for path in PUBLIC:
        answer = client.get(f"/api/{path}")
        assert answer.status_code == 200
        assert answer.headers["cache-control"].startswith("public, max-age=")
        assert answer.headers["content-type"] == "application/json"
        for method in ("POST", "PUT", "DELETE", "PATCH"):
            refused = client.request(method, f"/api/{path}")
            assert refused.status_code == 405 and set(refused.json()) == {"error", "message"}
    health = client.get("/healthz")
    assert (health.json(), health.headers["cache-control"]) == ({"status": "ok", "step": 7}, "no-store")
    missing = client.get("/api/nothing")
    assert (missing.status_code, missing.json()["error"]) == (404, "not_found")


def test_a_coordinator_that_does_not_work_says_why(serve: Serve) -> None:
    trouble = ["the part of this program that finds other peers (the DHT) has not answered for 17 s"]
    client = serve(open=True, problem=lambda: trouble[0]).client
    health = client.get("/healthz")
    assert (health.status_code, health.json()["status"]) == (503, trouble[0])
    assert client.get("/api/run").status_code == 200  # what it knows it tells
    trouble[0] = ""
    assert client.get("/healthz").status_code == 200


def test_what_the_run_is_and_where_it_is(serve: Serve) -> None:
    client = serve(open=True, users=["asha"], organizations=["river"]).client
    run = client.get("/api/run").json()
    assert (run["name"], run["total_steps"], run["model"]["hidden_size"]) == ("test-run", 100, 1024)
    assert run["join"] == f"sahaj join {client.base_url}".rstrip("/")
    assert run["probes"] == ["To the [MASK]."]
    assert run["access"] == {"open": True, "by_list": True, "organizations": ["river"]}
    progress = client.get("/api/progress").json()
    assert (progress["step"], progress["samples"], progress["eval_loss"]) == (7, 80, 9.25)
    assert [(one["step"], one["samples"], one["peers"]) for one in progress["steps"]] == [(1, 40, 2), (2, 40, 2)]
    assert (progress["unigram_loss"], progress["below_unigram"]) == (9.75, 0.5)
    assert [(one["step"], one["below_unigram"]) for one in progress["evaluations"]] == [(2, 0.5)]
    assert client.get("/api/checkpoints").json() == []


def test_the_way_to_join_is_the_public_url_or_the_one_that_was_come_by(serve: Serve) -> None:
    client = serve(open=True).client
    for told in ("http://run.example:81", "http://[::1]:8"):
        run = client.get("/api/run", headers={"Host": told.removeprefix("http://")}).json()
        assert (run["join"], run["notebook"]) == (f"sahaj join {told}", f"{told}/join.ipynb")
        assert shlex.split(run["one_line"]) == ["curl", "-LsSf", f"{told}/join.sh", "|", "sh"]
        assert run["program"] == f"{told}/program/{this_program().file_name}"
    strange = client.get("/api/run", headers={"Host": "x$(reboot)"})
    assert "reboot" not in strange.text
    ways = [strange.json()[name] for name in ("join", "one_line", "program", "notebook")]
    assert ways == ["sahaj join URL", "", "", ""]
    assert link(make_run(open=True), "http://x$(reboot)/") is None
    public = serve(open=True, url="https://run.example.org/").client
    assert public.get("/api/run").json()["join"] == "sahaj join https://run.example.org"


@pytest.mark.parametrize("path", ["/api/run", "/join.ipynb", "/join.sh"])
def test_the_host_that_one_visitor_names_is_told_to_nobody_else(serve: Serve, path: str) -> None:
    """The attacker asks first, through a cache between the run and everybody that goes by paths."""
    client, cache = serve(open=True).client, dict[str, str]()

    def through_cache(host: str) -> str:
        if path not in cache:
            answer = client.get(path, headers={"Host": host, "X-Forwarded-Host": host})
            if "public" not in answer.headers["cache-control"]:
                return answer.text
            cache[path] = answer.text
        return cache[path]

    assert "evil.example" in through_cache("evil.example")
    visitor = through_cache("run.example")
    assert "evil.example" not in visitor and "http://run.example" in visitor
    public = serve(open=True, url="https://run.example.org").client
    answer = public.get(path, headers={"Host": "evil.example"})
    assert "evil.example" not in answer.text and answer.headers["cache-control"] == "public, max-age=60"


def test_of_people_only_name_and_avatar_are_told(serve: Serve, hub_stand_in: HubStandIn) -> None:
    service = serve(open=True, users=["quiet-person"])
    assert service.join(hub_stand_in.add("asha", "river")).status_code == 200
    leaders = service.client.get("/api/leaderboard").json()
    assert [(one["user"], one["verified"], one["samples"]) for one in leaders] == [
        ("asha", True, 64),
        ("~boat", False, 16),
    ]
    assert leaders[0]["avatar"].startswith(hub_stand_in.url + "/avatars/")
    assert leaders[1]["avatar"] is None
    sessions = service.client.get("/api/sessions").json()
    assert {one["user"] for one in sessions} == {"asha", "~boat"}
    assert len({one["session"] for one in sessions}) == 2
    everything = "".join(service.client.get(f"/api/{path}").text for path in PUBLIC)
    everything += service.client.get("/metrics").text
    for private in ("SecretPeer", service.peer["peer_id"], "aaaaaaaa" * 4, "private.example", "127.0.0.1/tcp"):
        assert private not in everything
    assert "quiet-person" not in everything and "hidden-word" not in everything


def test_a_leaderboard_is_of_a_day_a_week_or_the_run(client: httpx.Client) -> None:
    leaders = {period: client.get(f"/api/leaderboard?period={period}").json() for period in ("day", "week", "run")}
    assert leaders["run"] == client.get("/api/leaderboard").json()
    assert [one["samples"] for one in leaders["run"]] == [64, 16]
    assert leaders["week"] == leaders["run"], "all was counted a moment ago"
    assert client.get("/api/leaderboard?period=year").status_code == 422


@pytest.mark.parametrize(("period", "day"), [(Period.DAY, 22), (Period.WEEK, 16), (Period.RUN, None)])
def test_the_first_day_of_a_period(period: Period, day: int | None) -> None:
    today = datetime.date(2026, 11, 22)
    assert first_day(period, today) == (today.replace(day=day) if day else None)


def test_tokenizer_files_are_those_of_the_manifest(client: httpx.Client, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("hidden-word")
    about = client.get("/api/run").json()["tokenizer"]
    for file in about:
        answer = client.get(f"/api/tokenizer/{file['name']}")
        assert hashlib.sha256(answer.content).hexdigest() == file["sha256"]
        assert len(answer.content) == file["size"]
        again = client.get(f"/api/tokenizer/{file['name']}", headers={"If-None-Match": answer.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")
    names = [".hidden", "optimizer.pt"]
    names += ["..%2Fsecret", "%2e%2e/secret", "../secret", "..", "tokenizer.json%00", "%2Fetc%2Fpasswd", "C:"]
    for name in names:
        answer = client.get(f"/api/tokenizer/{name}")
        assert answer.status_code == 404
        assert "hidden-word" not in answer.text


def test_notices_are_signed_and_told_plainly(service: Service) -> None:
    service.context.notices.announce("Sunday at noon")
    service.context.notices.ban("12D3KooWSecretPeer")
    first, second = (service.client.get("/api/notices").json() for _ in range(2))
    assert (first["announcement"], first["paused"], first["stopped"]) == ("Sunday at noon", False, False)
    authority = service.context.authority.public_key
    read = [read_notices(base64.b64decode(one["signed"]), authority, "test-run") for one in (first, second)]
    assert read[0].banned == {"12D3KooWSecretPeer"}
    assert read[0].time < read[1].time
    assert set(first) == {"signed", "announcement", "paused", "stopped"}


def metrics(service: Service) -> dict[tuple[str, ...], float]:
    answer = service.client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain")
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


def test_metrics_are_what_prometheus_reads(service: Service) -> None:
    service.join(name="boat")
    service.join(name="~boat")
    found = metrics(service)
    assert found[("sahaj_step",)] == 7
    assert found[("sahaj_samples_total",)] == 80
    assert found[("sahaj_held_out_loss",)] == 9.25
    assert found[("sahaj_below_unigram",)] == 0.5
    assert found[("sahaj_averaging_rounds_total",)] == 6
    assert found[("sahaj_averaging_failures_total",)] == 2
    assert found[("sahaj_step_peers",)] == 2
    assert found[("sahaj_last_step_timestamp_seconds",)] == 1700000000.0
    assert found[("sahaj_joins_total", "joined")] == found[("sahaj_joins_total", "malformed")] == 1


def test_metrics_tell_the_age_of_the_newest_whole_checkpoint(serve: Serve) -> None:
    service = serve(open=True)
    assert ("sahaj_checkpoint_age_seconds",) not in metrics(service), "there is none"
    hours = {3: 5, 5: 2, 7: 1}
    for step, ago in hours.items():
        saved = datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(hours=ago)
        small_checkpoint(service.context.checkpoints, step, saved.isoformat(timespec="seconds"))
    os.truncate(service.context.checkpoints / "checkpoint-7" / "model.safetensors", 70)
    found = metrics(serve(open=True))  # another service: figures are remembered for some seconds
    assert found[("sahaj_checkpoint_step",)] == 5
    assert found[("sahaj_checkpoint_age_seconds",)] == pytest.approx(2 * 3600, abs=30)


def test_operators_are_told_of_every_figure_and_of_no_other(service: Service, pytestconfig: pytest.Config) -> None:
    service.join(name="boat")
    small_checkpoint(service.context.checkpoints, 5, "2026-01-02T03:04:05+00:00")
    served = {name for name, *_ in metrics(service) if not name.endswith("_created")}
    told = set(re.findall(r"sahaj_[a-z_]+", (pytestconfig.rootpath / "docs" / "operations.md").read_text()))
    assert told == served


def test_openapi_describes_the_answers(client: httpx.Client) -> None:
    assert client.get("/docs").status_code == 200
    described = client.get("/openapi.json").json()
    for path in (*(f"/api/{one}" for one in PUBLIC), "/healthz"):
        schema = described["paths"][path]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
        assert schema, path
        name = (schema.get("items") or schema)["$ref"].rpartition("/")[2]
        fields = set(described["components"]["schemas"][name]["properties"])
        told = client.get(path).json()
        for one in told if isinstance(told, list) else [told]:
            assert set(one) == fields
    join = described["paths"]["/api/join"]["post"]
    assert {"200", "401", "403", "409", "410", "422", "426", "429", "503"} <= set(join["responses"])
    assert join["security"] and described["paths"]["/api/admin/ban"]["post"]["security"]
    assert "JoinRequest" in json.dumps(join["requestBody"])
    assert "pass" in described["components"]["schemas"]["JoinAnswer"]["properties"]


def test_a_ledger_that_fails_is_one_line_without_its_place(
    service: Service, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    service.context.ledger.close()
    for file in (tmp_path / "state").glob("ledger.db*"):
        file.unlink()
    (tmp_path / "state" / "ledger.db").write_text("no database " * 1000)
    for path in ("progress", "leaderboard", "sessions"):
        answer = service.client.get(f"/api/{path}")
        assert (answer.status_code, answer.json()["error"]) == (503, "unavailable")
        assert str(tmp_path) not in answer.text
    assert "Traceback" not in caplog.text
    assert "sahaj_step 7.0" in service.client.get("/metrics").text
    assert service.join(name="asha").status_code == 200
    assert service.admin("ban", name="asha").status_code == 200
