"""The named hybrids, ResNet and Transformer, in the manner of `keras.applications`."""

from keras_vit.applications.constructors import vit_constructor
from keras_vit.applications.sizes import HYBRID_SIZES

R_ViT_Ti16 = vit_constructor("R_ViT_Ti16", HYBRID_SIZES["R_ViT_Ti16"])
R26_ViT_S32 = vit_constructor("R26_ViT_S32", HYBRID_SIZES["R26_ViT_S32"])
R26_ViT_B32 = vit_constructor("R26_ViT_B32", HYBRID_SIZES["R26_ViT_B32"])
R50_ViT_B32 = vit_constructor("R50_ViT_B32", HYBRID_SIZES["R50_ViT_B32"])
R50_ViT_B16 = vit_constructor("R50_ViT_B16", HYBRID_SIZES["R50_ViT_B16"])
R50_ViT_L32 = vit_constructor("R50_ViT_L32", HYBRID_SIZES["R50_ViT_L32"])
R50_ViT_L16 = vit_constructor("R50_ViT_L16", HYBRID_SIZES["R50_ViT_L16"])
