"""Each benchmark can be started: the run files in them are checked as they are imported."""

import importlib
import pkgutil

import pytest

import benchmarks


@pytest.mark.parametrize("name", [found.name for found in pkgutil.walk_packages(benchmarks.__path__, "benchmarks.")])
def test_a_benchmark_can_be_imported(name):
    importlib.import_module(name)
