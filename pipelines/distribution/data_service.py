"""Training images that other machines decode and augment, by tf.data service."""

from pipelines._tensorflow import tf
from pipelines.distribution.engine import Engine


def through_services(load, services, distribute=None):
    """Training data prepared by services, batch for batch what `load` alone gives.

    Each service prepares its share of the rows of every batch, in order, so that the run is
    reproducible and can be resumed. A service is a dispatcher with one worker: several workers of
    one dispatcher would each send all batches, since ours are made from a counter, which has no
    files to share out.

    Args:
        load: Function of a share, to be passed on as `distribute=`, that returns endless batches,
            as `pipelines.load(..., repeat=True, validation=False, distribute=share)[0]`.
        services: List of addresses, `"grpc://host:5000"`.
        distribute: What `with pipelines.distribute(...) as d` gave, or None. Every host names the
            services that work for it.

    Returns:
        `tf.data.Dataset` of this host's rows of each batch. What mixes images of a batch, such as
        Mixup, mixes those of one share where each has its own partner.

    Raises:
        ValueError: if no services are named, or they do not divide the batch.

    Example:

    >>> train = through_services(
    ...     lambda share: pipelines.load(
    ...         "gs://bucket/photos", model=model, batch_size=512, augment="medium1",
    ...         validation=False, repeat=True, distribute=share)[0],
    ...     ["grpc://cpu-0:5000", "grpc://cpu-1:5000"])
    """
    host, hosts = (0, 1) if distribute is None else (distribute.host, distribute.hosts)
    if not services:
        raise ValueError("Name the services that prepare the data. Received: services=[]")
    parts = []
    for place, address in enumerate(services):
        share = _Share(hosts * len(services), host * len(services) + place)
        parts.append(load(share).apply(_distribute(address)))
    return tf.data.Dataset.zip(tuple(parts)).map(_joined).prefetch(tf.data.AUTOTUNE)


class _Share(Engine):
    """The place of one service among all, where `load` asks for that of a host."""

    def __init__(self, hosts, host):
        super().__init__()
        self.hosts = self.replicas = hosts
        self.host = host


def _distribute(address):
    service = tf.data.experimental.service
    return service.distribute(processing_mode=service.ShardingPolicy.OFF, service=address)


def _joined(*parts):
    return tf.nest.map_structure(lambda *rows: tf.concat(rows, 0), *parts)
