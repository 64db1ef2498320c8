import struct
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from downstream.report.output import check_picture
from downstream.report.results import (
    AS_IT_IS,
    FINE_TUNED,
    FROM_SCRATCH,
    WITH_EXPERTS,
    ModelResult,
    Results,
    SeedResult,
    SplitSummary,
    paint,
    write_picture,
)
from swarm.display.charts import HEIGHT, WIDTH
from swarm.errors import StorageError


def result(name: str, how: str, step: int | None, *scores: float) -> ModelResult:
    return ModelResult(name, how, step, 1000, {}, tuple(SeedResult({"f1": score}) for score in scores))


def results(*models: ModelResult) -> Results:
    data = {"test": SplitSummary("a <b> & c.conll", 10, ())}
    return Results("ner", ("f1",), (), data, 0, {}, {}, models)


def painted(found: Results) -> Axes:
    figure = Figure()
    paint(found, figure)
    return figure.axes[0]


RUN = results(
    result("checkpoint-2000", FINE_TUNED, 2000, 0.6, 0.62),
    result("checkpoint-1000", FINE_TUNED, 1000, 0.4, 0.44),
    result("x < y", FROM_SCRATCH, None, 0.3),
)


def test_checkpoints_are_a_line_in_the_order_of_their_steps_with_the_spread_over_seeds():
    axes = painted(RUN)
    line, _, (bars,) = axes.containers[0]
    assert list(line.get_xdata()) == [1000, 2000] and list(line.get_ydata()) == pytest.approx([42.0, 61.0])
    spreads = [end for segment in bars.get_segments() for end in segment[:, 1]]
    assert spreads == pytest.approx([42 - 2.83, 42 + 2.83, 61 - 1.41, 61 + 1.41], abs=0.01)


def test_each_run_has_a_line_of_its_own_with_its_name():
    def of(run: str, step: int, score: float) -> ModelResult:
        return replace(result(f"{run}-{step}", FINE_TUNED, step, score), run=run)

    axes = painted(results(of("river", 1000, 0.4), of("sea", 1000, 0.2), of("river", 2000, 0.6), of("sea", 3000, 0.3)))
    lines = [container[0] for container in axes.containers]
    assert [len(line.get_xdata()) for line in lines] == [2, 2]
    assert len({line.get_color() for line in lines}) == 2
    legend = axes.get_legend()
    assert legend is not None and [text.get_text() for text in legend.get_texts()] == ["river", "sea"]
    assert painted(results(of("river", 1000, 0.4), of("river", 2000, 0.6))).get_legend() is None


def test_a_run_that_was_fine_tuned_in_two_ways_has_two_lines():
    ways = [result("a", how, step, 0.5) for step in (1000, 2000) for how in (FINE_TUNED, WITH_EXPERTS)]
    axes = painted(results(*(replace(one, run="river") for one in ways)))
    assert [list(container[0].get_xdata()) for container in axes.containers] == [[1000, 2000]] * 2
    legend = axes.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == [f"river, {FINE_TUNED}", f"river, {WITH_EXPERTS}"]


def test_models_without_a_step_are_levels_with_their_names():
    axes = painted(RUN)
    (level,) = [line for line in axes.get_lines() if line.is_dashed()]
    assert level.get_label() == "x < y, from random weights: 30.0"
    assert np.asarray(level.get_ydata()) == pytest.approx([30.0, 30.0])


def test_an_svg_has_its_texts_as_text_and_is_the_same_each_time(tmp_path: Path):
    for name in ("one.svg", "two.svg"):
        write_picture(RUN, tmp_path / name)
    drawn = (tmp_path / "one.svg").read_bytes()
    texts = [element.text for element in ElementTree.fromstring(drawn).iter() if element.tag.endswith("text")]
    assert {"x < y, from random weights: 30.0", "ner: test f1 in percent, a <b> & c.conll"} <= set(texts)
    assert drawn == (tmp_path / "two.svg").read_bytes()


@pytest.mark.parametrize(
    "models",
    [
        [result("a", AS_IT_IS, None, 0.5)],
        [result("a", FINE_TUNED, 0, 0.0)],
        [result("a", FINE_TUNED, 10, 1.0, 1.0)],
        [result("a", FINE_TUNED, 10, 0.5), replace(result("b", FINE_TUNED, 10, 0.4), run="river")],
    ],
    ids=["no step", "nothing but zero", "all the same", "one without a run"],
)
def test_few_or_equal_scores_can_be_drawn(models: list[ModelResult], tmp_path: Path):
    write_picture(results(*models), tmp_path / "few.svg")
    axes = painted(results(*models))
    low, high = axes.get_ylim()
    assert all(low <= y <= high for line in axes.get_lines() for y in np.asarray(line.get_ydata()))


def test_a_png_has_twice_as_many_pixels_as_the_svg_and_says_nothing_of_who_made_it(tmp_path: Path):
    write_picture(RUN, tmp_path / "curve.png")
    content = (tmp_path / "curve.png").read_bytes()
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">II", content[16:24]) == (2 * WIDTH, 2 * HEIGHT)
    assert b"tEXt" not in content


def test_other_kinds_of_pictures_and_folders_are_refused_before_any_work(tmp_path: Path):
    with pytest.raises(StorageError, match=r"'\.gif'; give FILE\.svg or FILE\.png"):
        check_picture(tmp_path / "curve.gif")
    (tmp_path / "curve.svg").mkdir()
    with pytest.raises(StorageError, match="a folder, not a file"):
        check_picture(tmp_path / "curve.svg")
