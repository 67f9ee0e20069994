"""The catalogue: that it is in itself consistent, and fits the models that it is for."""

import collections
import re

import pytest

import keras_vit
from keras_vit.applications.sizes import BIT_SIZES, HYBRID_SIZES, VIT_SIZES
from keras_vit.weights import catalogue, download, hub

ENTRIES = catalogue.ENTRIES
MODELS = (*VIT_SIZES, *HYBRID_SIZES, *BIT_SIZES)
WITHOUT = {
    *("ViT_L14", "ViT_g14", "ViT_G14", "R50_ViT_B32", "R50_ViT_L16"),
    *("BiT_R50x2", "BiT_R152x1", "BiT_R200x3"),
}

HOSTS = re.compile(
    r"https://storage\.googleapis\.com/(vit_models|bit_models)/[\w./+-]+\.npz"
    r"|hf://(google|timm)/[\w.-]+(@[0-9a-f]{40})?"
)


def entry_id(entry):
    return f"{entry.model}-{entry.name}"


each_entry = pytest.mark.parametrize("entry", ENTRIES, ids=entry_id)


def test_names_and_addresses_are_unique():
    for facts in ([entry_id(entry) for entry in ENTRIES], [entry.url for entry in ENTRIES]):
        assert [fact for fact, number in collections.Counter(facts).items() if number > 1] == []
    files = [download.cache_path(e.url) for e in ENTRIES if not e.url.startswith(hub.SCHEME)]
    assert len({str(path).lower() for path in files}) == len(files)


def test_models_with_and_without_weights():
    assert {entry.model for entry in ENTRIES} == set(MODELS) - WITHOUT
    for model in MODELS:
        assert callable(getattr(keras_vit, model))
        assert catalogue.entries(model) == tuple(e for e in ENTRIES if e.model == model)
    assert catalogue.entries() == ENTRIES


@each_entry
def test_an_entry_is_complete(entry):
    assert HOSTS.fullmatch(entry.url)
    assert entry.source and entry.training_data and entry.licence == "Apache-2.0"
    classes = {"imagenet": 1000, "imagenet21k": 21843, None: None}
    assert entry.classes == classes[entry.label_set]
    assert (entry.top1 is None) == (entry.top1_source is None)
    assert entry.top1 is None or (60 < entry.top1 < 90 and entry.label_set == "imagenet")
    entry.preprocessing.check_channels(3)


@each_entry
def test_the_name_says_what_it_is(entry):
    method = entry.name.removeprefix("timm_").removeprefix("hf_")
    origin = {"timm": "timm", "hf": "huggingface"}.get(entry.name.split("_")[0], "google")
    assert entry.origin == origin
    assert entry.url.startswith("hf://") == (origin != "google")
    if "_ft_imagenet_" in method:
        assert entry.training_data == "ImageNet-21k, then ImageNet-1k"
        assert entry.label_set == "imagenet"
    elif "imagenet21k" in method:
        assert entry.training_data == "ImageNet-21k"
        assert entry.label_set in ("imagenet21k", None)
    else:
        assert entry.training_data == "ImageNet-1k"
        assert entry.label_set == "imagenet"
    (side,) = set(entry.resolution)
    said = re.search(r"_(\d{3})$", method)
    assert side == (int(said[1]) if said else 224)
    assert entry.zero_head == (entry.name == "orig_imagenet21k")


@each_entry
def test_the_address_agrees_with_the_entry(entry):
    (side,) = set(entry.resolution)
    said = re.search(r"res_(\d+)|[-_](\d{3})(?:\.|@|$|-in21k)", entry.url)
    if said:
        assert side == int(said[1] or said[2])
    if entry.origin != "google":
        return
    file = re.sub(r"ViT-|BiT-[SM]-|[^a-zA-Z0-9]", "", entry.url.rpartition("/")[2])
    assert file.startswith(re.sub(r"ViT_|BiT_|_", "", entry.model))


@each_entry
def test_the_resolution_fits_the_model(entry):
    side, _ = entry.resolution
    if entry.model in BIT_SIZES:
        return
    size = {**VIT_SIZES, **HYBRID_SIZES}[entry.model]
    if size.resnet is not None:
        side = -(-side // 2 ** (1 + max(len(size.resnet), 1)))
    assert side % size.patch_size == 0


# Parameters of the hybrids' ResNets, without what reads their feature map.
STEMS = {
    (): 9_536,
    (3, 4, 9): 11_894_848,
    (2, 2, 2, 2): 13_946_176,
    (3, 4, 6, 3): 23_508_032,
}
STEM_CHANNELS = {(): 64, (3, 4, 9): 1024, (2, 2, 2, 2): 2048, (3, 4, 6, 3): 2048}


def num_parameters(entry):
    size = {**VIT_SIZES, **HYBRID_SIZES}[entry.model]
    width, side, channels, parameters = size.hidden_dim, entry.resolution[0], 3, 0
    if size.resnet is not None:
        side //= 2 ** (1 + max(len(size.resnet), 1))
        channels, parameters = STEM_CHANNELS[size.resnet], STEMS[size.resnet]
    tokens = 1 + (side // size.patch_size) ** 2
    parameters += (size.patch_size**2 * channels + 1) * width + (tokens + 1) * width
    attention, mlp = 4 * (width + 1) * width, 2 * width * size.mlp_dim + size.mlp_dim + width
    parameters += size.num_layers * (attention + mlp + 4 * width) + 2 * width
    parameters += (width + 1) * width if entry.pre_logits else 0
    return parameters + (0 if entry.classes is None else (width + 1) * entry.classes)


STATED = [entry for entry in ENTRIES if entry.size is not None]


@pytest.mark.parametrize("entry", STATED, ids=entry_id)
def test_stated_sizes_are_those_of_the_parameters(entry):
    # The file of S/16 has the optimizer's two numbers for each parameter, too.
    copies = 3 if (entry.model, entry.name) == ("ViT_S16", "sam_imagenet") else 1
    weights = 4 * copies * num_parameters(entry)
    assert weights < entry.size + entry.size_within
    assert entry.size - entry.size_within < 1.005 * weights + 2**20


def test_the_parameters_are_counted_right():
    counts = {
        ("ViT_Ti16", "imagenet"): 5_717_416,
        ("ViT_B16", "imagenet-384"): 86_859_496,
        ("R_ViT_Ti16", "imagenet"): 6_337_704,
        ("R26_ViT_S32", "imagenet"): 36_431_912,
        ("R50_ViT_B16", "imagenet"): 98_950_952,
        ("R50_ViT_L32", "imagenet"): 328_994_856,
        ("ViT_B16", "orig_imagenet21k"): 103_186_515,
    }
    for names, number in counts.items():
        assert num_parameters(catalogue.find(*names)) == number


# Aliases.


def test_aliases_mean_what_they_say():
    labels = {"imagenet": "imagenet", "imagenet-384": "imagenet", "imagenet21k": "imagenet21k"}
    assert labels.keys() == catalogue.ALIASES.keys()
    for model in set(MODELS) - WITHOUT:
        for alias, name in catalogue.aliases(model).items():
            entry = catalogue.find(model, alias)
            assert entry == catalogue.find(model, name)
            assert entry.label_set == labels[alias] and entry.origin == "google"
            if alias == "imagenet-384":
                assert entry.resolution == (384, 384)
    for chain in catalogue.ALIASES.values():
        assert set(chain) <= {entry.name for entry in ENTRIES}


def test_imagenet_prefers_224():
    for model in MODELS:
        ours = [e for e in catalogue.entries(model) if e.origin == "google"]
        at_224 = [e for e in ours if e.resolution == (224, 224) and e.label_set == "imagenet"]
        at_224 = [e for e in at_224 if e.name not in ("sam_imagenet", "bit_s_imagenet")]
        if at_224:
            assert catalogue.find(model, "imagenet").resolution == (224, 224)


def test_only_these_models_lack_an_alias():
    lacking = collections.defaultdict(set)
    for model in set(MODELS) - WITHOUT:
        for alias in catalogue.ALIASES.keys() - catalogue.aliases(model):
            lacking[alias].add(model)
    assert lacking == {
        "imagenet": {"ViT_H14", "R26_ViT_B32"},
        "imagenet-384": {
            *("ViT_H14", "R26_ViT_B32", "ViT_B8"),
            *("BiT_R50x1", "BiT_R50x3", "BiT_R101x1", "BiT_R101x3", "BiT_R152x4"),
        },
    }


def test_unknown_names_are_answered_with_the_known():
    with pytest.raises(ValueError, match="weights='imagenet'") as error:
        catalogue.find("ViT_H14", "imagenet")
    for name in ("'imagenet21k'", "'orig_imagenet21k'", "'hf_orig_imagenet21k'", "None"):
        assert name in str(error.value)
    with pytest.raises(ValueError, match="'ViT_g14' must be None for fresh weights"):
        catalogue.find("ViT_g14", "imagenet")
