import itertools
import math
import struct
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path

import pytest

from downstream.report.chart import HEIGHT, WIDTH, as_png, ticks
from downstream.report.picture import check_picture, draw, write_picture
from downstream.report.results import AS_IT_IS, FINE_TUNED, FROM_SCRATCH, ModelResult, Results, SeedResult, SplitSummary
from swarm.errors import StorageError

SVG = "{http://www.w3.org/2000/svg}"


def result(name: str, how: str, step: int | None, *scores: float) -> ModelResult:
    return ModelResult(name, how, step, 1000, {}, tuple(SeedResult({"f1": score}) for score in scores))


def results(*models: ModelResult) -> Results:
    data = {"test": SplitSummary("a <b> & c.conll", 10, ())}
    return Results("ner", ("f1",), (), data, 0, {}, {}, models)


RUN = results(
    result("checkpoint-2000", FINE_TUNED, 2000, 0.6, 0.62),
    result("checkpoint-1000", FINE_TUNED, 1000, 0.4, 0.44),
    result("x < y", FROM_SCRATCH, None, 0.3),
)


def test_later_steps_lie_to_the_right_and_better_scores_higher():
    circles = ElementTree.fromstring(draw(RUN)).findall(f"{SVG}circle")
    (left, right) = [(float(one.attrib["cx"]), float(one.attrib["cy"])) for one in circles]
    assert left[0] < right[0]
    assert left[1] > right[1]
    assert [one.findtext(f"{SVG}title") for one in circles] == [
        "checkpoint-1000: 42.0 ± 2.8",
        "checkpoint-2000: 61.0 ± 1.4",
    ]


def test_each_run_has_a_line_of_its_own_with_its_name():
    def of(run: str, step: int, score: float) -> ModelResult:
        return replace(result(f"{run}-{step}", FINE_TUNED, step, score), run=run)

    mixed = results(of("river", 1000, 0.4), of("sea", 1000, 0.2), of("river", 2000, 0.6), of("sea", 3000, 0.3))
    drawn = ElementTree.fromstring(draw(mixed))
    lines = drawn.findall(f"{SVG}polyline")
    assert [len(line.attrib["points"].split()) for line in lines] == [2, 2]
    colours = [line.attrib["stroke"] for line in lines]
    names = {text.text: text.attrib["fill"] for text in drawn.findall(f"{SVG}text")}
    assert [names["river"], names["sea"]] == colours and len(set(colours)) == 2
    alone = ElementTree.fromstring(draw(results(of("river", 1000, 0.4), of("river", 2000, 0.6))))
    assert "river" not in [text.text for text in alone.findall(f"{SVG}text")]


def test_models_without_a_step_are_levels_with_their_names():
    drawn = ElementTree.fromstring(draw(RUN))
    assert len([line for line in drawn.findall(f"{SVG}line") if "stroke-dasharray" in line.attrib]) == 1
    texts = [text.text for text in drawn.findall(f"{SVG}text")]
    assert "x < y, from random weights" in texts
    assert "ner: test f1 in percent, a <b> & c.conll" in texts


@pytest.mark.parametrize(
    "models",
    [
        [result("a", AS_IT_IS, None, 0.5)],
        [result("a", FINE_TUNED, 0, 0.0)],
        [result("a", FINE_TUNED, 10, 1.0, 1.0)],
    ],
    ids=["no step", "nothing but zero", "all the same"],
)
def test_few_or_equal_scores_can_be_drawn_and_all_lies_within_the_picture(models: list[ModelResult]):
    for element in ElementTree.fromstring(draw(results(*models))).iter():
        for name, end in (("x1", WIDTH), ("x2", WIDTH), ("cx", WIDTH), ("y1", HEIGHT), ("y2", HEIGHT), ("cy", HEIGHT)):
            assert 0 <= float(element.attrib.get(name, 0)) <= end


@pytest.mark.parametrize(("low", "high"), [(0, 0), (0, 1), (61.2, 61.9), (-3, 88), (0, 125_000), (99.99, 100)])
def test_ticks_are_round_equally_far_apart_and_enclose_the_values(low: float, high: float):
    found = ticks(low, high)
    assert 2 <= len(found) <= 10
    assert found[0] <= low + 1e-9
    assert found[-1] >= high - 1e-9
    distances = {round(second - first, 9) for first, second in itertools.pairwise(found)}
    assert len(distances) == 1
    distance = distances.pop()
    assert round(distance / 10 ** math.floor(math.log10(distance) + 1e-9), 6) in (1, 2, 5)


def test_a_png_has_twice_as_many_pixels_as_the_svg(tmp_path: Path):
    try:
        write_picture(RUN, tmp_path / "curve.png")
    except StorageError as error:
        pytest.skip(str(error))
    content = (tmp_path / "curve.png").read_bytes()
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">II", content[16:24]) == (2 * WIDTH, 2 * HEIGHT)


def test_without_a_font_no_png_with_missing_words_is_made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    import resvg_py

    render = resvg_py.svg_to_bytes
    monkeypatch.setattr(resvg_py, "svg_to_bytes", lambda **options: render(**options, skip_system_fonts=True))
    with pytest.raises(StorageError, match=r"no font for a PNG; .* or give FILE\.svg"):
        as_png(draw(RUN), tmp_path / "curve.png")
    with pytest.raises(StorageError, match="no font for a PNG"):
        check_picture(tmp_path / "curve.png")
    check_picture(tmp_path / "curve.svg")


def test_other_kinds_of_pictures_and_folders_are_refused_before_any_work(tmp_path: Path):
    with pytest.raises(StorageError, match=r"'\.gif'; give FILE\.svg or FILE\.png"):
        check_picture(tmp_path / "curve.gif")
    (tmp_path / "curve.svg").mkdir()
    with pytest.raises(StorageError, match="a folder, not a file"):
        check_picture(tmp_path / "curve.svg")
