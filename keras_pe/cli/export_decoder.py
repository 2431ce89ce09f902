"""`keras-pe export-decoder`: writes a language model with its cache to a folder."""

from pathlib import Path
from typing import Any

import click

from keras_pe.cli.exit_codes import Command
from keras_pe.cli.export import exporting, load, print_artifacts, stage_printer
from keras_pe.cli.options import SavedPath, Verbosity, json_option, model_options, verbosity_options
from keras_pe.cli.start_keras import check_model_file, prepare_keras


@click.command(cls=Command)
@click.argument("model", type=SavedPath())
@click.argument("out", type=click.Path(path_type=Path), metavar="FOLDER")
@click.option(
    "--end-token",
    "end_tokens",
    type=int,
    multiple=True,
    callback=lambda context, parameter, tokens: tokens or None,
    help="A token that ends a text; repeat the option for several. Default: the token of the model's tokenizer.",
)
@click.option("--start-token", type=int, help="The token before a text. Default: the tokenizer's, or the end token.")
@click.option("--padding-token", type=int, help="The token of padding. Default: the tokenizer's, or the end token.")
@click.option("--context-length", type=int, help="The largest number of tokens of a text. Default: the model's own.")
@click.option(
    "--cache",
    type=click.Choice(["growing", "shared"]),
    default="growing",
    show_default=True,
    help="Whether the cache grows from call to call, or each call writes its rows into arrays of a fixed length.",
)
@click.option("--opset", type=click.IntRange(15, 25), help="The ONNX operator set. Default: 18; 24 for a shared cache.")
@click.option("--half-precision", is_flag=True, help="Write a float16 file.")
@model_options
@json_option("the written files")
@verbosity_options(quiet="Print the paths of the files alone.", verbose="Print each stage and its seconds as well.")
def export_decoder(
    model: Path,
    out: Path,
    opset: int | None,
    modules: tuple[str, ...],
    unsafe: bool,
    as_json: bool,
    verbosity: Verbosity,
    **given: Any,
) -> None:
    """Export MODEL, a .keras file of a language model, to FOLDER.

    A model of keras-hub needs --import keras_hub. The command replaces FOLDER/model.onnx, its weights,
    FOLDER/genai_config.json and the files of the tokenizer at once. A model with an encoder, such as T5, becomes
    FOLDER/encoder.onnx and FOLDER/decoder.onnx, without genai_config.json. Exits with 0 if they are written, 1 if the
    export is refused, 2 if the export could not run.
    """
    check_model_file(model)
    from keras_pe import export
    from keras_pe.export.decoders.running_decoder import ENCODER, has_encoder
    from keras_pe.export.progress import telling_stages

    prepare_keras(modules, unsafe)
    given |= {"opset_version": opset} if opset is not None else {}
    with telling_stages(stage_printer(as_json, verbosity)) as stage:
        stage("load")
        loaded = load(model)
        with exporting():
            artifact = export.export_decoder(loaded, out, progress=stage, **given)
    encoder = [export.read_artifact(artifact.path.with_name(ENCODER))] if has_encoder(artifact) else []
    print_artifacts([*encoder, artifact], False, as_json, verbosity)
