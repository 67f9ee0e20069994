"""Multiply-adds."""

import keras
import pytest
from small_resnets import bit, hybrid

import keras_vit
from keras_vit import VisionTransformer

# D 24, M 40, patches of 8 x 8 pixels: 3 x 5 of them and a class token.
VIT = {
    "image_size": (24, 40),
    "patch_size": 8,
    "num_layers": 2,
    "num_heads": 3,
    "hidden_dim": 24,
    "mlp_dim": 40,
    "classes": 5,
}
BLOCK = 16 * (4 * 24**2 + 2 * 24 * 40) + 2 * 16**2 * 24


def test_a_vision_transformer_by_hand():
    report = keras_vit.count_macs(VisionTransformer(**VIT))
    assert report.by_layer == {
        "patch_embedding": 15 * 8 * 8 * 3 * 24,
        "block_0": BLOCK,
        "block_1": BLOCK,
        "head": 24 * 5,
    }
    assert report.total == sum(report.by_layer.values())


def test_relative_positions_multiply_as_often_as_keys():
    report = keras_vit.count_macs(VisionTransformer(**VIT, position_embedding="relative"))
    assert report.by_layer["block_1"] == BLOCK + 16**2 * 24


def test_attention_pooling_and_pre_logits():
    model = VisionTransformer(**VIT, pooling="map", representation_size=11)
    report = keras_vit.count_macs(model)
    # The query and the output of one probe, keys and values of 15 patches.
    attention = (2 * 1 + 2 * 15) * 24**2 + 2 * 15 * 24
    assert report.by_layer["map_pooling"] == attention + 2 * 24 * 40
    assert report.by_layer["pre_logits"] == 24 * 11
    assert report.by_layer["head"] == 11 * 5


def test_a_hybrid_by_hand():
    model, _, _ = hybrid()  # 34 x 41 pixels, 17 x 21, 9 x 11 and 5 x 6 positions
    report = keras_vit.count_macs(model)
    assert report.by_layer["stem_conv"] == 17 * 21 * 49 * 3 * 32
    # conv1, conv2, conv3 and the projection of the shortcut
    assert report.by_layer["stage_1_unit_1"] == 99 * (32 * 32 + 9 * 32 * 32 + 2 * 32 * 128)
    assert report.by_layer["stage_2_unit_1"] == 99 * 128 * 64 + 30 * (
        9 * 64 * 64 + 64 * 256 + 128 * 256
    )
    assert report.by_layer["stage_2_unit_2"] == 30 * (2 * 64 * 256 + 9 * 64 * 64)
    assert report.by_layer["patch_embedding"] == 30 * 256 * 24


def test_a_bit_resnet_by_hand():
    model, _ = bit()
    report = keras_vit.count_macs(model)
    assert list(report.by_layer) == [
        "stem_conv",
        "stage_1_unit_1",
        "stage_2_unit_1",
        "stage_2_unit_2",
        "head",
    ]
    assert report.by_layer["stage_1_unit_1"] == 99 * (32 * 32 + 9 * 32 * 32 + 2 * 32 * 128)
    assert report.by_layer["head"] == 256 * 5


def test_folding_changes_no_count():
    model, _ = bit()
    folded = keras_vit.fold_weight_standardization(model)
    assert keras_vit.count_macs(folded).by_layer == keras_vit.count_macs(model).by_layer


def test_a_model_inside_another():
    backbone = VisionTransformer(**VIT, include_top=False)
    inputs = keras.Input((24, 40, 3))
    outputs = keras.layers.Dense(7, name="probe")(backbone(inputs))
    report = keras_vit.count_macs(keras.Model(inputs, outputs))
    assert report.by_layer["vision_transformer/block_0"] == BLOCK
    assert report.by_layer["probe"] == 24 * 7


def test_printed_it_is_a_table():
    lines = str(keras_vit.count_macs(VisionTransformer(**VIT))).splitlines()
    assert lines[0] == "patch_embedding   69,120"
    assert lines[-1].split() == ["total", f"{69_120 + 2 * BLOCK + 120:,}"]
    assert len({len(line) for line in lines}) == 1


@pytest.mark.parametrize("batch", [None, 7])
def test_counts_are_for_one_image(batch):
    inputs = keras.Input((24, 40, 3), batch_size=batch)
    model = VisionTransformer(**VIT, input_tensor=inputs)
    assert keras_vit.count_macs(model).by_layer["block_0"] == BLOCK
