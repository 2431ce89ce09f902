"""The tests mirror the tree: a module has the test of its name, or it is said here which test is its own."""

import pytest

from tests.source_tree import ROOT, modules

# For a module or a package without the test of its name, the test that fails when it is broken: it goes through it.
TESTED_BY = {
    "__main__": "test_structure.py",
    "cli.demo": "demo/test_run.py",
    "cli.group": "cli/test_errors.py",
    "cli.sizes": "cli/test_export.py",
    "cli.table_file": "cli/test_identify.py",
    "conventions": "conventions/test_catalogue.py",
    "conventions.identification": "conventions/identification/test_identification.py",
    "demo": "demo/test_run.py",
    "export.dependencies": "export/parity/test_imports.py",
    "export.graph": "export/onnx/test_exporter.py",
    "export.graph.refusals": "export/test_errors.py",
    "export.litert_conversion": "export/test_litert.py",
    "export.model.answers": "export/model/test_probing.py",
    "export.model.calling": "export/model/test_probing.py",
    "export.model.declared": "export/model/test_signature.py",
    "export.model.recording": "export/parity/inputs/test_roles.py",
    "export.model.recurrent_weights": "export/onnx/test_recurrences.py",
    "export.model.rounding": "export/parity/verdict/test_compare.py",
    "export.model.shape_inference": "export/model/test_probing.py",
    "export.onnx": "export/onnx/test_exporter.py",
    "export.onnx.finishing.constants": "export/onnx/finishing/test_sparse_windows.py",
    "export.onnx.finishing.pads": "export/onnx/finishing/test_optimizations.py",
    "export.onnx.handlers.fourier": "export/onnx/handlers/test_spectra.py",
    "export.onnx.handlers.lstm_gru_rnn": "export/onnx/test_recurrences.py",
    "export.onnx.handlers.registry": "export/onnx/test_tf2onnx_door.py",
    "export.onnx.handlers.replacement": "export/onnx/test_survey.py",
    "export.onnx.handlers.texts": "export/onnx/test_tables.py",
    "export.onnx.tf2onnx_optimizers": "export/onnx/test_joining.py",
    "export.onnx.tf2onnx_repairs": "export/onnx/test_tf2onnx_door.py",
    "export.onnx.writing": "export/onnx/test_large.py",
    "export.parity.bundle": "export/parity/bundle/test_replay.py",
    "export.parity.dataset": "export/parity/dataset/test_check.py",
    "export.parity.dataset.executors": "export/parity/dataset/executors/test_cluster.py",
    "export.parity.dataset.sources": "export/parity/dataset/sources/test_libraries.py",
    "export.parity.diagnosis": "export/parity/diagnosis/test_catalogue.py",
    "export.parity.diagnosis.again": "export/parity/diagnosis/test_variants.py",
    "export.parity.diagnosis.alternatives": "export/parity/diagnosis/test_variants.py",
    "export.parity.diagnosis.contents": "export/parity/diagnosis/test_weights.py",
    "export.parity.diagnosis.grids": "export/parity/diagnosis/test_relations.py",
    "export.parity.diagnosis.held": "export/parity/diagnosis/test_layers.py",
    "export.parity.diagnosis.moved": "export/parity/diagnosis/test_relations.py",
    "export.parity.diagnosis.operations": "export/parity/diagnosis/test_variants.py",
    "export.parity.diagnosis.same": "export/parity/diagnosis/test_relations.py",
    "export.parity.inputs.input_roles": "export/parity/inputs/test_roles.py",
    "export.parity.references": "export/parity/test_check.py",
    "export.parity.reports": "export/parity/reports/test_reports.py",
    "export.parity.reports.times": "cli/test_check.py",
    "export.parity.results": "export/parity/reports/test_json.py",
    "export.parity.stopwatch": "cli/test_check.py",
    "export.parity.verdict": "export/parity/test_check.py",
    "export.publishing.metadata": "export/onnx/test_exporter.py",
    "export.reading": "export/test_artifact.py",
    "export.runtimes": "export/runtimes/test_runtimes.py",
    "export.runtimes.child": "export/runtimes/test_worker.py",
    "export.runtimes.external": "export/runtimes/external/test_onnxruntime.py",
    "export.runtimes.litert": "export/parity/test_named_runtimes.py",
    "export.runtimes.onnx_reference": "export/parity/test_named_runtimes.py",
    "export.runtimes.openvino": "export/parity/test_named_runtimes.py",
    "export.runtimes.served": "export/runtimes/served/test_open_inference.py",
    "export.smoke_test.inputs": "export/smoke_test/test_check.py",
    "export.smoke_test.reference": "export/smoke_test/test_check.py",
    "export.smoke_test.differences": "export/smoke_test/test_check.py",
    "layers": "layers/test_sinusoidal_position_encoding.py",
    "layers.reach": "layers/test_call_arguments.py",
    "lazy": "test_face.py",
    "palette": "test_plots.py",
    "rotations": "layers/test_sinusoidal_position_encoding.py",
    "signal": "signal/test_timescales.py",
    "version": "test_face.py",
}
NAMES = sorted(name.removeprefix("keras_pe.") for name, path in modules().items() if path.name != "__init__.py")


def own_test(name: str) -> str:
    """Returns where the test of a module's name would stand."""
    *folders, module = name.split(".")
    return "/".join([*folders, f"test_{module}.py"])


def rows(name: str) -> list[str]:
    """Returns the rows of the table that speak of a module, the closest first."""
    parts = name.split(".")
    prefixes = (".".join(parts[:count]) for count in range(len(parts), 0, -1))
    return [prefix for prefix in prefixes if prefix in TESTED_BY]


@pytest.mark.parametrize("name", NAMES)
def test_every_module_has_its_test(name: str) -> None:
    if (ROOT / "tests" / own_test(name)).is_file():
        assert name not in TESTED_BY, "it has the test of its name: take the row away"
    else:
        assert rows(name), f"write tests/{own_test(name)}, or say here which test is its own"


def test_every_row_is_needed_and_names_a_test_that_is_there() -> None:
    used = {rows(name)[0] for name in NAMES if rows(name) and not (ROOT / "tests" / own_test(name)).is_file()}
    assert set(TESTED_BY) - used == set()
    assert [test for test in TESTED_BY.values() if not (ROOT / "tests" / test).is_file()] == []
