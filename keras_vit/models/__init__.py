"""Models: the spec, the builders that turn it into a Keras model, and the change of resolution."""
