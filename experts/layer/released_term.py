"""`mixture.safetensors`: the term of a checkpoint's model, which with the experts beside it works in one process."""

from collections.abc import Mapping
from pathlib import Path

from safetensors import safe_open
from safetensors.torch import save
from torch import Tensor

from experts.file_names import EXPERTS, MIXTURE
from experts.layer.expert_term import NAME, ExpertTerm
from experts.layer.local import LocalExperts
from experts.released import load_experts
from swarm.run_file import ExpertsSection


def to_bytes(tensors: Mapping[str, Tensor], settings: ExpertsSection) -> bytes:
    """The file: the tensors of the term, as the model names them, and the settings of the run."""
    return bytes(save(dict(tensors), metadata={"experts": settings.model_dump_json()}))


def load_term(folder: Path, trunk_width: int) -> ExpertTerm:
    """The term of the model in a folder, whose experts answer and do not learn.

    Raises:
        OSError, SafetensorError, ValueError, KeyError, TypeError, RuntimeError: the files are broken, or of another
            model.
    """
    with safe_open(folder / MIXTURE, "pt") as file:
        term = ExpertTerm(ExpertsSection.model_validate_json(file.metadata()["experts"]), trunk_width)
        term.load_state_dict({name: file.get_tensor(f"{NAME}.{name}") for name in term.state_dict()})
    term.mixture.caller = LocalExperts(load_experts(folder / EXPERTS), learning_rate=None)
    return term
