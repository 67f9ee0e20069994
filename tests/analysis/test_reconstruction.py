"""The picture of masked patch prediction."""

import numpy as np
import pytest
from small_models import build

from keras_vit import MaskedPatchPrediction
from keras_vit.analysis import plot_reconstruction


@pytest.mark.usefixtures("drawing")
@pytest.mark.parametrize("channels", [1, 3])
def test_input_corruption_and_prediction_side_by_side(channels):
    given = build(num_layers=1, channels=channels).model
    shares = {"mask_share": 1.0, "random_share": 0.0}
    model = MaskedPatchPrediction(given, target="pixels", seed=1, **shares)
    images = np.random.default_rng(0).uniform(-1, 1, (2, 24, 40, channels)).astype("float32")
    figure = plot_reconstruction(model, images)
    titles = [axis.get_title() for axis in figure.axes]
    assert titles == ["input", "corruption", "prediction"]
    pictures = [axis.images[0].get_array()[-24:] for axis in figure.axes]  # of the last image
    kinds = model.reconstruct(images).kinds[1]
    assert set(kinds.ravel()) == {0, 1}
    for row, column in np.ndindex(3, 5):
        patch = np.s_[8 * row : 8 * row + 8, 8 * column : 8 * column + 8]
        wanted = np.broadcast_to((images[1][patch] + 1) / 2, (8, 8, 3))
        np.testing.assert_allclose(pictures[0][patch], wanted, atol=1e-6)
        # A new prediction layer says 0, the middle of the range, of every pixel.
        wanted = 0.5 if kinds[row, column] else wanted
        for picture in pictures[1:]:
            np.testing.assert_allclose(picture[patch], wanted, atol=1e-6)
