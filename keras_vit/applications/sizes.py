"""The sizes of the named models, as data."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class ViTSize:
    """Sizes of a named Vision Transformer or hybrid.

    `dropout_rate` is that of the paper's code (vit_jax, configs/models.py). `resnet` has the units
    of each stage of a hybrid's ResNet, on whose feature map `patch_size` is.
    """

    patch_size: int
    num_layers: int
    hidden_dim: int
    mlp_dim: int
    num_heads: int
    dropout_rate: float = 0.0
    resnet: tuple | None = None


@dataclasses.dataclass(frozen=True)
class BiTSize:
    """Sizes of a named BiT ResNet: the units of each stage, and the factor of all channels."""

    num_layers: tuple
    width: int


# B, L and H: table 1 of arXiv 2010.11929. Ti and S: table 2 of arXiv 2106.10270. g and G: table 2
# of arXiv 2106.04560.
VIT_SIZES = {
    "ViT_Ti16": ViTSize(16, 12, 192, 768, 3),
    "ViT_S32": ViTSize(32, 12, 384, 1536, 6),
    "ViT_S16": ViTSize(16, 12, 384, 1536, 6),
    "ViT_B32": ViTSize(32, 12, 768, 3072, 12),
    "ViT_B16": ViTSize(16, 12, 768, 3072, 12),
    "ViT_B8": ViTSize(8, 12, 768, 3072, 12),
    "ViT_L32": ViTSize(32, 24, 1024, 4096, 16),
    "ViT_L16": ViTSize(16, 24, 1024, 4096, 16, dropout_rate=0.1),
    "ViT_L14": ViTSize(14, 24, 1024, 4096, 16),
    "ViT_H14": ViTSize(14, 32, 1280, 5120, 16, dropout_rate=0.1),
    "ViT_g14": ViTSize(14, 40, 1408, 6144, 16),
    "ViT_G14": ViTSize(14, 48, 1664, 8192, 16),
}

# The number is the total downsampling, in R_ViT_Ti16 only by name: its stem divides by 4 and its
# patches by 8. In R50_ViT_*16 the units of the fourth stage have gone into the third (section 4.1
# of arXiv 2010.11929, and vit_jax, configs/models.py).
HYBRID_SIZES = {
    "R_ViT_Ti16": ViTSize(8, 12, 192, 768, 3, resnet=()),
    "R26_ViT_S32": ViTSize(1, 12, 384, 1536, 6, resnet=(2, 2, 2, 2)),
    "R26_ViT_B32": ViTSize(1, 12, 768, 3072, 12, resnet=(2, 2, 2, 2)),
    "R50_ViT_B32": ViTSize(1, 12, 768, 3072, 12, resnet=(3, 4, 6, 3)),
    "R50_ViT_B16": ViTSize(1, 12, 768, 3072, 12, dropout_rate=0.1, resnet=(3, 4, 9)),
    "R50_ViT_L32": ViTSize(1, 24, 1024, 4096, 16, dropout_rate=0.1, resnet=(3, 4, 6, 3)),
    "R50_ViT_L16": ViTSize(1, 24, 1024, 4096, 16, resnet=(3, 4, 9)),
}

# arXiv 1912.11370 and 2010.11929, table 6.
BIT_SIZES = {
    "BiT_R50x1": BiTSize((3, 4, 6, 3), 1),
    "BiT_R50x2": BiTSize((3, 4, 6, 3), 2),
    "BiT_R50x3": BiTSize((3, 4, 6, 3), 3),
    "BiT_R101x1": BiTSize((3, 4, 23, 3), 1),
    "BiT_R101x3": BiTSize((3, 4, 23, 3), 3),
    "BiT_R152x1": BiTSize((3, 8, 36, 3), 1),
    "BiT_R152x2": BiTSize((3, 8, 36, 3), 2),
    "BiT_R152x4": BiTSize((3, 8, 36, 3), 4),
    "BiT_R200x3": BiTSize((3, 24, 36, 3), 3),
}
