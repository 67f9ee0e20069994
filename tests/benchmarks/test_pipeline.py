"""The benchmark of the input pipeline: its images, its turns and its report; never its times."""

import os
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest

pytest.importorskip("PIL")

import measure
import pipeline
import pipeline_memory
from PIL import Image

FOLDER = Path(measure.__file__).parent
pytestmark = pytest.mark.skipif(
    keras.config.backend() != "tensorflow",
    reason="nothing here depends on the backend: tested with TensorFlow's",
)

COUNTING = """
import sys
sys.path.insert(0, {folder!r})
import measure
total = 0
def work(add):
    global total
    print("noise that is no answer")
    total += 1 // add
    return {{"total": total}}
measure.serve(work)
"""


def counting():
    return measure.Worker([sys.executable, "-c", COUNTING.format(folder=str(FOLDER))])


def test_a_worker_keeps_its_state_and_tells_of_its_failure():
    worker = counting()
    try:
        assert worker.ask(add=1)["total"] == 1
        answer = worker.ask(add=1)
        assert answer["total"] == 2
        assert answer["seconds"] >= 0 and answer["cpu"] >= 0
        assert 0 < answer["resident"] <= answer["peak"]
        assert worker.ask(add=0) is None
        assert worker.failure == "ZeroDivisionError: integer division or modulo by zero"
    finally:
        worker.close()


def test_turns_leave_out_the_first_round_and_who_failed():
    workers = {"good": counting(), "bad": counting()}
    requests = {"good": {"add": 1}, "bad": {"add": 0}}
    try:
        answers = measure.interleaved(workers, 3, requests)
    finally:
        for worker in workers.values():
            worker.close()
    assert [answer["total"] for answer in answers.pop("good")] == [2, 3, 4]
    assert not answers


def test_the_processor_time_of_children_counts():
    code = (
        "import subprocess, sys, time; start = time.process_time()\n"
        "child = subprocess.Popen([sys.executable, '-c', 'while True: pass'])\n"
        "print('on', flush=True); sys.stdin.read(); child.kill()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        process.stdout.readline()
        assert len(measure.tree(process.pid)) == 2
        before = measure.cpu_seconds(process.pid)
        for _ in range(10_000):  # until the child has had its turn, however busy the machine
            if measure.cpu_seconds(process.pid) > before + 0.05:
                break
        assert measure.cpu_seconds(process.pid) > before + 0.05
    finally:
        process.communicate(b"")


def test_images_have_their_size_and_classes(tmp_path):
    pipeline.make_images(tmp_path, 190, 130, 9)
    files = pipeline._files(tmp_path)
    assert len(files) == 9 and len({file.parent.name for file in files}) == 4
    pictures = [np.asarray(Image.open(file)) for file in files]
    assert {picture.shape for picture in pictures} == {(130, 190, 3)}
    assert len({picture.tobytes() for picture in pictures}) == 9


def test_the_report_has_ratios_and_reasons():
    row = {"spread": 0.1, "cpu_ms_per_image": 1.0, "peak_mib": 9.0, "resident_mib": [5, 6]}
    key = "images_per_second_and_core"
    found = {
        pipeline.OURS: row | {key: 300.0},
        "slow": row | {key: 100.0},
        "absent": {"failure": "ModuleNotFoundError: no such thing"},
    }
    results = {"machine": measure.machine(), "sizes": {"500x375": found}}
    text = pipeline.report(results)
    assert "| slow | 100 | 10 % | 1.00 | 9 | 5 to 6 | 3.00 x |" in text
    assert "left out: ModuleNotFoundError: no such thing" in text


def test_memory_of_this_process_has_an_anonymous_part():
    held = np.ones(2**24)  # 128 MiB, written to
    resident, peak = measure.memory(os.getpid())
    assert held.nbytes / 2**20 < measure.anonymous(os.getpid()) < resident <= peak


def test_the_sizes_of_a_collection_by_hand(tmp_path):
    pipeline.make_images(tmp_path, 190, 130, 5)
    found = pipeline_memory.collection(tmp_path)
    sizes = [path.stat().st_size for path in tmp_path.rglob("*.jpg")]
    assert found["images"] == 5
    assert found["encoded"] * 2**20 == sum(sizes)
    assert found["decoded"] * 2**20 == 5 * 190 * 130 * 3


def test_the_report_of_memory_by_hand():
    def reading(anonymous):
        return {"images": 2048, "anonymous": anonymous, "resident": 900.0, "peak": 2 * anonymous}

    readings = [reading(float(value)) for value in (100, 300, 310, 305, 306)]
    results = {
        "machine": measure.machine(),
        "size": "500x375",
        "epochs": 4,
        "collection": {"images": 2048, "encoded": 150.4, "decoded": 1098.6},
        "sources": {
            pipeline_memory.FOLDER: {"failure": None, "readings": readings},
            pipeline_memory.HELD: {"failure": None, "readings": readings[:2]},
            pipeline_memory.STREAM: {"failure": "ValueError: no", "readings": readings[:1]},
        },
    }
    text = pipeline_memory.report(results)
    assert "2,048 JPEGs of 500x375 pixels: 150 MiB encoded, 1099 MiB decoded." in text
    assert "of 4 epochs." in text
    # 306 - 100; (306 - 300) in the three epochs after the first.
    assert "| folder | 0 | 100 | 300 | 310 | 306 | 206 | +2.0 | 620 |" in text
    assert "| records, held | 150 | 100 | 300 | 300 | 300 | 200 | +0.0 | 600 |" in text
    assert "| records, stream | failed: ValueError: no |" in text
    assert pipeline_memory.may_wait(pipeline_memory.STREAM, 150.4) == 32
    assert pipeline_memory.may_wait(pipeline_memory.STREAM, 15.5) == 15.5
