"""Models of the sizes that a file tells."""

import pytest
from small_models import assert_equal, values
from small_resnets import hybrid

import keras_vit
from keras_vit.applications.from_file import model_from_file


@pytest.fixture
def without_record(tmp_path):
    """A hybrid's file as others write it, with nothing of this library beside it."""
    # The ResNet leaves 5 x 6 pixels of 34 x 41, in patches of 5 x 3.
    model, _, _ = hybrid(patch_size=(5, 3))
    path = tmp_path / "hybrid.npz"
    keras_vit.save_weights(model, path)
    (tmp_path / "hybrid.npz.json").unlink()
    return path, values(model)


def test_the_image_of_a_hybrid_is_its_patches_times_the_halvings(without_record):
    path, weights = without_record
    model, report = model_from_file(path, source_grid=(1, 2))
    assert model.spec.image_size == (40, 48)  # 1 * 5 * 8, 2 * 3 * 8
    assert (model.spec.patch_size, model.spec.resnet) == ((5, 3), (1, 2))
    assert_equal(values(model), weights)
    assert not report.adapted and not report.fresh and not report.unused


def test_a_grid_that_the_file_does_not_tell_is_asked_for(without_record):
    with pytest.raises(ValueError, match=r"`source_grid=\(rows, columns\)`"):
        model_from_file(without_record[0])
