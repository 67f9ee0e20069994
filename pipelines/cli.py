"""The program `keras-vit`: finds the command, reads its options, says errors in a sentence.

Each command is a file of `pipelines/commands` with `EXAMPLE`, a line that runs; `add_arguments`;
and `run(options)`, which calls the library and prints. A command is imported when it is chosen, so
that those that read no data need no TensorFlow.
"""

import argparse
import contextlib
import importlib
import os
import re
import sys
import warnings

import keras_vit

# In the order in which `--help` lists them.
COMMANDS = {
    "pretrain": "train a model by a recipe",
    "finetune": "train a model on from weights by a recipe",
    "evaluate": "measure a model on labelled images",
    "fewshot": "measure frozen features by few-shot accuracy",
    "vtab": "fine-tune and measure on the 19 tasks of VTAB-1k",
    "predict": "name what images show",
    "inspect": "draw what is inside a model, on one page",
    "models": "list the models and their published weights",
    "convert": "rewrite weights in another format",
    "export": "write a model for serving, from pixels to probabilities",
    "plan": "say whether a training step fits into memory",
    "bench": "measure how fast this machine classifies and trains",
    "check-data": "read a collection of images and say what is wrong with it",
    "prepare": "write a collection of images as TFRecord files",
}

TRACEBACK = "KERAS_VIT_TRACEBACK"  # set it to see where an error comes from


def main(argv=None):
    """Runs one command line.

    Args:
        argv: List of arguments; None is those of the process.

    Returns:
        Integer, the exit status: 0, what the command returned, or 2 after an error that the user
        can mend.
    """
    argv = sys.argv[1:] if argv is None else list(argv)
    with _plain_warnings():
        try:
            return _run(argv)
        except SystemExit as stop:  # argparse has said what there was to say
            return stop.code or 0
        except KeyboardInterrupt:
            print("keras-vit: stopped", file=sys.stderr)
            return 130
        except BrokenPipeError:  # `keras-vit models | head`
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 0
        except (ImportError, OSError, TypeError, ValueError) as error:
            if os.environ.get(TRACEBACK):
                raise
            print(f"keras-vit: error: {error or type(error).__name__}", file=sys.stderr)
            return 2
        except Exception as error:
            sentence = _sentence_from_tensorflow(error)
            if sentence is None or os.environ.get(TRACEBACK):
                raise
            print(f"keras-vit: error: {sentence}", file=sys.stderr)
            return 2


def _sentence_from_tensorflow(error):
    """Our error in a graph that reads data, which TensorFlow wraps in its own; None if it is none.

    Such as that an image cannot be decoded, met in the middle of training.
    """
    if not type(error).__module__.startswith("tensorflow."):
        return None
    found = re.search(r"\bValueError: (.+?)(?:\nTraceback|\n\n|$)", str(error), re.DOTALL)
    return found and found[1].strip()


def _run(argv):
    name, rest = _chosen(argv)
    command = importlib.import_module(f"pipelines.commands.{name.replace('-', '_')}")
    parser = argparse.ArgumentParser(
        prog=f"keras-vit {name}",
        description=(command.__doc__ or COMMANDS[name]).strip(),
        epilog=f"example:\n  {command.EXAMPLE}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    command.add_arguments(parser)
    return command.run(_options(parser, rest, command)) or 0


def _chosen(argv):
    """The command and its arguments. Prints the help and leaves where none is asked for."""
    parser = argparse.ArgumentParser(
        prog="keras-vit",
        usage="keras-vit COMMAND ...",
        description="Vision Transformers in Keras.",
        epilog=_listed(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=keras_vit.__version__)
    if not argv:
        parser.print_help(sys.stderr)
        raise SystemExit(2)
    if argv[0] in COMMANDS:
        return argv[0], argv[1:]
    if not argv[0].startswith("-"):
        parser.error(f"there is no command {argv[0]!r}; choose one of {', '.join(COMMANDS)}")
    parser.parse_args(argv)  # --help and --version leave; what else there is, is wrong
    parser.error(f"the command comes first; choose one of {', '.join(COMMANDS)}")


def _listed():
    width = max(map(len, COMMANDS))
    lines = [f"  {name:<{width}}  {text}" for name, text in COMMANDS.items()]
    return "\n".join(["commands:", *lines, "", "keras-vit COMMAND --help shows its options."])


def _options(parser, arguments, command):
    """The parsed options; a command that TAKES_OVERRIDES gets what is not its own as `overrides`"""
    options, others = parser.parse_known_args(arguments)
    if getattr(command, "TAKES_OVERRIDES", False):
        options.overrides = others
    elif others:
        parser.error(f"unknown arguments: {' '.join(others)}")
    return options


@contextlib.contextmanager
def _plain_warnings():
    """Our warnings as sentences, without the line of the code that raised them."""
    show = warnings.showwarning

    def say(message, category, filename, lineno, file=None, line=None):
        if category is UserWarning and file is None:
            print(f"keras-vit: {message}", file=sys.stderr)
        else:
            show(message, category, filename, lineno, file, line)

    with warnings.catch_warnings():
        warnings.showwarning = say
        yield


if __name__ == "__main__":
    sys.exit(main())
