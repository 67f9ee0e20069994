"""Which encoder blocks an analysis is about."""

import numbers


def block_indices(layers, num_layers):
    """The indices, counted from 0, of the blocks that `layers` names.

    Args:
        layers: None for all blocks, or one of them or several: an index, negative ones counted
            from the end, or a name such as `"block_3"`.
        num_layers: Integer, how many blocks there are.

    Raises:
        ValueError: if there is no such block, or none is named.
    """
    named = range(num_layers) if layers is None else layers
    named = [named] if isinstance(named, (numbers.Integral, str)) else list(named)
    names = {f"block_{i}": i for i in range(num_layers)}
    indices = [names.get(each, each) if isinstance(each, str) else each for each in named]
    wrong = [i for i in indices if not _is_index(i, num_layers)]
    if wrong or not indices:
        raise ValueError(
            f"`layers` must be indices of the model's {num_layers} blocks, from {-num_layers} to "
            f"{num_layers - 1}. Received: layers={layers!r}. Their names will do too, 'block_0' to "
            f"'block_{num_layers - 1}'."
        )
    return [range(num_layers)[i] for i in indices]


def _is_index(value, num_layers):
    is_integer = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    return is_integer and -num_layers <= value < num_layers
