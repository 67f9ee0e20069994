"""What cannot work is refused in a sentence, before the first step."""

import functools
import json
import pathlib
import tempfile

import keras
import pytest
from distributed_processes import finish, free_ports, start

BACKEND = keras.backend.backend()
SCRIPT = pathlib.Path(__file__).with_name("refusals.py")

SEVERAL = {
    "batch_size": "replicas of data must divide the batch.*nearest that they divide: 8 and 1[02]",
    "batch_in_fit": "replicas of data must divide the batch. Received: batch_size=9",
    "last_batch": "must divide the last batch too. Received: 25 examples, batch_size=16",
    "unknown_batches": "must be equally large, which `drop_remainder=True`",
    "batches_of_nine": "replicas on this host must divide its batches. Received: batches of 9",
    "built_outside": "must be built within `with distribute",
    "validation_split": "Give `validation_data`",
    "unseeded": r"need a seed.*layers \['dropout.*'\] without one",
}
STRATEGY = {
    "steps_per_execution": "`steps_per_execution` fails.*issues/19246",
    "gradient_accumulation": "`gradient_accumulation_steps` fails.*issues/20582",
    "ema_overwrite": "`ema_overwrite_frequency` fails.*issues/20582",
    "jit_compile": "cannot compile the step with XLA.*issues/20763",
}
SPECS = {
    "tensorflow": {
        "model:1x2": "The tensorflow backend has 'data' and 'tpu' only.*KERAS_BACKEND=jax",
        "fsdp:2": "The tensorflow backend has 'data' and 'tpu' only",
        "keras.distribution": "on TensorFlow it does nothing",
    },
    "jax": {
        "tpu": "The jax backend has 'data' and 'model' and 'fsdp' only.*on JAX is 'data'",
        "heads": r"'model' must divide.*4 devices, for numbers of \[2\]. Sizes that divide: 1, 2",
        "model:3x1": "must be all there are. Received: spec='model:3x1', 4 devices",
        "fsdp:7": "must be all there are. Received: spec='fsdp:7', 4 devices",
    },
    "torch": {
        "model:1x2": "The torch backend has 'data' only",
        "fsdp:2": "The torch backend has 'data' only",
        "tpu": "The torch backend has 'data' only",
        "keras.distribution": "on PyTorch it fails",
    },
}[BACKEND]
REFUSED = {
    "tensorflow": SEVERAL | STRATEGY,
    "jax": SEVERAL,
    "torch": {"unseeded": SEVERAL["unseeded"]},
}[BACKEND] | SPECS


TOGETHER = {
    "arrays": "Several processes need a `tf.data.Dataset` of this one's share",
    "a ragged batch": "batches of one known size",
    "uneven training": r"equally many batches.*\[\[3, 4\], \[4, 4\]\]",
    "uneven evaluation": r"equally many batches.*\[\[3, 4\], \[4, 4\]\]",
}
if BACKEND == "jax":
    TOGETHER["predict"] = "In several JAX processes `predict` cannot fetch.*Use `evaluate`"
    TOGETHER["other weights"] = "must start from the same weights.*set_random_seed"


@functools.cache
def said():
    """By one process with several devices."""
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "said.json"
        finish([start([SCRIPT, out], devices=4)])
        return json.loads(out.read_text())


@functools.cache
def said_together():
    """By two processes, each of which must have said the same."""
    script, ports = SCRIPT.with_name("refusals_together.py"), free_ports(2)
    with tempfile.TemporaryDirectory() as folder:
        outs = [pathlib.Path(folder) / f"{rank}.json" for rank in range(2)]
        finish([start([script, out], rank, 2, 1, ports) for rank, out in enumerate(outs)])
        said = [json.loads(out.read_text()) for out in outs]
    assert said[0].keys() == said[1].keys()
    return said


@pytest.mark.parametrize("attempt", REFUSED)
def test_it_is_refused_in_a_sentence(attempt):
    message = said()[attempt]
    assert message is not None, "it was not refused"
    with pytest.raises(ValueError, match=REFUSED[attempt]):
        raise ValueError(message)


@pytest.mark.parametrize("attempt", TOGETHER)
def test_every_process_refuses_it(attempt):
    for said in said_together():
        assert said[attempt] is not None, "it was not refused"
        with pytest.raises(ValueError, match=TOGETHER[attempt]):
            raise ValueError(said[attempt])


@pytest.mark.skipif(BACKEND != "jax", reason="the options fail under a strategy of TensorFlow")
@pytest.mark.parametrize("attempt", STRATEGY)
def test_jax_takes_what_a_strategy_does_not(attempt):
    assert said()[attempt] is None


def test_a_refusal_spoils_nothing():
    assert said()["trains after all that"] is None


def test_the_file_of_a_model_tells_what_the_user_compiled():
    config = json.loads(said()["config"])
    assert config["metrics"] == ["accuracy"]
    assert config["weighted_metrics"] is None
