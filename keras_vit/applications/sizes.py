"""The sizes of the named models, as data."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class ViTSize:
    """Sizes of a named Vision Transformer.

    `dropout_rate` is that of the paper's code (vit_jax, configs/models.py).
    """

    patch_size: int
    num_layers: int
    hidden_dim: int
    mlp_dim: int
    num_heads: int
    dropout_rate: float = 0.0


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
