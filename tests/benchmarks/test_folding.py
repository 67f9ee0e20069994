"""The benchmark of folding: that it runs what it says, and its arithmetic; never its times."""

import folding
import keras
import pytest

import keras_vit


def test_both_kinds_run_and_only_one_is_folded(monkeypatch):
    def tiny(weights, input_shape):
        return keras_vit.BiTResNet(input_shape[:2], num_layers=(1, 1), width=0.5, classes=3)

    monkeypatch.setattr(keras_vit, "Tiny", tiny, raising=False)
    contender = folding.Contender("Tiny", 32)
    for kind in folding.KINDS:
        assert contender.work(kind, 2)["seconds"] > 0
    assert [contender.models[kind].spec.folded for kind in folding.KINDS] == [False, True]


@pytest.mark.skipif(keras.config.backend() != "tensorflow", reason="no backend has a part in it")
def test_gain_is_the_median_of_the_ratios_of_each_round():
    found = {"model": "M", "batch": 8, "as trained": [2.0, 4.0, 6.0], "folded": [1.0, 1.0, 2.0]}
    assert folding.row("jax", found) == [
        "jax", "M", "8", "2.00 images/s", "8.00 images/s", "3.00 ± 33%",
    ]  # fmt: skip
