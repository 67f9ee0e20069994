"""The state of a run whose variables are split over several processes: each writes its own shards.

Orbax does it, as in Keras's `OrbaxCheckpoint` callback. A state is a folder, named by its position,
that has its name only when all processes have written; what was begun and not ended has another.
"""

from pipelines import files
from pipelines.runs.state import check_backend, check_names, variables_of, with_backend


def save_state(path, model, facts):
    """Writes the state of a model in training, and removes the one before.

    All processes must call it.

    Args:
        path: Path of the folder of states.
        model: A compiled model.
        facts: A dict that JSON can hold: the position and the log.
    """
    orbax, manager = _manager(path)
    state = {name: variable.value for name, variable in variables_of(model)}
    with manager:
        manager.save(
            facts["position"],
            args=orbax.args.Composite(
                state=orbax.args.StandardSave(state),
                facts=orbax.args.JsonSave(with_backend(facts)),
            ),
            force=True,
        )
        manager.wait_until_finished()


def has_state(path):
    """Whether there is a whole state in the folder."""
    if not files.exists(path):
        return False
    manager = _manager(path)[1]
    with manager:
        return manager.latest_step() is not None


def read_facts(path):
    """The facts that `save_state` was given last."""
    orbax, manager = _manager(path)
    with manager:
        args = orbax.args.Composite(facts=orbax.args.JsonRestore())
        return manager.restore(manager.latest_step(), args=args)["facts"]


def restore_state(path, model):
    """Sets every variable of a model and its optimizer, each process its own shards.

    Raises:
        ValueError: if the state is of another model, optimizer or backend.
    """
    import jax

    check_backend(read_facts(path), path)
    orbax, manager = _manager(path)
    variables = dict(variables_of(model))
    with manager:
        step = manager.latest_step()
        kept = manager.item_metadata(step)["state"]
        check_names(kept.keys(), variables, path)
        places = {
            name: jax.ShapeDtypeStruct(
                tuple(variable.shape), variable.value.dtype, sharding=variable.value.sharding
            )
            for name, variable in variables.items()
        }
        args = orbax.args.Composite(state=orbax.args.StandardRestore(places))
        state = manager.restore(step, args=args)["state"]
    for name, variable in variables.items():
        variable.assign(state[name])


def _manager(path):
    """`(orbax, its manager of the states in a folder)`."""
    try:
        import orbax.checkpoint as orbax
    except ModuleNotFoundError as error:
        raise ImportError(
            "A run whose variables are split over several processes needs orbax-checkpoint for its "
            'state. Install it with: pip install "keras3-vit[jax]"'
        ) from error
    options = orbax.CheckpointManagerOptions(max_to_keep=1, enable_async_checkpointing=False)
    handlers = {
        "state": orbax.StandardCheckpointHandler(),
        "facts": orbax.JsonCheckpointHandler(),
    }
    path = files.absolute(path)
    return orbax, orbax.CheckpointManager(path, options=options, item_handlers=handlers)
