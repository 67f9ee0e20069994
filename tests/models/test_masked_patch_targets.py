"""What is predicted of a patch: its colors or pixels, worked by hand and by loops."""

import numpy as np
import pytest
from patches_by_loops import by_loops, cell, color_class
from small_models import numpy

import keras_vit
from keras_vit.models.masked_patch_targets import cut, make_target, paste
from keras_vit.models.spec import ViTSpec


def target(name, image_size, patch_size, channels=3, **fields):
    sizes = {"num_layers": 1, "num_heads": 1, "hidden_dim": 4, "mlp_dim": 4}
    fields = {"include_preprocessing": True, **fields}
    spec = ViTSpec(image_size, patch_size, **sizes, channels=channels, **fields)
    return make_target(name, spec, patch_size), spec


def of(name, pixels, patch_size, **fields):
    a_target, spec = target(name, pixels.shape[1:3], patch_size, pixels.shape[-1], **fields)
    return numpy(a_target.of(cut(pixels, spec.grid, patch_size)))


def test_mean_colors_worked_by_hand():
    pixels = np.zeros((1, 4, 6, 3), "uint8")  # 2 x 2 patches of 2 high and 3 wide
    pixels[0, :2, :3] = 255  # white: 7 * 64 + 7 * 8 + 7
    pixels[0, :2, 3:] = (255, 0, 31)  # 31 is below the first step: 7 * 64
    pixels[0, 2:, :3] = (32, 64, 224)  # just above steps 1, 2 and 7: 64 + 16 + 7
    pixels[0, 2, 3:] = (0, 200, 0)  # half of the patch: a mean of (0, 100, 0), level 3: 24
    np.testing.assert_array_equal(of("mean_color", pixels, (2, 3)), [[511, 448, 87, 24]])


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_mean_colors(channels):
    rng = np.random.default_rng(channels)
    pixels = rng.integers(0, 256, (2, 12, 15, channels), "uint8")
    # Patches of much and of little contrast, dark and bright ones.
    pixels[1] = pixels[1] ** 0.5 * np.linspace(0, 16, 15)[:, None]
    wanted = by_loops(pixels, (4, 5), lambda patch: color_class(patch.mean(axis=(0, 1))))
    np.testing.assert_array_equal(of("mean_color", pixels, (4, 5)), wanted)
    assert len(np.unique(wanted)) > 5


@pytest.mark.parametrize("patch_size", [(8, 12), (6, 5), (4, 7)])
def test_downsampled_patches(patch_size):
    size = (2 * patch_size[0], 3 * patch_size[1])
    pixels = np.random.default_rng(0).integers(0, 256, (2, *size, 3), "uint8")

    def classes(patch):
        cells = [cell(patch, row, column, 4) for row in range(4) for column in range(4)]
        return [color_class(color) for color in cells]

    actual = of("downsampled", pixels, patch_size)
    wanted = np.array(by_loops(pixels, patch_size, classes))  # (B, N, 16)
    np.testing.assert_array_equal(actual.reshape(wanted.shape), wanted)


def test_colors_of_scaled_images_are_those_of_their_pixels():
    pixels = np.random.default_rng(0).integers(0, 256, (2, 16, 24, 3), "uint8")
    facts = keras_vit.models.preprocessing.Preprocessing((0.4, 0.5, 0.6), (0.2, 0.3, 0.25))
    scaled = (pixels / 255 - np.array(facts.mean)) / np.array(facts.std)
    fields = {"include_preprocessing": False, "preprocessing": facts}
    actual = of("mean_color", scaled.astype("float32"), (8, 8), **fields)
    np.testing.assert_array_equal(actual, of("mean_color", pixels, (8, 8)))


def test_pixels_are_those_that_the_encoder_reads():
    pixels = np.random.default_rng(0).integers(0, 256, (2, 4, 9, 2), "uint8")
    wanted = by_loops(pixels / 127.5 - 1, (2, 3), lambda patch: patch.reshape(-1, 2))
    actual = of("pixels", pixels, (2, 3)).reshape(2, 6, 6, 2)
    np.testing.assert_allclose(actual, wanted, atol=1e-6)
    as_read = (pixels / 127.5 - 1).astype("float32")
    again = of("pixels", as_read, (2, 3), include_preprocessing=False)
    np.testing.assert_allclose(again.reshape(actual.shape), wanted, atol=1e-6)


@pytest.mark.parametrize("channels", [1, 4])
def test_patches_go_back_to_their_places(channels):
    pixels = np.random.default_rng(0).normal(size=(2, 6, 20, channels)).astype("float32")
    patches = numpy(cut(pixels, (3, 4), (2, 5)))
    np.testing.assert_array_equal(patches[1, 6], pixels[1, 2:4, 10:15])  # row 1, column 2
    np.testing.assert_array_equal(paste(patches, (3, 4)), pixels)
