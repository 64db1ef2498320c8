"""The run file: its schema, its reading, the messages for mistakes in it, and its fingerprint."""

from swarm.run_file.model import ModelSection
from swarm.run_file.schema import (
    MASK,
    AccessSection,
    AveragingSection,
    CoordinatorSection,
    DataSection,
    DataSource,
    OptimizerSection,
    ReleaseSection,
    RunFile,
    TokenizerSection,
    dump_run,
    load_run,
    parse_run,
)
from swarm.run_file.section import Count, Section

__all__ = [
    "MASK",
    "AccessSection",
    "AveragingSection",
    "CoordinatorSection",
    "Count",
    "DataSection",
    "DataSource",
    "ModelSection",
    "OptimizerSection",
    "ReleaseSection",
    "RunFile",
    "Section",
    "TokenizerSection",
    "dump_run",
    "load_run",
    "parse_run",
]
