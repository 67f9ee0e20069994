"""Where the patches of a model lie in its images."""

from keras_vit.models.resnet_stem import num_halvings


def token_stride(spec):
    """`(height, width)` in pixels from one patch to the next.

    A hybrid's patches are cut from a feature map, a pixel of which stands for 2^k pixels of the
    image.
    """
    pitch = 1 if spec.resnet is None else 2 ** num_halvings(spec.resnet)
    return tuple(pitch * side for side in spec.patch_size)
