"""Label smoothing."""


def smoothed(one_hot, amount):
    """Takes a share of all labels and spreads it evenly over the classes.

    Args:
        one_hot: Float `(..., K)`; one column stands for two classes.
        amount: Float from 0 up to 1.
    """
    return one_hot * (1.0 - amount) + amount / max(one_hot.shape[-1], 2)
