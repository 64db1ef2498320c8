"""`mixture.safetensors`: the term of a checkpoint's model, which with the experts beside it works in one process."""

from collections.abc import Mapping
from pathlib import Path

from safetensors import safe_open
from safetensors.torch import save
from torch import Tensor

from experts.file_names import EXPERTS, MIXTURE
from experts.layer.expert_term import NAME, ExpertTerm
from experts.layer.local import LocalExperts
from experts.released import ReleasedExperts, load_experts, write_experts
from swarm.run_file import ExpertsSection


class ReleasedTerm(ExpertTerm):
    """A term with its experts in this process; they are not trained."""

    def __init__(self, settings: ExpertsSection, trunk_width: int, released: ReleasedExperts):
        super().__init__(settings, trunk_width)
        self.released = released
        self.mixture.caller = LocalExperts(released.experts, learning_rate=None)

    def save(self, folder: Path) -> None:
        """Write both files into a folder."""
        tensors = {f"{NAME}.{name}": tensor.detach().cpu() for name, tensor in self.state_dict().items()}
        (folder / MIXTURE).write_bytes(to_bytes(tensors, self.settings))
        write_experts(self.released, folder / EXPERTS)


def split(model_state: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The tensors of a model's term, and the rest, which is an ordinary model."""
    term = {name: tensor for name, tensor in model_state.items() if name.startswith(f"{NAME}.")}
    return term, {name: tensor for name, tensor in model_state.items() if name not in term}


def to_bytes(tensors: Mapping[str, Tensor], settings: ExpertsSection) -> bytes:
    """`mixture.safetensors`: the tensors of the term, as the model names them, and in its header the run's settings."""
    return bytes(save(dict(tensors), metadata={"experts": settings.model_dump_json()}))


def load_term(folder: Path, trunk_width: int) -> ReleasedTerm:
    """The term of the model in a folder.

    Raises:
        OSError, SafetensorError, KeyError, RuntimeError: a file is broken, or of another model.
        ValueError: likewise, or the files are of two runs.
    """
    released = load_experts(folder / EXPERTS)
    with safe_open(folder / MIXTURE, "pt") as file:
        settings = ExpertsSection.model_validate_json((file.metadata() or {}).get("experts", ""))
        if (tuple(settings.grid), settings.width, settings.hidden) != (released.grid, released.width, released.hidden):
            raise ValueError(f"{MIXTURE} is for other experts than those in {EXPERTS}")
        term = ReleasedTerm(settings, trunk_width, released)
        term.load_state_dict({name: file.get_tensor(f"{NAME}.{name}") for name in term.state_dict()})
    return term
