"""tf.data service in processes of its own gives the batches that one process makes."""

import subprocess
import sys

import keras
import numpy as np
import pytest
from image_files import model_of
from PIL import Image

import pipelines
from pipelines.distribution.data_service import through_services
from pipelines.distribution.engine import Engine

pytestmark = pytest.mark.skipif(
    keras.backend.backend() != "tensorflow", reason="the data are the same on every backend"
)

# TensorFlow alone: a machine that prepares images needs nothing of this library.
SERVER = """
import sys
import tensorflow as tf
service = tf.data.experimental.service
dispatcher = service.DispatchServer(service.DispatcherConfig(port=0))
address = dispatcher.target.removeprefix("grpc://")
config = service.WorkerConfig(dispatcher_address=address, port=0, heartbeat_interval_ms=100)
worker = service.WorkerServer(config)
print(dispatcher.target, flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="module")
def services():
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", SERVER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        for _ in range(2)
    ]
    try:
        yield [process.stdout.readline().strip() for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.communicate()


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    folder = tmp_path_factory.mktemp("photos")
    rng = np.random.default_rng(0)
    for number in range(12):
        (folder / "abc"[number % 3]).mkdir(exist_ok=True)
        pixels = rng.integers(0, 256, (6, 9, 3), "uint8")
        Image.fromarray(pixels).save(folder / "abc"[number % 3] / f"{number}.png")
    return str(folder)


def load(photos, share):
    return pipelines.load(
        photos,
        model=model_of(3, image_size=(4, 5)),
        batch_size=8,
        augment="light1",
        validation=False,
        repeat=True,
        start_step=3,
        distribute=share,
    )[0]


@pytest.mark.timeout(120)
def test_batches_of_services_are_those_of_one_process(services, photos):
    mine = load(photos, None).take(5).as_numpy_iterator()
    theirs = through_services(lambda share: load(photos, share), services)
    assert theirs.element_spec[0].shape == (8, 4, 5, 3)
    for (images, labels), (others, other_labels) in zip(
        mine, theirs.take(5).as_numpy_iterator(), strict=True
    ):
        np.testing.assert_array_equal(images, others)
        np.testing.assert_array_equal(labels, other_labels)
    assert len(np.unique(labels)) > 1


@pytest.mark.timeout(120)
def test_each_host_has_its_rows(services, photos):
    (images, _) = next(load(photos, None).as_numpy_iterator())
    for host in range(2):
        engine = Engine()
        engine.hosts, engine.host = 2, host
        data = through_services(lambda share: load(photos, share), services, engine)
        (rows, _) = next(data.as_numpy_iterator())
        np.testing.assert_array_equal(rows, images[4 * host : 4 * host + 4])
