"""What the paper looks at inside a trained model; every function returns NumPy arrays.

Each function has a `plot_` twin that returns a matplotlib figure (the extra `plot`). It is no
figure of pyplot's: `figure.savefig("name.png")` writes it, and nothing needs to be closed.
"""

from keras_vit.analysis.attention import attention, plot_attention
from keras_vit.analysis.attention_distance import attention_distance, plot_attention_distance
from keras_vit.analysis.attention_rollout import attention_rollout, plot_attention_rollout
from keras_vit.analysis.patch_filters import patch_filters, plot_patch_filters
from keras_vit.analysis.position_similarity import plot_position_similarity, position_similarity
from keras_vit.analysis.reconstruction import plot_reconstruction
from keras_vit.analysis.representations import plot_representations, representations

__all__ = [
    "attention",
    "attention_distance",
    "attention_rollout",
    "patch_filters",
    "plot_attention",
    "plot_attention_distance",
    "plot_attention_rollout",
    "plot_patch_filters",
    "plot_position_similarity",
    "plot_reconstruction",
    "plot_representations",
    "position_similarity",
    "representations",
]
