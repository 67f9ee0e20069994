"""Loaded data on two devices, or in two processes where the backend wants that."""

import json
import pathlib
import tempfile

import distributed_processes
import keras
import numpy as np
import pytest

pytest.importorskip("tensorflow")

import loaded_data_worker as worker

import pipelines

PROCESSES = 2 if keras.backend.backend() == "torch" else 1


@pytest.fixture(scope="module")
def results():
    ports = distributed_processes.free_ports(PROCESSES)
    script = pathlib.Path(worker.__file__)
    with tempfile.TemporaryDirectory() as folder:
        outs = [pathlib.Path(folder) / f"{rank}.json" for rank in range(PROCESSES)]
        distributed_processes.finish(
            [
                distributed_processes.start([script, out], rank, PROCESSES, 2, ports)
                for rank, out in enumerate(outs)
            ]
        )
        return [json.loads(out.read_text()) for out in outs]


def pixels(source):
    images = np.stack([source.read(i) for i in range(source.count)])
    return images.reshape(source.count, -1) / 127.5 - 1.0


def test_padded_evaluation_is_the_count_by_hand(results):
    for size in worker.SIZES:
        source = worker.source(size)
        outputs = pixels(source) @ worker.weights()
        labels = np.eye(2)[source.labels]
        mae = np.abs(outputs - labels).mean()
        accuracy = (outputs.argmax(-1) == source.labels).mean()
        for of_process in results:
            assert of_process["replicas"] == 2
            np.testing.assert_allclose(of_process[str(size)], [mae, accuracy], rtol=1e-4)


def test_training_is_that_of_one_device(results):
    train, _ = pipelines.load(
        worker.source(20),
        model=worker.SPEC,
        batch_size=8,
        one_hot=True,
        augment="none",
        validation=False,
    )
    expected = np.float64(worker.weights())
    for _ in range(2):
        for images, labels in train.as_numpy_iterator():
            x = np.float64(images).reshape(len(images), -1)
            expected -= 0.01 * 2 / labels.size * x.T @ (x @ expected - labels)
    for of_process in results:
        np.testing.assert_allclose(of_process["weights"], expected, atol=1e-4)
