"""What a BiT ResNet is made of."""

import dataclasses

from keras_vit.layers import checks
from keras_vit.models import resnet_stem
from keras_vit.models.image_spec import ImageSpec
from keras_vit.models.preprocessing import Preprocessing

POOLINGS = ("avg", "max")


@dataclasses.dataclass(frozen=True)
class BiTSpec(ImageSpec):
    """The sizes and facts of a BiT ResNet, held by its model as `model.spec`.

    The fields are the arguments of `keras_vit.BiTResNet`, resolved. `preprocessing` and
    `class_names` are facts about the weights. `folded` says that the kernels have been standardised
    for good, see `keras_vit.fold_weight_standardization`. Sizes are `(height, width)`.

    Raises:
        ValueError: if a field, or a combination of fields, describes no model.
    """

    family = "bit"

    image_size: tuple
    num_layers: tuple = (3, 4, 6, 3)
    width: float = 1.0
    channels: int = 3
    classes: int = 1000
    include_top: bool = True
    classifier_activation: str | None = "softmax"
    pooling: str | None = "avg"
    folded: bool = False
    include_preprocessing: bool = False
    dtype: str | None = None
    preprocessing: Preprocessing = Preprocessing()
    class_names: tuple | None = None

    def __post_init__(self):
        self._set("image_size", checks.pair(self.image_size, "image_size"))
        self._set("num_layers", resnet_stem.check_stages(self.num_layers, "num_layers"))
        if not self.num_layers:
            raise ValueError("`num_layers` must name at least one stage. Received: num_layers=()")
        resnet_stem.stem_width(self.width, "width")
        self._set("width", float(self.width))
        for name in ("channels", "classes"):
            self._set(name, checks.positive_integer(getattr(self, name), name))
        for name in ("include_top", "folded", "include_preprocessing"):
            checks.boolean(getattr(self, name), name)
        if self.pooling is None and self.include_top:
            self._set("pooling", "avg")
        checks.one_of(self.pooling, "pooling", (*POOLINGS, None))
        self._check_facts()

    @property
    def grid(self):
        """`(rows, columns)` of the last feature map."""
        return resnet_stem.hybrid_grid(self.image_size, (1, 1), self.num_layers)

    @property
    def stage_layers(self):
        """The layers that make the feature maps of the stages, in order."""
        return resnet_stem.stage_layers(self.num_layers)
