"""Makes sure that the `keras_vit` on the path is the library that these pipelines belong to."""

from importlib import metadata

DISTRIBUTION = "keras3-vit"


def check_identity() -> None:
    """Raises an ImportError if another distribution's `keras_vit` was imported in ours' place.

    The library cannot notice that itself, because none of its code runs then. Where it does run
    it marks itself with `__distribution__`.
    """
    import keras_vit

    if getattr(keras_vit, "__distribution__", None) != DISTRIBUTION:
        raise ImportError(_describe_impostor(keras_vit))

    from keras_vit._identity import check_identity as check_folder

    check_folder("pipelines")


def _describe_impostor(module) -> str:
    where = getattr(module, "__file__", None) or "a folder without __init__.py"
    # Looks through everything that is installed: slow, and only done on the way to an error.
    owners = metadata.packages_distributions().get("keras_vit", [])
    others = " ".join(sorted(set(owners) - {DISTRIBUTION}))
    wanted = (
        f"`pipelines` needs the `keras_vit` of {DISTRIBUTION}, but another one was imported, "
        f"from {where}."
    )
    reinstall = f"`pip install --force-reinstall --no-deps {DISTRIBUTION}`"
    if others:
        return f"{wanted} It belongs to {others}. Run `pip uninstall {others}`, then {reinstall}."
    return (
        f"{wanted} No installed distribution owns it. "
        f"Take it off the Python path, or run {reinstall}."
    )
