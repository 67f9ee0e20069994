"""All pictures of the inside of a model, with their numbers, on one page."""

import dataclasses
import pathlib

import numpy as np

import keras_vit
from keras_vit import analysis
from keras_vit.analysis.attention_distance import draw_attention_distance, patch_distances
from keras_vit.analysis.attention_rollout import draw_rollout
from keras_vit.analysis.figures import displayable
from keras_vit.analysis.patch_filters import draw_filters, filter_components
from keras_vit.analysis.position_similarity import draw_position_similarity
from keras_vit.layers import checks
from keras_vit.models.bit_spec import BiTSpec
from keras_vit.models.image_model import require_spec
from keras_vit.models.resnet_stem import patch_stride
from keras_vit.models.spec import ViTSpec
from keras_vit.weights.atomic import atomic_write

DRAWN = 16  # images whose rollout is drawn
CUT = 95  # percentile at which the second picture of the rollout is cut


@dataclasses.dataclass(frozen=True)
class Section:
    """One part of the page: a picture with its caption and numbers, or why there is none.

    Attributes:
        title: What is looked at.
        caption: What is seen, and which figure of the paper shows it; or why nothing is.
        file: Name of the picture, without ending.
        figure: The matplotlib figure, or None.
        table: Rows of cells, the first the header; may be empty.
    """

    title: str
    caption: str
    file: str = ""
    figure: object = None
    table: tuple = ()


@dataclasses.dataclass(frozen=True)
class Photos:
    """The images that a model is looked at with.

    Attributes:
        names: Their names, in order.
        batches: Function that gives them anew as an iterable of arrays `(H, W, C)`, as the model
            takes them.
    """

    names: tuple
    batches: object

    def first(self, count):
        """The first ones as one array `(b, H, W, C)`."""
        return np.stack([image for image, _ in zip(self.batches(), range(count), strict=False)])


def inspect(model, out, images=(), *, limit=128, batch_size=8):
    """Draws what the paper looks at inside a model, and writes one page that shows it all.

    Args:
        model: A model made by keras_vit.
        out: Path of the folder to write to; it is made. The page is `index.html` in it and needs no
            server.
        images: Paths of images and of folders, or patterns. Without them, what needs images is
            left out, and the page says so.
        limit: Integer, how many images at most are looked at; the paper took 128.
        batch_size: Integer, images computed at a time.

    Returns:
        Path of the page.

    Raises:
        ValueError: if the model has no spec, or an image cannot be read.
        FileNotFoundError: if there are no such images.

    Example:

    >>> inspect(model, "inside", images=["photos/"])
    PosixPath('inside/index.html')
    """
    from pipelines.inspection.page import page

    require_spec(model, "inspect", families=(ViTSpec, BiTSpec))
    photos = read_photos(model, images, checks.positive_integer(limit, "limit"))
    out = pathlib.Path(out)
    out.mkdir(parents=True, exist_ok=True)
    sections = []
    for section in sections_of(model, photos, batch_size):
        if section.figure is not None:
            with atomic_write(out / f"{section.file}.png") as file:
                section.figure.savefig(file, format="png", dpi=150, bbox_inches="tight")
        sections.append(dataclasses.replace(section, figure=None))
    with atomic_write(out / "index.html") as file:
        file.write(page(model, sections, photos.names if photos else ()).encode())
    return out / "index.html"


def read_photos(model, images, limit):
    """The `Photos` of some paths, or None where none are given."""
    from pipelines.evaluation.predict import image_files, read_view

    if not images:
        return None
    paths = image_files(images)[:limit]

    def batches():
        return (keras_vit.preprocess_input(read_view(path, model.spec), model) for path in paths)

    return Photos(tuple(path.name for path in paths), batches)


def sections_of(model, photos, batch_size=8):
    """Yields the `Section`s of a model; `photos` is a `Photos` or None."""
    yield _filters(model)
    if model.spec.family != "vit":
        yield Section(
            "What does not apply",
            "A ResNet has neither position embeddings nor attention: there is no similarity of "
            "positions, no attention distance, no rollout and no token to look at.",
        )
        return
    yield _positions(model)
    if photos is None:
        yield Section(
            "What needs images",
            "Attention distance, rollout, the heads of the last block and the representations are "
            "of images, and none were given: keras-vit inspect MODEL --images photos/ --out DIR.",
        )
        return
    yield _distance(model, photos, batch_size)
    yield from _rollout(model, photos, batch_size)
    yield _heads(model, photos)
    yield _representations(model, photos, batch_size)


def _filters(model):
    spec = model.spec
    filters, shares = filter_components(model)
    stem = spec.family != "vit" or spec.resnet is not None
    what = "standardised filters of the ResNet's first convolution" if stem else "embedding filters"
    return Section(
        "Filters",
        f"The first {len(filters)} principal components of the {what}, each stretched to the "
        "range of the screen. Paper: figure 7, left. After training they look like a basis for the "
        "fine structure of a patch; random ones look like noise.",
        "patch_filters",
        draw_filters(filters),
        (
            ("components", "share of the filters' variance"),
            *((f"first {n}", f"{shares[:n].sum():.1%}") for n in _counts(len(shares))),
        ),
    )


def _counts(largest):
    return sorted({1, min(5, largest), largest})


def _positions(model):
    spec = model.spec
    title = "Positions"
    if spec.position_embedding == "none":
        return Section(title, "The model has no position embeddings.")
    similarity = analysis.position_similarity(model)
    own = spec.position_embedding == "relative" or spec.position_injection == "every_layer"
    return Section(
        title,
        "A tile for each patch: the cosine similarity of its position embedding with those of all "
        f"patches{', in block 0' if own else ''}. Paper: figure 7, centre, and figure 10. Trained "
        "positions are most like their neighbours, and like those of the same row and column.",
        "position_similarity",
        draw_position_similarity(similarity),
        (("patches compared", "mean similarity"), *_neighbours(similarity)),
    )


def _neighbours(similarity):
    """Mean similarities of kinds of pairs of patches."""
    rows, columns = np.indices(similarity.shape[:2])
    down = np.abs(rows[..., None, None] - rows)
    across = np.abs(columns[..., None, None] - columns)
    kinds = {
        "neighbours in a row": (down == 0) & (across == 1),
        "neighbours in a column": (down == 1) & (across == 0),
        "same row or column, further": ((down == 0) | (across == 0)) & (down + across > 1),
        "all others": (down > 0) & (across > 0),
    }
    return [
        (kind, f"{similarity[which].mean():.3f}") for kind, which in kinds.items() if which.any()
    ]


def _distance(model, photos, batch_size):
    distances = analysis.attention_distance(model, photos.batches(), batch_size=batch_size)
    everywhere = patch_distances(model.spec).mean()
    rows = [
        (f"{i}", *(f"{value:.1f}" for value in (each.min(), each.mean(), each.max())))
        for i, each in enumerate(distances)
    ]
    return Section(
        "Attention distance",
        f"How far, in pixels, each head of each block looks, over {_images(len(photos.names))}. "
        "Paper: figure 7, right, and figure 11. Prefix tokens are left out and rows made to sum "
        f"to 1 again. Attention that is the same everywhere would be at {everywhere:.1f} pixels, "
        "attention of each patch to itself at 0.",
        "attention_distance",
        draw_attention_distance(distances),
        (("block", "nearest head", "mean", "farthest head"), *rows),
    )


def _rollout(model, photos, batch_size):
    images = photos.first(DRAWN)
    maps = analysis.attention_rollout(model, images, batch_size=batch_size)
    pictures = displayable(images, model.spec)
    columns = -(-len(images) // -(-len(images) // 3))  # rows of equal length, of three at most
    rows = [
        (name, f"{values.sum():.1%}", f"{values.max() / values.mean():.1f}")
        for name, values in zip(photos.names, maps, strict=False)
    ]
    yield Section(
        "Rollout",
        f"From which patches the output takes its content, through all blocks{_shown(photos)}. "
        "Paper: figures 6 and 14, rendered as there: each map enlarged, blurred by a patch, "
        "stretched from 0 to 1 and used as opacity over black. It shows roughly where, not why.",
        "attention_rollout",
        draw_rollout(pictures, maps, model.spec, columns),
        (("image", "of it from patches", "largest patch over mean"), *rows),
    )
    yield Section(
        f"Rollout, cut at the {CUT}th percentile",
        "The same maps without their peaks. Large models without register tokens gather attention "
        "in a few patches of little content (arXiv 2309.16588), which leave all others dark above. "
        "The numbers in the last column above tell: tens or more are such peaks.",
        "attention_rollout_cut",
        draw_rollout(pictures, maps, model.spec, columns, percentile=CUT),
    )


def _heads(model, photos):
    last = model.spec.num_layers - 1
    whose = "the class token" if model.spec.class_token else "all patches, on average"
    return Section(
        "Heads of the last block",
        f"How {whose} of block {last} attends to the patches of {photos.names[0]}, by head; each "
        "map has its own scale. The paper shows no such figure.",
        "attention_heads",
        analysis.plot_attention(model, photos.first(1)[0]),
    )


def _representations(model, photos, batch_size):
    return Section(
        "Representations",
        "The patches after five blocks, alike ones in like colours: the first three principal "
        "components over the images shown, as red, green and blue. Colours of two blocks do not "
        "compare. The paper shows no such figure.",
        "representations",
        analysis.plot_representations(model, photos.first(4), batch_size=batch_size),
    )


def _shown(photos):
    count = len(photos.names)
    return f", for the first {DRAWN} of {count} images" if count > DRAWN else ""


def _images(count):
    return "one image" if count == 1 else f"{count} images"


def facts(model):
    """`(name, value)` of what the page says of the model, as text."""
    spec = model.spec
    height, width = spec.image_size
    result = [("parameters", f"{model.count_params():,}"), ("image", f"{height} x {width} pixels")]
    if spec.family != "vit":
        return [*result, ("family", "BiT ResNet"), ("units", f"{spec.num_layers}")]
    (rows, columns), (down, across) = spec.grid, patch_stride(spec.patch_size, spec.resnet)
    kind = "hybrid" if spec.resnet is not None else "Vision Transformer"
    return [
        ("family", kind),
        *result,
        ("patches", f"{rows} x {columns}, {down} x {across} pixels apart"),
        ("tokens before them", f"{spec.prefix_tokens}"),
        ("blocks, heads, width", f"{spec.num_layers}, {spec.num_heads}, {spec.hidden_dim}"),
        ("positions", spec.position_embedding),
        ("pooling", f"{spec.pooling}"),
    ]
