"""The commands of `keras-vit`, one a file; see `pipelines.cli`."""
