"""JAX compiles quickly here; see `quick_compilation.as_users_run_it` for tests of what it makes."""

from quick_compilation import as_users_run_it, quick_compilation

__all__ = ["as_users_run_it", "quick_compilation"]
