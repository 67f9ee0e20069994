"""What the paper looks at inside a trained model; every function returns NumPy arrays.

Each function has a `plot_` twin that returns a matplotlib figure (the extra `plot`).
"""

from keras_vit.analysis.attention import attention, plot_attention
from keras_vit.analysis.attention_rollout import attention_rollout, plot_attention_rollout
from keras_vit.analysis.position_similarity import plot_position_similarity, position_similarity

__all__ = [
    "attention",
    "attention_rollout",
    "plot_attention",
    "plot_attention_rollout",
    "plot_position_similarity",
    "position_similarity",
]
