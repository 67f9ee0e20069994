"""The tasks of VTAB and the table of their scores."""

import keras
import numpy as np
import pytest

pytest.importorskip("tensorflow")

from pipelines._tensorflow import tf
from pipelines.evaluation import vtab

pytestmark = pytest.mark.skipif(
    keras.backend.backend() != "jax", reason="pure tf.data and NumPy: the same on every backend"
)


def test_nineteen_tasks_and_the_papers_means():
    assert len(vtab.TASKS) == 19
    groups = [task.group for task in vtab.TASKS]
    assert [groups.count(group) for group in vtab.GROUPS] == [7, 4, 8]
    # The means of table 9: all, natural, specialized, structured.
    for model, means in {
        "ViT-H/14 (JFT)": (77.6, 86.7, 87.0, 65.0),
        "ViT-L/16 (JFT)": (76.3, 85.6, 86.7, 63.0),
        "ViT-L/16 (ImageNet-21k)": (72.7, 83.3, 84.7, 57.5),
    }.items():
        values = np.array(vtab.PUBLISHED[model])
        groups = np.array(groups)
        ours = [values.mean(), *(values[groups == group].mean() for group in vtab.GROUPS)]
        np.testing.assert_allclose(ours, means, atol=0.06)


def test_the_table_has_no_mean_of_some_tasks():
    scores = {task.name: 0.5 for task in vtab.TASKS if task.group == "natural"}
    lines = {line.split()[0]: line.split()[1:] for line in vtab.table(scores).splitlines()[1:]}
    assert lines["Pets"] == ["50.0", "97.2", "96.7", "92.7"]
    assert lines["natural"][0] == "50.0"
    assert lines["structured"][0] == "-" and lines["mean"][0] == "-"
    missing = vtab.how_to_get(scores).splitlines()
    assert len(missing) == 12
    assert "clevr:3.*.*" in "\n".join(missing) and "Pets" not in "\n".join(missing)


def label(name, example):
    (task,) = (task for task in vtab.TASKS if task.name == name)
    return int(task.label(example))


@pytest.mark.parametrize(("depth", "wanted"), [(7.9, 0), (8.0, 1), (9.7, 4), (11.0, 5)])
def test_clevr_takes_the_nearest_object(depth, wanted):
    coordinates = tf.constant([[0.0, 0.0, 50.0], [0.0, 0.0, depth]])
    assert label("Clevr-Dist", {"objects": {"pixel_coords": coordinates}}) == wanted
    sizes = {"objects": {"size": tf.zeros(3 + wanted)}}
    assert label("Clevr-Count", sizes) == wanted


@pytest.mark.parametrize(
    ("depths", "types", "wanted"),
    [((5, 30), (0, 0), 0), ((5, 30), (4, 0), 2), ((12,), (2,), 1), ((3,), (3,), 3), ((), (), 3)],
)
def test_kitti_takes_the_nearest_vehicle(depths, types, wanted):
    location = np.zeros((len(depths), 3), "float32")
    location[:, 2] = depths
    objects = {"location": tf.constant(location), "type": tf.constant(types, "int64")}
    assert label("KITTI-Dist", {"objects": objects}) == wanted


def test_sprites_are_in_sixteen_groups():
    for place, wanted in ((0, 0), (1, 0), (2, 1), (31, 15)):
        assert label("dSpr-Loc", {"label_x_position": tf.constant(place)}) == wanted
    for place, wanted in ((0, 0), (2, 0), (3, 1), (39, 15)):
        assert label("dSpr-Ori", {"label_orientation": tf.constant(place)}) == wanted


def test_data_are_looked_for_before_tfds_is_imported(monkeypatch, tmp_path):
    def slow():
        raise AssertionError("imported")

    monkeypatch.setattr(vtab, "_datasets", slow)
    assert all(vtab.open_task(task, None, tmp_path) is None for task in vtab.TASKS)
    monkeypatch.setenv("TFDS_DATA_DIR", str(tmp_path))
    (tmp_path / "sun397").mkdir()
    (task,) = (task for task in vtab.TASKS if task.name == "Sun397")
    with pytest.raises(AssertionError, match="imported"):
        vtab.open_task(task, None)
