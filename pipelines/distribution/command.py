"""The option `--distribute` of commands."""

import contextlib
import os
import sys


def add_distribute_argument(parser):
    """The option `--distribute`."""
    parser.add_argument(
        "--distribute",
        metavar="SPEC",
        help="data, model:BxM or fsdp:N, see docs/scaling.md; default $KERAS_VIT_DISTRIBUTE or off",
    )


@contextlib.contextmanager
def distributed(spec):
    """`pipelines.distribute` for a command, whose process ends when another of its run has ended.

    At an ordinary end the backends would wait for the process that is gone.
    """
    import pipelines
    from pipelines.distribution.engine import LostPeer

    with pipelines.distribute(spec) as engine:
        try:
            with engine.explained():
                yield engine
        except LostPeer as error:
            print(f"keras-vit: error: {error}", file=sys.stderr)
            for stream in (sys.stdout, sys.stderr):
                stream.flush()
            os._exit(1)
