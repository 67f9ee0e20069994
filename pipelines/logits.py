"""How the logits of a classifier become probabilities, where it has no activation."""


def activation_of_logits(spec):
    """The activation, `"softmax"` or `"sigmoid"`, for images of one class each.

    A single output says how likely the second of two classes is.

    Args:
        spec: The model's.
    """
    return "sigmoid" if spec.classes == 1 else "softmax"
