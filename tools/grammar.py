"""The grammar of the command line: the commands with their options, help and examples. Imports no large module."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from .. import __version__, mxforge_version
from ..ir.suggestions import suggestion
from .argument_types import context, natural, positive, positive_number
from .bench.grammar import BENCH_EXAMPLES, add_bench_options
from .bisect.grammar import BISECT_EXAMPLES, fill_bisect
from .convert_grammar import CONVERT_EXAMPLES, add_models, add_training, fill_convert
from .profile.grammar import PROFILE_EXAMPLES, fill_profile
from .records_grammar import IM2REC_EXAMPLES, REC2IDX_EXAMPLES, fill_im2rec, fill_rec2idx
from .schemas.catalogue import SCHEMAS
from .shape_grammar import add_shapes, add_variants, with_shapes
from .tune.grammar import TUNE_EXAMPLES, add_tuning, fill_tune

GPUS = ("cuda-sm80", "cuda-sm86", "cuda-sm89", "cuda-sm90", "cuda-sm100")
CPUS = ("host", "x86-64-v3", "x86-64-v4")
CROSS = ("aarch64-linux", "aarch64-macos")
"""Processors of other architectures, for libraries."""
WEIGHTS = ("f32", "bf16")
EMITTED = ("folder", "shared", "object", "c")
PRESETS = ("imagenet", "insightface", "ssd")

_RUN_EXAMPLES = """\
examples:
  mxforge run resnet50-symbol.json --input data=x.npy --output y.npz
  mxforge run resnet50 --epoch 12 --input cat.jpg --preset imagenet --labels names.txt --softmax
  mxforge run resnet50 --input photos --size 224 --mean 0.485,0.456,0.406 --std 0.229,0.224,0.225 --json
  mxforge run resnet50 --input-shape data=8,3,224,224 --repeat 50
  mxforge run compiled-resnet50 --input batch.npz
  mxforge run resnet50 --input cat.jpg --preset imagenet --ctx gpu
"""
_INSPECT_EXAMPLES = """\
examples:
  mxforge inspect resnet50-symbol.json --input-shape data=1,3,224,224
  mxforge inspect resnet50 --input-shape data=1,3,224,224 --profile
  mxforge inspect resnet50 --input-shape data=1,3,224,224 --dump stages --json
  mxforge inspect resnet50 --input-shape data=1,3,224,224 --dump stages --target mlir
  mxforge inspect resnet50 --input-shape data=1,3,224,224 --profile --graph resnet50.svg
"""
_COMPILE_EXAMPLES = """\
examples:
  mxforge compile resnet50 -o compiled-resnet50 --input-shape data=1,3,224,224
  mxforge run compiled-resnet50 --input cat.jpg --size 224
  mxforge compile resnet50 -o resnet50-gpu --input-shape data=1,3,224,224 --target cuda-sm90
  mxforge compile resnet50 -o any-batch --input-shape data=1..8..64,3,224,224
  mxforge compile resnet50 -o two-sizes --variant small data=1,3,224,224 --variant large data=8,3,384,384
  mxforge compile resnet50 -o library --input-shape data=1,3,224,224 --emit shared --target x86-64-v3
  mxforge compile vgg16 -o compiled-vgg16 --input cat.jpg --preset imagenet --weights bf16
"""
_EXEC_EXAMPLES = """\
examples:
  mxforge exec train.py --epochs 3
  mxforge exec -m pytest tests/test_model.py
  mxforge exec -c "import mxnet as mx; print(mx.nd.ones((2, 3)))"
"""
_LAUNCH_EXAMPLES = """\
examples:
  mxforge launch -n 4 python train.py --kv-store dist_sync
  mxforge launch -n 16 --hostfile hosts --restarts 3 train.py
"""
_HELP_EXAMPLES = """\
examples:
  mxforge help
  mxforge help getting-started
"""
_CACHE_EXAMPLES = """\
examples:
  mxforge cache
  mxforge cache --shrink 500
"""
_SCHEMA_EXAMPLES = """\
examples:
  mxforge schema
  mxforge schema profile
"""
_COMPLETION_EXAMPLES = """\
examples:
  mxforge completion bash > ~/.local/share/bash-completion/completions/mxforge
  mxforge completion zsh > ~/.zfunc/_mxforge            # with fpath+=~/.zfunc before compinit in ~/.zshrc
"""


class Parser(argparse.ArgumentParser):
    """A parser that reports errors in one line, as all errors of mxforge, and knows options by their whole names."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(allow_abbrev=False, **kwargs)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        choices = None if action.choices is None else [str(choice) for choice in action.choices]
        if choices is not None and str(value) not in choices:
            hint = suggestion(str(value), choices)
            raise argparse.ArgumentError(action, f"{value!r} is not one of {', '.join(choices)}.{hint}")

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"mxforge: error: {message} (see {self.prog} --help)\n")


def numbers(text: str) -> tuple[float, ...]:
    """Numbers separated by commas."""
    try:
        return tuple(float(n) for n in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of numbers such as 0.485,0.456,0.406") from None


def image_size(text: str) -> tuple[int, int]:
    """`H,W`, or one number for both."""
    parts = [positive(n) for n in text.split(",")]
    if len(parts) > 2:
        raise argparse.ArgumentTypeError(f"{text!r} is not H,W")
    return parts[0], parts[-1]


def build_parser() -> argparse.ArgumentParser:
    """The parser of the command line. It stores in `module` the module of `tools` that runs the command."""
    version = f"mxforge {mxforge_version} (API of MXNet {__version__})"
    parser = Parser(
        prog="mxforge", description="Runs, inspects, measures and compiles MXNet models and programs with mxforge."
    )
    parser.add_argument("--version", action="version", version=version)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=Parser)
    for name, summary, module, examples, fill in _COMMANDS:
        command = commands.add_parser(
            name,
            help=summary,
            description=summary,
            epilog=examples,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        command.set_defaults(module=module, parser=command)
        fill(command)
        command.add_argument("--traceback", action="store_true", help="show where an error comes from")
    return parser


def _add_model(parser: argparse.ArgumentParser, **kwargs: object) -> None:
    text = (
        "a -symbol.json file, its prefix (PREFIX-symbol.json, PREFIX-0000.params), its .params, an .onnx file, or "
        "a compiled folder"
    )
    parser.add_argument("model", metavar="MODEL", help=text, **kwargs)  # type: ignore[arg-type]
    _add_parameters(parser)


def _add_parameters(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--epoch", type=natural, metavar="N", help="the number in the name of the .params file (default: 0)"
    )
    parser.add_argument(
        "--params", type=Path, metavar="FILE", help="a .params, .npz, .safetensors, .pt or .pth file of any name"
    )
    parser.add_argument("--allow-missing", action="store_true", help="make parameters without values inputs")


def _add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")


def _add_context(parser: argparse._ActionsContainer) -> None:
    text = "the device: cpu, gpu or gpu(N), in quotes for a shell (default: cpu)"
    parser.add_argument("--ctx", type=context, default="cpu", metavar="CTX", help=text)


def _add_weights(parser: argparse._ActionsContainer) -> None:
    text = "the dtype in which weights of products and convolutions are stored; bf16 rounds them (default: f32)"
    parser.add_argument("--weights", choices=WEIGHTS, help=text)


def _add_inputs(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--input",
        action="append",
        dest="inputs",
        default=[],
        metavar="[NAME=]FILE",
        help="a .npy file, an image or a folder of images, or an .npz file with arrays by name (or x0, x1, ... by "
        "position); can be repeated",
    )
    images = parser.add_argument_group(
        "images", "An image becomes (1, 3, H, W) float32: (RGB / 255 - mean) / std, unless these options change it."
    )
    images.add_argument(
        "--preset", choices=PRESETS, help="the conversion of these models: size, range, mean and std; options change it"
    )
    text = "cut the centre of H x W (or N x N) out of the image, resized to cover it with its proportions kept"
    images.add_argument("--size", type=image_size, metavar="H,W", help=text)
    images.add_argument("--resize", type=positive, metavar="N", help="resize the shorter side to N before the cut")
    images.add_argument("--squash", action="store_true", help="stretch the whole image to --size")
    images.add_argument("--mean", type=numbers, metavar="R,G,B", help="subtracted, per channel (default: 0)")
    images.add_argument("--std", type=numbers, metavar="R,G,B", help="divided by, per channel (default: 1)")
    images.add_argument(
        "--range", type=positive_number, metavar="X", help="the largest value of a pixel (default: 1; often 255)"
    )
    images.add_argument("--bgr", action="store_true", help="channels in the order blue, green, red")
    images.add_argument("--nhwc", action="store_true", help="channels last: (1, H, W, 3)")


def _add_machine(parser: argparse.ArgumentParser) -> None:
    """Add the options for the machine to compile for."""
    parser.add_argument(
        "--threads", type=positive, metavar="N", help="threads of kernels (default: the CPUs of this process)"
    )
    _add_cpu(parser)


def _add_cpu(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--cpu",
        choices=CPUS,
        help="compile for fewer instructions: x86-64-v3 has AVX2, x86-64-v4 has AVX-512 (default: host, this machine)",
    )


def _add_target(parser: argparse.ArgumentParser, *more: str) -> None:
    text = "what compiles kernels: cpu (the default), or mlir, upstream MLIR, which requires the package torch-mlir"
    interpreted = "; reference interprets the graph with NumPy" if more else ""
    parser.add_argument("--target", choices=("cpu", "mlir", *more), help=f"{text}{interpreted}")


class CompiledFor(argparse.Action):
    """`--target` of `compile`: a processor, also of another architecture, `mlir` for this one, or that of a GPU."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: object, _: object = None
    ) -> None:
        kinds = {"gpu": GPUS, "cross": CROSS, "target": ("mlir",), "cpu": CPUS}
        setattr(namespace, next(kind for kind, names in kinds.items() if values in names), values)


def _fill_run(parser: argparse.ArgumentParser) -> None:
    _add_model(parser)
    _add_inputs(parser)
    add_shapes(parser)
    parser.add_argument(
        "--output", type=Path, metavar="FILE", help="write results to a .npz or .npy file or to a folder"
    )
    text = "run N times and show percentiles of the time (default: 1; without --input 20, on random numbers)"
    parser.add_argument("--repeat", type=positive, metavar="N", help=text)
    parser.add_argument("--warmup", type=natural, metavar="N", help="runs before those (default: 2; one run: 0)")
    parser.add_argument("--labels", type=Path, metavar="FILE", help="names of the classes, one per line")
    parser.add_argument("--top-k", type=positive, default=5, metavar="K", help="the classes to show (default: 5)")
    parser.add_argument("--softmax", action="store_true", help="show probabilities: the softmax of the classes")
    _add_json(parser)
    _add_context(parser)
    _add_target(parser, "reference")
    _add_weights(parser)
    _add_machine(parser)
    add_tuning(parser)


def _fill_inspect(parser: argparse.ArgumentParser) -> None:
    _add_model(parser)
    add_shapes(parser)
    parser.add_argument("--profile", action="store_true", help="run the program and show the time of each launch")
    parser.add_argument("--dump", type=Path, metavar="DIR", help="write every stage of the compilation to this folder")
    text = "write which steps of the program wait for which, as a .dot, .graphml or .svg file"
    parser.add_argument("--graph", type=Path, metavar="FILE", help=text)
    _add_json(parser)
    _add_context(parser)
    _add_weights(parser)
    _add_target(parser)
    _add_machine(parser)
    add_tuning(parser)


def _fill_profile(parser: argparse.ArgumentParser) -> None:
    _add_model(parser)
    add_shapes(parser)
    fill_profile(parser)
    _add_context(parser)
    _add_weights(parser)
    _add_target(parser)
    _add_machine(parser)
    add_tuning(parser)


def _fill_tune(parser: argparse.ArgumentParser) -> None:
    _add_model(parser)
    add_shapes(parser)
    fill_tune(parser)
    _add_context(parser)
    _add_machine(parser)


def _fill_bisect(parser: argparse.ArgumentParser) -> None:
    text = "a model as in other commands, or a Python script (.py), which takes the arguments that follow it"
    parser.add_argument("model", metavar="MODEL|SCRIPT", help=text)
    parser.set_defaults(program=[])
    _add_parameters(parser)
    _add_inputs(parser)
    add_shapes(parser)
    fill_bisect(parser)
    _add_json(parser)
    _add_weights(parser)
    _add_target(parser)
    _add_machine(parser)
    add_tuning(parser)


def _fill_compile(parser: argparse.ArgumentParser) -> None:
    _add_model(parser)
    _add_inputs(parser)
    add_shapes(parser, ranges=True)
    add_variants(parser)
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="DIR", help="the folder to write")
    parser.add_argument("--force", action="store_true", help="replace an existing compiled folder")
    text = (
        "what to write: a folder that mxforge reads (the default), or a library for programs in C: shared, an object, "
        "or C source with an object of the kernels"
    )
    parser.add_argument("--emit", choices=EMITTED, default=EMITTED[0], help=text)
    text = "let the library have MXNet's C predict API too (MXPredCreate ...), for this model"
    parser.add_argument("--predict-api", action="store_true", help=text)
    _add_json(parser)
    _add_weights(parser)
    _add_machine(parser)
    text = (
        "as --cpu; or aarch64-linux or aarch64-macos, for libraries; or mlir: compile kernels with upstream MLIR, "
        "which requires torch-mlir; or for NVIDIA GPUs, such as cuda-sm90, which requires the package triton"
    )
    parser.add_argument("--target", action=CompiledFor, choices=(*CPUS, *CROSS, "mlir", *GPUS), help=text)
    parser.set_defaults(gpu=None, cross=None)
    _add_context(parser)
    add_tuning(parser)


def _fill_bench(parser: argparse.ArgumentParser) -> None:
    _add_model(parser, nargs="?")
    add_shapes(parser)
    _add_inputs(parser)
    add_bench_options(parser)
    _add_context(parser)
    _add_weights(parser)
    _add_target(parser)
    _add_cpu(parser)
    add_tuning(parser)


def _fill_convert(parser: argparse.ArgumentParser) -> None:
    fill_convert(parser)
    text = "A model is written for fixed shapes of its inputs; ONNX requires the package onnx."
    models = parser.add_argument_group("ONNX and StableHLO", text)
    _add_parameters(models)
    add_shapes(models)
    add_models(models)
    text = "StableHLO of a step: the loss, its gradients, and the updates of parameters and states."
    add_training(parser.add_argument_group("training steps", text))


def _fill_exec(parser: argparse.ArgumentParser) -> None:
    text = "a Python file, -m MODULE or -c CODE, and the program's own arguments"
    parser.add_argument("program", nargs=argparse.REMAINDER, metavar="PROGRAM ...", help=text)


def _fill_launch(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("-n", "--num-workers", type=positive, required=True, metavar="N", help="number of processes")
    add("-H", "--hostfile", metavar="FILE", help="hosts, one on each line (default: this machine)")
    text = "start the program again after a failure, at most K times; it continues from its own checkpoint"
    add("--restarts", type=natural, default=0, metavar="K", help=text)
    text = "set a variable in all processes"
    add("--env", "--env-worker", action="append", default=[], metavar="NAME:VALUE", help=text)
    launchers = ("local", "ssh", "mpi", "sge", "yarn")
    add("--launcher", choices=launchers, default="mpi", help="accepted for MXNet's launch.py; MPI starts the processes")
    add("-s", "--num-servers", type=natural, metavar="N", help="accepted for MXNet's launch.py, and ignored")
    add("--sync-dst-dir", metavar="DIR", help="accepted for MXNet's launch.py, and ignored")
    text = "python FILE.py, FILE.py or any command, and the program's own arguments"
    add("program", nargs=argparse.REMAINDER, metavar="PROGRAM ...", help=text)


def _fill_cache(parser: argparse.ArgumentParser) -> None:
    change = parser.add_mutually_exclusive_group()
    change.add_argument("--clear", action="store_true", help="remove all compiled programs")
    text = "remove the programs that were not used for the longest time, until the others take at most N MiB"
    change.add_argument("--shrink", type=natural, metavar="N", help=text)
    _add_json(parser)


def _fill_help(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("page", nargs="?", metavar="PAGE", help="the name of a page (default: list all)")


def _fill_doctor(parser: argparse.ArgumentParser) -> None:
    _add_json(parser)


def _fill_schema(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", choices=tuple(SCHEMAS), metavar="NAME", help="a schema (default: list all)")


def _fill_completion(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=("bash", "zsh", "tcsh"), help="the shell that reads the script")


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The options of a command line. Exits the process with status 2 for invalid arguments, 0 after `--help`."""
    parser = build_parser()
    own, program = split_program(arguments)
    options, unknown = parser.parse_known_args(with_shapes(own))
    if unknown:
        command: argparse.ArgumentParser = getattr(options, "parser", parser)
        known = [option for action in command._actions for option in action.option_strings]
        command.error(f"unrecognized arguments: {' '.join(unknown)}.{suggestion(unknown[0].partition('=')[0], known)}")
    if program:
        options.program = program
    return options


def split_program(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """(arguments of mxforge, arguments that it does not parse): the program of `exec` with its arguments, and the
    arguments of a script of `bisect`."""
    own = list(arguments)
    if own[:1] == ["bisect"]:
        end = next((i + 1 for i, argument in enumerate(own) if argument.endswith(".py")), len(own))
        return own[:end], own[end:]
    if own[:1] != ["exec"] or own[1:2] in (["-h"], ["--help"]):
        return own, []
    start = 2 if own[1:2] == ["--traceback"] else 1
    return own[:start], own[start:]


_Fill = Callable[[argparse.ArgumentParser], None]

_COMMANDS: tuple[tuple[str, str, str, str, _Fill], ...] = (
    ("run", "Run a model on arrays or images.", "run_model", _RUN_EXAMPLES, _fill_run),
    ("inspect", "Show a model and its compiled program.", "inspect_model", _INSPECT_EXAMPLES, _fill_inspect),
    ("profile", "Measure each layer against this machine.", "profile.command", PROFILE_EXAMPLES, _fill_profile),
    (
        "bisect",
        "Find the pass or kernel that changes the numbers.",
        "bisect.command",
        BISECT_EXAMPLES,
        _fill_bisect,
    ),
    ("tune", "Search faster schedules for a model.", "tune.command", TUNE_EXAMPLES, _fill_tune),
    ("compile", "Compile a model ahead of time to a folder.", "compile_model", _COMPILE_EXAMPLES, _fill_compile),
    (
        "bench",
        "Measure a model on mxforge and other frameworks, in alternation.",
        "bench.command",
        BENCH_EXAMPLES,
        _fill_bench,
    ),
    ("convert", "Convert parameters, symbols and models.", "convert_model", CONVERT_EXAMPLES, _fill_convert),
    ("im2rec", "Make lists and record files of images.", "im2rec", IM2REC_EXAMPLES, fill_im2rec),
    ("rec2idx", "Make the index of a record file.", "rec2idx", REC2IDX_EXAMPLES, fill_rec2idx),
    ("exec", "Run a Python program with mxforge as mxnet.", "exec_program", _EXEC_EXAMPLES, _fill_exec),
    ("launch", "Run a program in several processes that train together.", "launch", _LAUNCH_EXAMPLES, _fill_launch),
    ("cache", "Show or empty the folder of compiled programs.", "cache_command", _CACHE_EXAMPLES, _fill_cache),
    ("help", "Print a page of the documentation.", "help_page", _HELP_EXAMPLES, _fill_help),
    ("schema", "Print the JSON Schema of a report.", "schema_command", _SCHEMA_EXAMPLES, _fill_schema),
    ("doctor", "Show what is installed, and test it.", "doctor", "", _fill_doctor),
    ("completion", "Print a script for a shell's completion.", "completion", _COMPLETION_EXAMPLES, _fill_completion),
)
