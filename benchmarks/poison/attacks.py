"""Gradients that are made to do harm, as functions of the honest ones.

The strongest attackers know all honest gradients of the step before they send theirs, which nobody does in a run; the
others know what any member knows: their own text.
"""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from averaging.log.shares import LOUDEST
from trainer.data import Batch

Vector = NDArray[np.float32]
CLAIM = 8  # times the samples that were computed


@dataclass(frozen=True)
class Scene:
    """What an attacker knows of a step."""

    own: Vector  # its mean gradient, computed as an honest peer does
    honest: Sequence[Vector]  # of all others
    weights: Sequence[int]  # masked tokens behind them
    weight: int  # that the attacker says to have
    attackers: int
    random: np.random.Generator

    @property
    def mean(self) -> Vector:
        """Of the honest gradients."""
        return np.average(self.honest, axis=0, weights=self.weights).astype(np.float32)


@dataclass(frozen=True)
class Attack:
    """One way to lie: with other gradients, or gradients of other batches."""

    name: str
    what: str
    send: Callable[[Scene], Vector] = lambda scene: scene.own
    falsify: Callable[[Batch, np.random.Generator], Batch] = lambda batch, random: batch
    claim: int = 1  # times the samples that were computed


def noise(scene: Scene) -> Vector:
    """Of the norm that an honest gradient of this weight has."""
    drawn = scene.random.standard_normal(len(scene.own)).astype(np.float32)
    return drawn * (np.linalg.norm(scene.own) / np.linalg.norm(drawn))


def a_little_is_enough(scene: Scene) -> Vector:
    """ALIE (Baruch et al. 2019): as far from the mean as a part of the honest gradients are, in each element."""
    peers = len(scene.honest) + scene.attackers
    needed = peers // 2 + 1 - scene.attackers
    z = statistics.NormalDist().inv_cdf((peers - scene.attackers - needed) / (peers - scene.attackers))
    return np.asarray(scene.mean - max(z, 0.1) * np.std(scene.honest, axis=0), np.float32)


def inner_product(scene: Scene) -> Vector:
    """Against the mean of the others, as loud as honest noise is (Xie et al. 2019, "Fall of empires")."""
    mean = scene.mean
    return -mean * (np.linalg.norm(scene.own) / np.linalg.norm(mean))


def loudest_inner_product(scene: Scene) -> Vector:
    """The same, as loud as a gradient may be without being scaled down."""
    return np.asarray(LOUDEST * inner_product(scene), np.float32)


def shuffled(batch: Batch, random: np.random.Generator) -> Batch:
    """Each masked position gets the token of another one."""
    counted = batch.masked
    order = torch.from_numpy(random.permutation(counted))
    labels = batch.masked_labels.clone()
    labels[:counted] = labels[:counted][order]
    return replace(batch, masked_labels=labels)


NO_ATTACK = Attack("none", "nobody lies")
ATTACKS = (
    NO_ATTACK,
    Attack("times-100", "gradients times 100", lambda scene: scene.own * 100),
    Attack("times-minus-10", "gradients times -10", lambda scene: scene.own * -10),
    Attack("sign-flip", "gradients times -1", lambda scene: -scene.own),
    Attack("noise", "noise of the right norm", noise),
    Attack("zero", "nothing but zeros", lambda scene: np.zeros_like(scene.own)),
    Attack("alie", "ALIE, which knows all gradients", a_little_is_enough),
    Attack("inner-product", "against the others' mean, with the right norm, which knows all gradients", inner_product),
    Attack("loud-inner-product", f"the same, {LOUDEST} times as loud", loudest_inner_product),
    Attack("label-shuffling", "true gradients for the wrong words", falsify=shuffled),
    Attack("claims", f"says to have {CLAIM} times the samples", claim=CLAIM),
)
