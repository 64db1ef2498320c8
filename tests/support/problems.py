"""`pytest.raises` for one kind of problem on the way into a run."""

import pytest

from app.join.problems import JoinProblem, Problem


def raises_problem(kind: Problem, match: str | None = None) -> pytest.RaisesExc[JoinProblem]:
    return pytest.raises(JoinProblem, match=match, check=lambda problem: problem.kind is kind)
