"""What `tests/support/forked.py` imports once, before it forks: all that the commands of `sahaj` need."""

import importlib
import os

from app.startup import set_verbosity

os.environ["OMP_NUM_THREADS"] = "1"  # it is read while torch is imported
os.environ["HF_HUB_DISABLE_XET"] = "1"  # as well; the stand-in for the Hub takes large files in the other way
set_verbosity(verbose=False)
for needed in (
    "app.demo.demo",
    "app.join.join",
    "coordinator.main",
    "coordinator.http.app",
    "downstream.evaluate",
    "downstream.finetune",
    "trainer.train",
    "transformers.models.albert.modeling_albert",
    "transformers.models.modernbert.modeling_modernbert",
):
    importlib.import_module(needed)
