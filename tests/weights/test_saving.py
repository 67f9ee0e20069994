"""Models written in foreign formats and read again: the same bits, or a refusal."""

import json

import numpy as np
import pytest
from golden_weights import golden_file, read_npz
from small_models import assert_equal, golden_model, values

import keras_vit

# What each format can say of each golden model; all it cannot say is refused.
GOOGLE, TIMM, HUGGING_FACE = "google", "timm", "huggingface"
EXPRESSED = {
    "vit_token": (GOOGLE, TIMM, HUGGING_FACE),
    "vit_gap": (GOOGLE, TIMM),  # transformers always has a class token
    "vit_pre_logits": (GOOGLE,),  # nobody else has them below a classifier
    "bv_vit_map": (GOOGLE, TIMM),
    "bv_vit_gap_sincos2d": (GOOGLE,),
    "bv_vit_token": (GOOGLE, TIMM),  # a class token without a position is timm's `no_embed_class`
    "timm_vit_token": (TIMM, HUGGING_FACE),  # Google's code has one GELU
    "timm_vit_gap_fc_norm": (TIMM,),
    "timm_vit_reg_layerscale_qknorm": (TIMM,),
    "hf_vit": (HUGGING_FACE,),  # its epsilon is 1e-12
}
FILES = {GOOGLE: "weights.npz", TIMM: "weights.safetensors", HUGGING_FACE: "folder"}


@pytest.mark.parametrize("name", EXPRESSED)
def test_written_and_read_again_bit_by_bit(tmp_path, name):
    model = golden_model(name)
    keras_vit.load_weights(model, golden_file(name))
    expected = values(model)
    for format, file in FILES.items():
        path = tmp_path / file
        if format not in EXPRESSED[name]:
            with pytest.raises(ValueError, match=f"The {format} format cannot express"):
                keras_vit.save_weights(model, path, format=format)
            assert not path.is_file()
            continue
        keras_vit.save_weights(model, path, format=format)
        again = golden_model(name)
        report = keras_vit.load_weights(again, path)
        assert_equal(values(again), expected)
        assert not report.adapted and not report.fresh and not report.unused


def test_around_all_formats_and_back_to_the_very_arrays(tmp_path):
    source = golden_file("vit_token")
    for format in (TIMM, HUGGING_FACE, GOOGLE):
        model = golden_model("vit_token")
        keras_vit.load_weights(model, source)
        source = tmp_path / FILES[format]
        keras_vit.save_weights(model, source, format=format)
    original, returned = read_npz(golden_file("vit_token")), read_npz(source)
    assert original.keys() == returned.keys()
    for key, array in original.items():
        assert array.dtype == returned[key].dtype == np.float32
        np.testing.assert_array_equal(returned[key], array, err_msg=key)


@pytest.mark.parametrize("format", FILES)
def test_the_grid_is_recorded(tmp_path, format):
    # 12 patches: no square, and three rectangles.
    fields = {"image_size": (16, 48), "patch_size": 8}
    model = golden_model("vit_token", **fields)
    keras_vit.save_weights(model, tmp_path / FILES[format], format=format)
    other = golden_model("vit_token", **{**fields, "image_size": (48, 16)})
    report = keras_vit.load_weights(other, tmp_path / FILES[format])
    (positions,) = report.adapted
    assert "grid 2x6 to 6x2" in positions.how


def test_a_file_of_the_wrong_kind_is_not_written(tmp_path):
    model = golden_model("vit_token")
    with pytest.raises(ValueError, match=r"`format='google'` writes a `\.npz` file"):
        keras_vit.save_weights(model, tmp_path / "weights.safetensors", format=GOOGLE)
    with pytest.raises(ValueError, match="`format` must be one of"):
        keras_vit.save_weights(model, tmp_path / "weights.npz", format="torch")
    assert not list(tmp_path.iterdir())


def test_the_configuration_has_the_constants(tmp_path):
    model = golden_model("vit_token")
    keras_vit.save_weights(model, tmp_path / "folder", format=HUGGING_FACE)
    config = json.loads((tmp_path / "folder/config.json").read_text())
    # Google's: the tanh GELU, and 1e-6.
    assert config["hidden_act"] in ("gelu_new", "gelu_pytorch_tanh")
    assert config["layer_norm_eps"] == 1e-6
    assert config["model_type"] == "vit" and config["num_hidden_layers"] == 3
