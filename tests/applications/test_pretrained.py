"""Named constructors with the files of others: what the file decides, and what is refused."""

import pathlib

import keras
import numpy as np
import pytest
from foreign_weights import model as foreign_model
from small_models import numpy, values

import keras_vit
from keras_vit.applications import constructors, pretrained
from keras_vit.applications.sizes import ViTSize
from keras_vit.weights import files, google, timm

# A constructor like the named ones, of the sizes of `foreign_weights`, for quick tests.
Tiny = constructors.vit_constructor("ViT_Ti4", ViTSize(4, 3, 24, 40, 4))
SIZES = {"image_size": (16, 20), "patch_size": (4, 4)}  # a grid of 4 x 5
QUIET = pytest.mark.filterwarnings("ignore:ViT_Ti4")


def save(folder, module, name, recorded=True, **fields):
    """A file as others write it: `(path, facts, weights)`."""
    facts, weights = foreign_model(**{**SIZES, **fields})
    arrays = module.write(weights, facts)
    path = folder / name
    metadata = {"position_grid": [4, 5], "num_heads": 4} if recorded else None
    if name.endswith(".npz"):
        files.write_npz(path, arrays, metadata)
    else:
        files.write_safetensors(path, arrays, metadata)
    return path, facts, weights


@pytest.fixture(scope="module")
def token_file(tmp_path_factory):
    return save(tmp_path_factory.mktemp("token"), google, "token.npz")


@pytest.fixture(scope="module")
def averaging_file(tmp_path_factory):
    folder = tmp_path_factory.mktemp("averaging")
    return save(folder, google, "avg.npz", pooling="avg", class_token=False)


@pytest.fixture(scope="module")
def registers_file(tmp_path_factory):
    fields = {"origin": "timm", "num_registers": 2, "layer_scale": 0.1, "qk_norm": True}
    return save(tmp_path_factory.mktemp("registers"), timm, "model.safetensors", **fields)


def assert_holds(model, weights, without=()):
    held = values(model)
    assert sorted(held) == sorted(path for path in weights if not path.startswith(without))
    for path, value in held.items():
        np.testing.assert_array_equal(value, weights[path], err_msg=path)


# The file decides.


def test_resolution_and_classes_are_the_files(token_file):
    path, _, weights = token_file
    model = Tiny(weights=path)
    assert model.input_shape == (None, 16, 20, 3) and model.output_shape == (None, 5)
    assert_holds(model, weights)


def test_no_class_token_where_the_file_has_none(averaging_file):
    path, _, weights = averaging_file
    model = Tiny(weights=path)
    assert (model.spec.pooling, model.spec.class_token) == ("avg", False)
    assert_holds(model, weights)


def test_registers_scales_norms_and_constants_are_the_files(registers_file):
    path, _, weights = registers_file
    model = Tiny(weights=path)
    spec = model.spec
    assert (spec.origin, spec.activation, spec.interpolation) == (
        "timm",
        "gelu",
        "bicubic_antialias",
    )
    assert (spec.num_registers, spec.qk_norm, spec.layer_scale) == (2, True, 1.0)
    assert_holds(model, weights)


def test_without_a_top_all_tokens_are_returned(token_file):
    path, _, weights = token_file
    model = Tiny(weights=path, include_top=False)
    assert model.output_shape == (None, 21, 24)
    assert_holds(model, weights, without=("head",))


# What contradicts it is refused.


@pytest.mark.parametrize(
    ("file", "arguments", "match"),
    [
        ("averaging_file", {"pooling": "token"}, "pooling='token', but the file has pooling='avg'"),
        ("token_file", {"pooling": "map"}, "pooling='map', but the file has pooling='token'"),
        ("token_file", {"pooling": "avg"}, "pooling='avg', but the file has pooling='token'"),
        ("token_file", {"pooling": "map", "classes": 9}, "pooling='map', but the file"),
        ("token_file", {"representation_size": 8}, "representation_size=8.*None"),
        ("token_file", {"position_embedding": "sincos2d"}, "position_embedding='sincos2d'"),
        ("registers_file", {"position_embedding": "none"}, "position_embedding='none'"),
    ],
)
def test_contradictions(request, file, arguments, match):
    path, *_ = request.getfixturevalue(file)
    with pytest.raises(ValueError, match=match):
        Tiny(weights=path, **arguments)


@QUIET
def test_a_fresh_head_may_read_what_it_likes(token_file):
    model = Tiny(weights=token_file[0], pooling="avg", classes=9)
    assert model.spec.pooling == "avg" and model.output_shape == (None, 9)


def test_a_folder_called_as_published_weights_are(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "imagenet").mkdir()
    monkeypatch.setattr(pretrained.download, "fetch", lambda entry: entry.name)
    path, entry = pretrained.find_file("ViT_Ti16", "imagenet")
    assert path == entry.name == "augreg_imagenet21k_ft_imagenet_224"
    assert pretrained.find_file("ViT_Ti16", pathlib.Path("imagenet"))[0].is_dir()


def test_another_size(token_file):
    other = constructors.vit_constructor("ViT_X4", ViTSize(4, 3, 24, 48, 4))
    with pytest.raises(ValueError, match=r"mlp_dim=40 \(ViT_X4 has 48\)"):
        other(weights=token_file[0])


def test_an_ambiguous_grid_names_what_settles_it(tmp_path):
    path, *_ = save(tmp_path, google, "old.npz", recorded=False, image_size=(12, 32))  # 1 + 24
    with pytest.raises(ValueError, match="25 rows.*source_grid="):
        Tiny(weights=path)
    model = Tiny(weights=None, input_shape=(12, 32, 3), classes=5)
    report = keras_vit.load_weights(model, path, source_grid=(3, 8))
    assert not report.adapted


# Fresh heads. A model is built without random values for a file; what stays fresh must have them.


@QUIET
def test_another_number_of_classes_gives_a_fresh_head_of_zeros(token_file):
    path, _, weights = token_file
    with pytest.warns(UserWarning, match="the head is fresh .9 classes; the file has 5") as caught:
        model = Tiny(weights=path, classes=9)
    assert caught[0].filename == __file__  # it points at the user's own line
    assert model.output_shape == (None, 9)
    held = values(model)
    assert not held["head/kernel"].any() and not held["head/bias"].any()
    np.testing.assert_array_equal(held["norm/gamma"], weights["norm/gamma"])


@QUIET
def test_fresh_pre_logits_are_random_and_so_is_a_clone(token_file):
    model = Tiny(weights=token_file[0], classes=9, representation_size=16)
    kernel = values(model)["pre_logits/kernel"]
    assert 0.5 < kernel.std() * 24**0.5 < 1.5  # LeCun's: a deviation of 1 / sqrt(24)
    clone = type(model).from_config(model.get_config())
    for variable in clone.weights:
        if variable.name == "kernel" and not variable.path.startswith("head"):
            assert numpy(variable).std() > 0.01, variable.path


@QUIET
def test_a_model_with_weights_is_saved_and_trained_as_any_other(tmp_path, token_file):
    model = Tiny(weights=token_file[0], dropout_rate=0.3)
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    assert again.spec == model.spec
    for path, value in values(model).items():
        np.testing.assert_array_equal(values(again)[path], value, err_msg=path)
    images = np.random.default_rng(0).uniform(-1, 1, (2, 16, 20, 3)).astype("float32")
    first, second = (numpy(model(images, training=True)) for _ in range(2))
    assert np.abs(first - second).max() > 1e-4  # the seeds of dropout are those of any model


@QUIET
def test_channels_and_statistics_follow_the_input(token_file):
    path, _, weights = token_file
    model = Tiny(weights=path, input_shape=(16, 20, 1))
    kernel = values(model)["patch_embedding/kernel"]
    summed = weights["patch_embedding/kernel"].sum(axis=2, keepdims=True)
    np.testing.assert_allclose(kernel, summed, rtol=1e-6, atol=1e-7)
    assert len(model.spec.preprocessing.mean) == 1
