"""The words of the spec, and the variables of the launchers."""

import json

import keras
import pytest

import pipelines
from pipelines.distribution.launcher import num_processes
from pipelines.distribution.spec import Spec, parse

BACKEND = keras.backend.backend()


@pytest.fixture(autouse=True)
def no_launcher(monkeypatch):
    for name in ("TF_CONFIG", "WORLD_SIZE", "KERAS_DISTRIBUTION_NUM_PROCESSES"):
        monkeypatch.delenv(name, raising=False)
    for name in ("TPU_WORKER_HOSTNAMES", "KERAS_VIT_DISTRIBUTE"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("off", Spec("off")),
        ("data", Spec("data")),
        ("model:2x4", Spec("model", (2, 4))),
        ("fsdp:16", Spec("fsdp", (16,))),
        ("tpu", Spec("tpu")),
        ("tpu:my-tpu:8470", Spec("tpu", name="my-tpu:8470")),
    ],
)
def test_every_word_of_the_grammar(text, spec):
    assert parse(text) == spec
    assert str(spec) == text


@pytest.mark.parametrize("text", ["", "dat", "model", "model:2", "model:0x2", "fsdp:2x2", "data:2"])
def test_other_words_are_refused(text):
    with pytest.raises(ValueError, match="The distribution must be 'off', 'data'.*Received: spec="):
        parse(text)


def test_the_variable_is_read_where_nothing_is_said(monkeypatch):
    assert parse() == Spec("off")
    monkeypatch.setenv("KERAS_VIT_DISTRIBUTE", "fsdp:2")
    assert parse() == Spec("fsdp", (2,))
    assert parse("data") == Spec("data")
    monkeypatch.setenv("KERAS_VIT_DISTRIBUTE", "all")
    with pytest.raises(ValueError, match="Received: KERAS_VIT_DISTRIBUTE='all'"):
        parse()


def test_off_is_keras_as_ever():
    fit = keras.Model.fit
    with pipelines.distribute("off") as d:
        assert keras.Model.fit is fit
        assert (d.hosts, d.host, d.replicas, d.is_chief) == (1, 0, 1, True)
        assert d.local_batch_size(7) == 7


def test_each_backend_counts_by_the_variable_of_its_launcher(monkeypatch):
    cluster = {"cluster": {"chief": ["a:1"], "worker": ["b:1", "c:1"]}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(cluster))
    monkeypatch.setenv("KERAS_DISTRIBUTION_NUM_PROCESSES", "4")
    monkeypatch.setenv("WORLD_SIZE", "5")
    assert [num_processes(name) for name in ("tensorflow", "jax", "torch")] == [3, 4, 5]


def test_the_hosts_of_a_tpu_slice_count(monkeypatch):
    monkeypatch.setenv("TPU_WORKER_HOSTNAMES", "w0,w1,w2,w3")
    assert num_processes("jax") == 4


def test_the_launcher_of_another_backend_is_refused(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ValueError, match="WORLD_SIZE says that there are 2 processes, but the jax"):
        num_processes("jax")


def test_many_processes_with_distribution_off_are_refused(monkeypatch):
    variables = {
        "tensorflow": ("TF_CONFIG", '{"cluster": {"worker": ["a:1", "b:1"]}}'),
        "jax": ("KERAS_DISTRIBUTION_NUM_PROCESSES", "2"),
        "torch": ("WORLD_SIZE", "2"),
    }
    monkeypatch.setenv(*variables[BACKEND])
    with pytest.raises(
        ValueError, match="2 processes, and without a distribution each would train"
    ):
        pipelines.distribute("off")


@pytest.mark.parametrize("text", ["[]", "{", '{"cluster": []}'])
def test_a_tf_config_that_cannot_be_read_is_refused(monkeypatch, text):
    monkeypatch.setenv("TF_CONFIG", text)
    with pytest.raises(ValueError, match="TF_CONFIG must be a JSON object"):
        num_processes("tensorflow")


@pytest.mark.parametrize("text", ["two", "0", "-1"])
def test_a_number_of_processes_that_is_none_is_refused(monkeypatch, text):
    monkeypatch.setenv("WORLD_SIZE", text)
    with pytest.raises(ValueError, match="WORLD_SIZE must be the number of processes"):
        num_processes("torch")
