"""timm and transformers load what is written for them and compute the same; where installed."""

import inspect
import json
import types
import warnings

import numpy as np
import pytest
from foreign_weights import TOLERANCE, assert_same, model
from golden_weights import load_golden
from reference_resnet import hybrid
from reference_vit import forward, make_spec, random_images

from keras_vit.models.preprocessing import Preprocessing
from keras_vit.weights import (
    files,
    huggingface,
    huggingface_config,
    image_facts,
    timm,
    timm_config,
)

torch = pytest.importorskip("torch")
# The libraries themselves warn of things that are not ours to mend.
pytestmark = pytest.mark.filterwarnings("ignore")


def peer(name):
    """The library, or a skip where it is missing or does not fit the rest of the machine."""
    from peers.torchvision_alone import declare_operators  # of the benchmarks

    declare_operators()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip(name, exc_type=Exception)


def write_folder(folder, module, weights, spec):
    files.write_safetensors(folder / "model.safetensors", module.write(weights, spec))
    config = module.config(weights, spec)
    (folder / "config.json").write_text(json.dumps(config))
    return config


def channels_first(images):
    return torch.from_numpy(np.ascontiguousarray(images.transpose(0, 3, 1, 2)))


def assert_close(actual, expected):
    actual = actual.detach().numpy()
    assert actual.shape == expected.shape
    assert np.abs(actual - expected).max() < TOLERANCE * np.abs(expected).max()


TIMM_MODELS = [
    {},
    {"origin": "google"},
    {"image_size": (12, 40)},
    {"activation": "relu", "num_heads": 3},
    {"pooling": "avg", "class_token": False},
    {"pooling": "max", "class_token": False, "norm_after_pool": True},
    {"pooling": "avg", "class_token": True, "norm_after_pool": True},
    {"pooling": "map", "class_token": False},
    {"num_registers": 3},
    {"num_registers": 3, "class_token_position": False, "layer_scale": 0.1, "qk_norm": True},
    {"position_embedding": "none"},
]


@pytest.mark.parametrize("fields", TIMM_MODELS, ids=str)
def test_timm_builds_and_loads_what_is_written(tmp_path, fields):
    library = peer("timm")
    spec, weights = model(seed=1, **{"origin": "timm", **fields})
    write_folder(tmp_path, timm, weights, spec)
    theirs = library.create_model(f"local-dir:{tmp_path}", pretrained=True).eval()
    images = random_images(spec, seed=2)
    with torch.no_grad():
        actual = theirs(channels_first(images))
    assert_close(actual, forward(spec, weights, images)["logits"])


@pytest.mark.parametrize("fields", TIMM_MODELS[:1] + TIMM_MODELS[5:10], ids=str)
def test_what_timm_saves_is_read(tmp_path, fields):
    library = peer("timm")
    hub = peer("timm.models._hub")
    spec, weights = model(seed=3, **{"origin": "timm", **fields})
    (tmp_path / "ours").mkdir()
    write_folder(tmp_path / "ours", timm, weights, spec)
    theirs = library.create_model(f"local-dir:{tmp_path / 'ours'}", pretrained=True)
    hub.save_for_hf(theirs, tmp_path / "theirs", safe_serialization=True)
    checkpoint = files.read(files.open_checkpoint(tmp_path / "theirs"), spec["num_heads"])
    assert_same(checkpoint.weights, weights)
    assert checkpoint.facts["pooling"] == spec["pooling"]
    assert checkpoint.position_grid == (4, 4)


def test_activations_that_timms_architectures_imply():
    """Of each whose name says SigLIP or CLIP, built without memory, one block deep."""
    library, checked = peer("timm"), set()
    names = {torch.nn.GELU: None}
    activations = peer("timm.layers.activations")
    names |= {activations.QuickGELU: "quick_gelu", activations.GELUTanh: "gelu_tanh"}
    for name in library.list_models(["vit_*siglip*", "vit_*clip*"], module="vision_transformer"):
        with torch.device("meta"):
            theirs = library.create_model(name, depth=1)
        expected = names[type(theirs.blocks[0].mlp.act)]
        said = timm_config.configured({"architecture": name}, classes=None)
        assert said.get("activation") == expected, name
        checked.add(expected)
    assert checked == set(names.values())


def test_every_argument_of_timms_model_is_known():
    library = peer("timm.models.vision_transformer")
    known = {*timm_config.CONVERTED, *timm_config.FIXED}
    known |= timm_config.IN_THE_WEIGHTS | timm_config.IGNORED
    parameters = inspect.signature(library.VisionTransformer.__init__).parameters
    assert set(parameters) - {"self"} <= known


SIDES, CROP = {"height": 32, "width": 40}, {"height": 24, "width": 24}


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("ViT", {"size": SIDES}),
        ("ViT", {"size": SIDES, "resample": 3, "image_mean": [0.4, 0.5, 0.6]}),
        ("ViT", {"size": SIDES, "rescale_factor": 1 / 127.5, "image_std": [0.2, 0.3, 0.4]}),
        ("ViT", {"size": SIDES, "do_normalize": False}),
        ("DeiT", {"size": {"height": 32, "width": 32}, "crop_size": CROP}),
        ("Bit", {"size": {"shortest_edge": 32}, "crop_size": CROP}),
        ("CLIP", {"size": {"shortest_edge": 27}, "crop_size": CROP}),
        ("Siglip", {"size": SIDES}),
    ],
    ids=str,
)
def test_images_are_prepared_as_by_transformers(tmp_path, kind, fields):
    image_module = pytest.importorskip("PIL.Image")
    crops = pytest.importorskip("pipelines.images.crops")
    small = np.random.default_rng(0).integers(0, 256, (7, 11, 3), "uint8")
    image = image_module.fromarray(small).resize((80, 50), image_module.Resampling.BICUBIC)
    processor = getattr(peer("transformers"), f"{kind}ImageProcessor")(**fields)
    processor.save_pretrained(tmp_path)
    saved = json.loads((tmp_path / "preprocessor_config.json").read_text())
    theirs = np.asarray(processor(image, return_tensors="np")["pixel_values"])[0]
    theirs = theirs.transpose(1, 2, 0)
    facts = Preprocessing(**image_facts.of_transformers(saved))
    spec = types.SimpleNamespace(preprocessing=facts, image_size=theirs.shape[:2])
    view = np.asarray(crops.evaluation_view(np.asarray(image), spec))
    ours = (view / 255 - np.array(facts.mean)) / np.array(facts.std)
    # Resizing rounds to whole grey levels, not always alike.
    assert np.abs((ours - theirs) * np.array(facts.std) * 255).max() < 1.1


@pytest.mark.parametrize("resnet", sorted(timm.HYBRIDS), ids=str)
def test_timms_hybrids_have_our_names(tmp_path, resnet):
    library = peer("timm")
    theirs = library.create_model(
        timm.HYBRIDS[resnet], img_size=64, embed_dim=24, depth=1, num_heads=4, num_classes=5
    )
    arrays = {key: tensor.numpy() for key, tensor in theirs.state_dict().items()}
    checkpoint = timm.read(arrays, num_heads=4)
    assert checkpoint.facts["resnet"] == resnet
    assert checkpoint.unused == {}
    facts = {**checkpoint.facts, "image_size": (64, 64)}
    write_folder(tmp_path, timm, checkpoint.weights, facts)
    again = library.create_model(f"local-dir:{tmp_path}", pretrained=True)
    assert_same({key: t.numpy() for key, t in again.state_dict().items()}, arrays)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"origin": "google"},
        {"origin": "timm", "activation": "relu"},
        {"image_size": (12, 40), "num_heads": 3},
        {"class_names": ("ä", "b", "c", "d", "e")},
    ],
    ids=str,
)
def test_transformers_loads_what_is_written(tmp_path, fields):
    library = peer("transformers")
    spec, weights = model(seed=1, **{"origin": "huggingface", **fields})
    write_folder(tmp_path, huggingface, weights, spec)
    theirs, report = library.ViTForImageClassification.from_pretrained(
        tmp_path, output_loading_info=True
    )
    assert not any(report.values()), report
    images = random_images(spec, seed=2)
    with torch.no_grad():
        actual = theirs.eval()(channels_first(images)).logits
    assert_close(actual, forward(spec, weights, images)["logits"])
    if spec["class_names"]:
        assert theirs.config.id2label == dict(enumerate(spec["class_names"]))

    theirs.save_pretrained(tmp_path / "again")
    checkpoint = files.read(files.open_checkpoint(tmp_path / "again"))
    assert_same(checkpoint.weights, weights)
    assert checkpoint.position_grid == (4, 8 if fields.get("image_size") else 4)


@pytest.mark.parametrize("registers", [0, 4])
def test_transformers_loads_dinov2(tmp_path, registers):
    library = peer("transformers")
    # transformers builds DINOv2 for square images and patches alone.
    spec, weights = model(
        seed=1,
        origin="timm",
        layer_scale=1.0,
        include_top=False,
        pooling="token",
        num_registers=registers,
        image_size=(12, 12),
        patch_size=(3, 3),
        mlp_dim=72,
    )
    write_folder(tmp_path, huggingface, weights, spec)
    theirs, report = library.AutoModel.from_pretrained(tmp_path, output_loading_info=True)
    assert not any(report.values()), report
    images = random_images(spec, seed=2)
    with torch.no_grad():
        actual = theirs.eval()(channels_first(images)).last_hidden_state
    assert_close(actual, forward(spec, weights, images)["encoded"])

    theirs.save_pretrained(tmp_path / "again")
    checkpoint = files.read(files.open_checkpoint(tmp_path / "again"))
    assert checkpoint.facts["num_registers"] == registers
    encoded = forward(spec, dict(checkpoint.weights), images)["encoded"]
    assert_close(torch.from_numpy(encoded), forward(spec, weights, images)["encoded"])


def test_transformers_loads_the_pooler(tmp_path):
    library = peer("transformers")
    spec, weights = model(seed=1, origin="huggingface", representation_size=7)
    images = random_images(spec, seed=2)
    expected = forward(spec, weights, images)["pre_logits"]
    weights = {path: w for path, w in weights.items() if not path.startswith("head/")}
    write_folder(tmp_path, huggingface, weights, spec)
    theirs, report = library.AutoModel.from_pretrained(tmp_path, output_loading_info=True)
    assert not any(report.values()), report
    with torch.no_grad():
        assert_close(theirs.eval()(channels_first(images)).pooler_output, expected)


def test_every_key_that_transformers_writes_is_known():
    library = peer("transformers")
    for name in ("ViTConfig", "Dinov2Config", "Dinov2WithRegistersConfig"):
        config = getattr(library, name)().to_dict()
        assert set(config) <= huggingface_config.KNOWN_KEYS


def test_a_google_checkpoint_gives_googles_logits_in_both(tmp_path):
    spec, weights, expected = load_golden("vit_token")
    images = channels_first(expected["images"])
    (tmp_path / "timm").mkdir()
    (tmp_path / "hf").mkdir()
    write_folder(tmp_path / "timm", timm, weights, spec)
    write_folder(tmp_path / "hf", huggingface, weights, spec)
    theirs = peer("timm").create_model(f"local-dir:{tmp_path / 'timm'}", pretrained=True)
    with torch.no_grad():
        assert_close(theirs.eval()(images), expected["logits"])
    theirs = peer("transformers").ViTForImageClassification.from_pretrained(tmp_path / "hf")
    with torch.no_grad():
        assert_close(theirs.eval()(images).logits, expected["logits"])


def test_a_hybrid_of_transformers_is_read(tmp_path):
    """Versions from 5 on have none any more, but their files are at the Hub."""
    library = peer("transformers")
    if not hasattr(library, "ViTHybridConfig"):
        pytest.skip("this version of transformers has no ViTHybrid")
    backbone = {
        "global_padding": "same",
        "layer_type": "bottleneck",
        "embedding_dynamic_padding": True,
        "depths": [2, 1],
        "out_features": ["stage2"],
    }
    config = library.ViTHybridConfig(
        hidden_size=48,
        num_hidden_layers=2,
        num_attention_heads=3,
        intermediate_size=96,
        image_size=64,
        num_labels=7,
        backbone_config=backbone,
        backbone_featmap_shape=[1, 512, 8, 8],
    )
    torch.manual_seed(0)
    theirs = library.ViTHybridForImageClassification(config).eval()
    for parameter in theirs.parameters():
        parameter.data = 0.1 * torch.randn_like(parameter) + 0.5 * (parameter.ndim == 1)
    theirs.save_pretrained(tmp_path)
    checkpoint = files.read(files.open_checkpoint(tmp_path))
    spec = make_spec(**{k: v for k, v in checkpoint.facts.items() if k in make_spec()})
    images = random_images(spec, seed=1)
    with torch.no_grad():
        actual = theirs(channels_first(images)).logits
    assert_close(actual, hybrid(spec, dict(checkpoint.weights), images)["logits"])
