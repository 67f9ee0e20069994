"""From sources to the batches that `fit` and `evaluate` take.

order.py          which image stands where in a run of training: a pure function of seed and step
passes.py         one pass over the data after another, for `fit`
random_access.py  rows of batches from a `Source`, before anything is read
in_sequence.py    rows of batches from a `RecordStream`
views.py          one image as the model is trained or evaluated on it
targets.py        labels as the loss needs them
batches.py        rows to batches, and what happens at a bad image
attempts.py       what may fail, with something to take its place
training.py       endless or in passes, shuffled and augmented
evaluation.py     every image once, the last batch filled up with rows of weight zero
bad_images.py     finding and naming images that cannot be decoded
"""
