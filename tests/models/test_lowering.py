"""The compiled training step as a TPU or an NVIDIA GPU gets it, lowered here without one.

`jax.export` writes the StableHLO module that the accelerator's compiler takes, so that what it
could not compile, or would compile slowly, shows on a CPU.
"""

import re

import keras
import pytest
from small_resnets import BIT, HYBRID

import keras_vit
from keras_vit.layers import initial_values

pytestmark = pytest.mark.skipif(
    keras.backend.backend() != "jax", reason="only JAX lowers for devices that are not there"
)

VIT = {
    "image_size": (16, 24),
    "patch_size": 8,
    "num_layers": 2,
    "num_heads": 2,
    "hidden_dim": 32,
    "mlp_dim": 48,
    "classes": 5,
    "classifier_activation": None,
}
RATES = {
    "dropout_rate": 0.1,
    "attention_dropout_rate": 0.1,
    "drop_path_rate": 0.1,
    "patch_dropout_rate": 0.5,
}
FAMILIES = {
    "vit": lambda policy: keras_vit.VisionTransformer(**VIT, **RATES, dtype=policy),
    "relative": lambda policy: keras_vit.VisionTransformer(
        **VIT, position_embedding="relative", qk_norm=True, num_registers=2, dtype=policy
    ),
    "map": lambda policy: keras_vit.VisionTransformer(
        **VIT, pooling="map", position_embedding="learned_2d", layer_scale=0.1, dtype=policy
    ),
    "hybrid": lambda policy: keras_vit.VisionTransformer(
        **HYBRID, classifier_activation=None, dtype=policy
    ),
    "rematerialized": lambda policy: keras_vit.rematerialize(
        keras_vit.VisionTransformer(**VIT, **RATES, dtype=policy)
    ),
    "masked": lambda policy: keras_vit.MaskedPatchPrediction(
        keras_vit.VisionTransformer(**VIT, dtype=policy), seed=0
    ),
    "bit": lambda policy: keras_vit.BiTResNet(**BIT, classifier_activation=None, dtype=policy),
}
POLICIES = ("float32", "mixed_bfloat16", "mixed_float16")
BATCH = 4


@pytest.fixture
def accelerator(monkeypatch):
    """The layers choose the form that they have on an accelerator."""
    monkeypatch.setattr(keras.distribution, "list_devices", lambda *_: ["tpu:0"])


def lowered(model, platforms):
    """The training step of a compiled model, exported for each platform by itself."""
    import jax

    shape = getattr(model, "encoder", model).input_shape
    images = jax.ShapeDtypeStruct((BATCH, *shape[1:]), "float32")
    labels = jax.ShapeDtypeStruct((BATCH,), "int32")
    model.optimizer.build(model.trainable_variables)
    state = (
        [structure(v) for v in model.trainable_variables],
        [structure(v) for v in model.non_trainable_variables],
        [structure(v) for v in model.optimizer.variables],
        [structure(v) for v in model.metrics_variables],
    )
    step = jax.jit(model.train_step, donate_argnums=0)  # traced once for all platforms
    return [
        jax.export.export(step, platforms=[platform])(state, (images, labels))
        for platform in platforms
    ]


def structure(variable):
    import jax

    return jax.ShapeDtypeStruct(tuple(variable.shape), variable.dtype)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("family", FAMILIES)
def test_the_training_step_lowers(family, policy, accelerator):
    with initial_values.skipped():
        model = FAMILIES[family](policy)
    optimizer = keras_vit.optimizers.AdamW(1e-3, global_clipnorm=1.0)
    if family == "masked":
        model.compile(optimizer)  # it has its own loss
    else:
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(optimizer, loss)
    tpu, cuda = lowered(model, ("tpu", "cuda"))
    assert not calls(tpu)
    for exported in (tpu, cuda):
        assert not exported.ordered_effects and not exported.unordered_effects
        assert not any("callback" in call for call in calls(exported))
        assert all(isinstance(size, int) for aval in exported.in_avals for size in aval.shape)
        assert "tensor<?" not in exported.mlir_module()
        assert "x?" not in exported.mlir_module()
        check_products(exported.mlir_module(), policy)


def calls(exported):
    """What is called that is no operation of StableHLO."""
    return set(re.findall(r"custom_call @([\w.$]+)", exported.mlir_module()))


def check_products(text, policy):
    """The classifier multiplies in float32 by design, once forward and twice backward."""
    full = [pair for pair in products(text) if pair == ("f32", "f32")]
    others = [pair for pair in products(text) if pair != ("f32", "f32")]
    if policy == "float32":
        assert len(full) > 10 and not others
    else:
        sixteen = {"mixed_bfloat16": "bf16", "mixed_float16": "f16"}[policy]
        assert len(full) == 3 and len(others) > 10
        assert all(sixteen in pair for pair in others)


def products(text):
    """The types of both factors of every matrix product and convolution of a module."""
    operation = (
        r"stablehlo\.(?:dot_general|convolution).*: \(tensor<[\dx]*(\w+)>, tensor<[\dx]*(\w+)>"
    )
    return re.findall(operation, text)


def test_products_are_found():
    """The search sees what it should: of each product, the types of both factors."""
    import jax

    def product(x, y):
        return (x.T @ x).astype("bfloat16") @ y

    x = jax.ShapeDtypeStruct((2, 3), "float32")
    y = jax.ShapeDtypeStruct((3, 3), "bfloat16")
    text = jax.export.export(jax.jit(product), platforms=["tpu"])(x, y).mlir_module()
    assert products(text) == [("f32", "f32"), ("bf16", "bf16")]
