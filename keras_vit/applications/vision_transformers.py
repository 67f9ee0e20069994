"""The named Vision Transformers, in the manner of `keras.applications`."""

from keras_vit.applications.constructors import vit_constructor
from keras_vit.applications.sizes import VIT_SIZES

ViT_Ti16 = vit_constructor("ViT_Ti16", VIT_SIZES["ViT_Ti16"])
ViT_S32 = vit_constructor("ViT_S32", VIT_SIZES["ViT_S32"])
ViT_S16 = vit_constructor("ViT_S16", VIT_SIZES["ViT_S16"])
ViT_B32 = vit_constructor("ViT_B32", VIT_SIZES["ViT_B32"])
ViT_B16 = vit_constructor("ViT_B16", VIT_SIZES["ViT_B16"])
ViT_B8 = vit_constructor("ViT_B8", VIT_SIZES["ViT_B8"])
ViT_L32 = vit_constructor("ViT_L32", VIT_SIZES["ViT_L32"])
ViT_L16 = vit_constructor("ViT_L16", VIT_SIZES["ViT_L16"])
ViT_L14 = vit_constructor("ViT_L14", VIT_SIZES["ViT_L14"])
ViT_H14 = vit_constructor("ViT_H14", VIT_SIZES["ViT_H14"])
ViT_g14 = vit_constructor("ViT_g14", VIT_SIZES["ViT_g14"])
ViT_G14 = vit_constructor("ViT_G14", VIT_SIZES["ViT_G14"])
