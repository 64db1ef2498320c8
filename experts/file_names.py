"""What a checkpoint of a run with experts has beside `model.safetensors`, which is an ordinary ALBERT."""

MIXTURE = "mixture.safetensors"  # the gate, and the way of rows to experts and back
EXPERTS = "experts.safetensors"  # the experts, as hosts had them
