"""The named BiT ResNets, in the manner of `keras.applications`."""

from keras_vit.applications.constructors import bit_constructor
from keras_vit.applications.sizes import BIT_SIZES

BiT_R50x1 = bit_constructor("BiT_R50x1", BIT_SIZES["BiT_R50x1"])
BiT_R50x2 = bit_constructor("BiT_R50x2", BIT_SIZES["BiT_R50x2"])
BiT_R50x3 = bit_constructor("BiT_R50x3", BIT_SIZES["BiT_R50x3"])
BiT_R101x1 = bit_constructor("BiT_R101x1", BIT_SIZES["BiT_R101x1"])
BiT_R101x3 = bit_constructor("BiT_R101x3", BIT_SIZES["BiT_R101x3"])
BiT_R152x1 = bit_constructor("BiT_R152x1", BIT_SIZES["BiT_R152x1"])
BiT_R152x2 = bit_constructor("BiT_R152x2", BIT_SIZES["BiT_R152x2"])
BiT_R152x4 = bit_constructor("BiT_R152x4", BIT_SIZES["BiT_R152x4"])
BiT_R200x3 = bit_constructor("BiT_R200x3", BIT_SIZES["BiT_R200x3"])
