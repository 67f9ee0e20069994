"""Weights of Vision Transformers: foreign formats, resampling, loading."""
