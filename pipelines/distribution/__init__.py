"""One script on one device or on many: `with pipelines.distribute(spec) as d:`.

spec.py          the word that says how: off, data, model:BxM, fsdp:N, tpu
launcher.py      how many processes there are, from the variables that launchers set
engine.py        what all engines have in common: hosts, replicas, batch sizes
*_engine.py      the existing engines of each backend, and the shims that they need
training.py      what `fit`, `evaluate` and `predict` check and mend while an engine acts
padding.py       ragged batches filled up with rows of weight zero
command.py       the option `--distribute` of commands
data_service.py  batches that other machines prepare
"""

from pipelines.distribution.distribute import distribute

__all__ = ["distribute"]
