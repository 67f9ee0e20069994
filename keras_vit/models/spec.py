"""What a Vision Transformer is made of: one frozen record, checked when it is made."""

import dataclasses

from keras_vit.layers import checks
from keras_vit.layers.activations import activation_function
from keras_vit.models import resnet_stem
from keras_vit.models.image_spec import ImageSpec, is_number
from keras_vit.models.preprocessing import Preprocessing

POOLINGS = ("token", "avg", "max", "map")
POSITION_EMBEDDINGS = ("learned", "none", "learned_2d", "relative", "sincos2d")
POSITION_INJECTIONS = ("stem", "every_layer", "shared")
RATES = ("dropout_rate", "attention_dropout_rate", "drop_path_rate", "patch_dropout_rate")
INTERPOLATIONS = ("bilinear", "bicubic_antialias", "bicubic")


@dataclasses.dataclass(frozen=True)
class Origin:
    """The constants in which the reference implementations differ."""

    activation: str
    layer_norm_epsilon: float
    interpolation: str


ORIGINS = {
    "google": Origin("gelu_tanh", 1e-6, "bilinear"),
    "timm": Origin("gelu", 1e-6, "bicubic_antialias"),
    "huggingface": Origin("gelu", 1e-12, "bicubic"),
}


@dataclasses.dataclass(frozen=True)
class ViTSpec(ImageSpec):
    """The sizes, constants and facts of a Vision Transformer, held by its model as `model.spec`.

    The fields are the arguments of `keras_vit.VisionTransformer`, resolved: nothing that depends on
    the origin or on the pooling is left None. `preprocessing` and `class_names` are facts about the
    weights. `folded` says that the kernels of the ResNet stem have been standardised for good, see
    `keras_vit.fold_weight_standardization`. Sizes are `(height, width)`.

    Raises:
        ValueError: if a field, or a combination of fields, describes no model.
    """

    family = "vit"

    image_size: tuple
    patch_size: tuple
    num_layers: int
    num_heads: int
    hidden_dim: int
    mlp_dim: int
    channels: int = 3
    classes: int = 1000
    include_top: bool = True
    classifier_activation: str | None = "softmax"
    pooling: str | None = "token"
    representation_size: int | None = None
    position_embedding: str = "learned"
    position_injection: str = "stem"
    class_token: bool | None = None
    class_token_position: bool = True
    num_registers: int = 0
    norm_after_pool: bool = False
    layer_scale: float | None = None
    qk_norm: bool = False
    origin: str = "google"
    activation: str | None = None
    layer_norm_epsilon: float | None = None
    interpolation: str | None = None
    resnet: tuple | None = None
    resnet_width: float = 1.0
    folded: bool = False
    dropout_rate: float = 0.0
    attention_dropout_rate: float = 0.0
    drop_path_rate: float = 0.0
    patch_dropout_rate: float = 0.0
    include_preprocessing: bool = False
    dtype: str | None = None
    preprocessing: Preprocessing = Preprocessing()
    class_names: tuple | None = None

    def __post_init__(self):
        self._check_sizes()
        self._check_names()
        self._resolve_origin()
        self._resolve_pooling()
        self._check_positions()
        self._check_facts()

    @property
    def grid(self):
        """`(rows, columns)` of patches."""
        if self.resnet is not None:
            return resnet_stem.hybrid_grid(self.image_size, self.patch_size, self.resnet)
        return checks.patch_grid(self.image_size, self.patch_size)

    @property
    def prefix_tokens(self):
        """How many tokens come before the patches: the class token, then the registers."""
        return int(self.class_token) + self.num_registers

    @property
    def position_prefix(self):
        """How many of the prefix tokens have a position of their own."""
        return self.prefix_tokens if self.class_token_position else 0

    @property
    def num_tokens(self):
        """How many tokens the encoder sees."""
        return self.prefix_tokens + self.grid[0] * self.grid[1]

    @property
    def stage_layers(self):
        """The layers of a hybrid that make the feature maps of its ResNet's stages, in order."""
        return resnet_stem.stage_layers(self.resnet or ())

    def _check_sizes(self):
        self._set("image_size", checks.pair(self.image_size, "image_size"))
        self._set("patch_size", checks.pair(self.patch_size, "patch_size"))
        for name in ("num_layers", "num_heads", "hidden_dim", "mlp_dim", "channels", "classes"):
            self._set(name, checks.positive_integer(getattr(self, name), name))
        checks.head_width(self.hidden_dim, self.num_heads)
        self._set("num_registers", checks.positive_integer(self.num_registers, "num_registers", 0))
        if self.representation_size is not None:
            checks.positive_integer(self.representation_size, "representation_size")
            if not self.include_top:
                raise ValueError(
                    "`representation_size` is a layer of the top, which `include_top=False` "
                    f"leaves out. Received: representation_size={self.representation_size}. "
                    "Leave it None, or keep the top and read the layer 'pre_logits'."
                )
        for name in RATES:
            self._set(name, checks.rate(getattr(self, name), name))
        if self.layer_scale is not None and not is_number(self.layer_scale):
            raise ValueError(
                "`layer_scale` must be None or the number that the factors start from. "
                f"Received: layer_scale={self.layer_scale!r}"
            )
        self._check_resnet()
        self.grid  # noqa: B018 - raises if the patches do not cover the image

    def _check_resnet(self):
        if self.resnet is not None:
            self._set("resnet", resnet_stem.check_stages(self.resnet, "resnet"))
            resnet_stem.stem_width(self.resnet_width, "resnet_width")
            self._set("resnet_width", float(self.resnet_width))
        elif self.folded:
            raise ValueError(
                "`folded=True` speaks of the kernels of a ResNet stem, and there is none. "
                "Received: resnet=None"
            )

    def _check_names(self):
        if self.pooling is not None:
            checks.one_of(self.pooling, "pooling", (*POOLINGS, None))
        checks.one_of(self.position_embedding, "position_embedding", POSITION_EMBEDDINGS)
        checks.one_of(self.position_injection, "position_injection", POSITION_INJECTIONS)
        checks.one_of(self.origin, "origin", tuple(ORIGINS))
        for name in (
            "include_top",
            "class_token_position",
            "norm_after_pool",
            "qk_norm",
            "folded",
            "include_preprocessing",
        ):
            checks.boolean(getattr(self, name), name)

    def _resolve_origin(self):
        for field in dataclasses.fields(Origin):
            if getattr(self, field.name) is None:
                self._set(field.name, getattr(ORIGINS[self.origin], field.name))
        activation_function(self.activation)
        checks.one_of(self.interpolation, "interpolation", INTERPOLATIONS)
        if not is_number(self.layer_norm_epsilon) or self.layer_norm_epsilon <= 0:
            raise ValueError(
                "`layer_norm_epsilon` must be a positive number. "
                f"Received: layer_norm_epsilon={self.layer_norm_epsilon!r}"
            )

    def _resolve_pooling(self):
        if self.pooling is None and self.include_top:
            self._set("pooling", "token")
        if self.class_token is None:
            self._set("class_token", self.pooling == "token")
        checks.boolean(self.class_token, "class_token")
        if self.pooling == "token" and not self.class_token:
            raise ValueError(
                "Pooling by the class token needs one. Received: "
                "pooling='token', class_token=False. Leave `class_token` None, or pool by 'avg', "
                "'max' or 'map'."
            )
        if self.norm_after_pool and self.pooling is None:
            raise ValueError(
                "`norm_after_pool=True` needs something to pool. Received: pooling=None. "
                f"Choose one of {', '.join(repr(name) for name in POOLINGS)}."
            )

    def _check_positions(self):
        if self.position_embedding in ("none", "relative") and self.position_injection != "stem":
            raise ValueError(
                f"`position_embedding={self.position_embedding!r}` adds nothing to the tokens, so "
                "there is nothing to inject: leave `position_injection='stem'`. "
                f"Received: position_injection={self.position_injection!r}"
            )
        if self.patch_dropout_rate and (
            self.position_embedding == "relative" or self.position_injection != "stem"
        ):
            raise ValueError(
                "`patch_dropout_rate` needs positions that are added once, at the stem: later "
                "blocks do not know which patches were left out. Received: "
                f"patch_dropout_rate={self.patch_dropout_rate}, "
                f"position_embedding={self.position_embedding!r}, "
                f"position_injection={self.position_injection!r}. Leave the rate 0, or choose "
                "another position embedding or `position_injection='stem'`."
            )
        multiple = {"learned_2d": 2, "sincos2d": 4}.get(self.position_embedding, 1)
        if self.hidden_dim % multiple:
            raise ValueError(
                f"`position_embedding={self.position_embedding!r}` needs a `hidden_dim` that is a "
                f"multiple of {multiple}. Received: hidden_dim={self.hidden_dim}"
            )
