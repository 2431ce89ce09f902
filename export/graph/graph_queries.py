"""Queries of a traced graph: its operators, the layer of each operator, and state or randomness.

Keras opens a name scope for each call of a layer, so the path of an operator contains the name of its layer.
"""

import contextlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from keras_pe.export.artifacts.artifact import Format
from keras_pe.export.errors import UnsupportedError
from keras_pe.export.graph.trace import TRACERS
from keras_pe.export.model.signature.signature import Signature
from keras_pe.export.model.watch.code_places import describe_line, users_line
from keras_pe.export.model.watch.keras_internals import scope_name
from keras_pe.export.model.watch.layer_paths import find_layer, is_within, layer_paths, layer_scopes
from keras_pe.export.model.watch.symbolic_trace import needed_nodes

_RANDOM = re.compile(
    "(Stateless)?(Random|Multinomial|TruncatedNormal|Parameterized|Shuffle)|Stateful(Standard|Uniform|Truncated|Random)|Rng"
)
_ASSIGNS = re.compile("Assign|Resource(Apply|Scatter|SparseApply)|LookupTable(Insert|Import)")
# Operators that store, reshape or cast a value, or return its shape. They do not compute numbers.
_HOLDS = re.compile(
    "Cast|Const|ExpandDims|Identity|IdentityN|NoOp|Pack|(Stateful)?PartitionedCall|Placeholder|ReadVariableOp|Reshape|"
    "Shape|Squeeze|StridedSlice"
)
_MOST_CALLS = 20  # the depth of calls within calls: a walk through a recursive function would not end


class GraphView:
    """A `tf.Graph`, serialized once.

    Attributes:
        definition: The `GraphDef`. It is shared: copy it before changing it.
    """

    def __init__(self, graph: Any, layers: Sequence[Any]) -> None:
        """Serializes the graph.

        Args:
            graph: The graph of a concrete function.
            layers: The model that was traced, then every layer in it.
        """
        self._graph = graph
        self.definition = graph.as_graph_def()
        self._results = [tensor.name for tensor in graph.outputs]
        self._model, *self._layers = layers

    def operators(self, results: Iterable[str] | None = None) -> Iterator[tuple[str, str]]:
        """Returns the path and type of every operator, including those of the functions that the graph calls.

        Args:
            results: Names of tensors. If they are passed, only the operators that these tensors depend on are returned.
                Within a called function, these are the operators that the results of the function depend on.
        """
        is_part = results is not None
        functions = {function.signature.name: function for function in self.definition.library.function}

        def walk(nodes: Any, found: Iterable[str], caller: str, depth: int) -> Iterator[tuple[str, str]]:
            kept = needed_nodes(nodes, found) if is_part else {node.name for node in nodes}
            for node in nodes:
                if node.name not in kept:
                    continue
                path = f"{caller}{node.name}"
                yield path, node.op
                called = [attr.func.name for attr in node.attr.values() if attr.func.name]
                called += [func.name for attr in node.attr.values() for func in attr.list.func]
                for name in called if depth < _MOST_CALLS else []:
                    if name in functions:
                        body = functions[name]
                        yield from walk(body.node_def, body.ret.values(), f"{path}/", depth + 1)

        return walk(self.definition.node, results or (), "", 0)

    @cached_property
    def needed(self) -> set[str]:
        """The names of the nodes that an output depends on, without nodes in functions."""
        return needed_nodes(self.definition.node, self._results)

    def depends(self, tensors: Iterable[Any], inputs: Iterable[Any]) -> bool:
        """Returns whether one of the tensors depends on one of the inputs."""
        needed = needed_nodes(self.definition.node, [getattr(tensor, "name", "") for tensor in tensors])
        return not needed.isdisjoint(tensor.op.name for tensor in inputs)

    def random_operators(self, *results: str) -> list[tuple[str, str]]:
        """Returns the path and type of each random operator that one of the tensors, or any output, depends on.

        Unused random operators do not count: some preprocessing layers of Keras draw numbers in inference and drop
        them. An inactive Dropout does not draw numbers.

        Args:
            results: Names of tensors; all outputs by default.
        """
        return [(path, op_type) for path, op_type in self.operators(results or self._results) if _RANDOM.match(op_type)]

    def assigning_operators(self) -> list[tuple[str, str]]:
        """Returns the path and type of each operator that changes a variable or table that an output depends on."""
        nodes = self.definition.node
        unread = {node.name for node in nodes if node.op == "Placeholder"} - self.needed
        harmless = {
            node.name for node in nodes if _ASSIGNS.match(node.op) and node.input[0].partition(":")[0] in unread
        }
        found = ((path, op_type) for path, op_type in self.operators() if _ASSIGNS.match(op_type))
        return [(path, op_type) for path, op_type in found if path not in harmless]

    def place(self, path: str) -> str:
        """Returns the location of an operator in words, such as "layer 'x' (decoder.py, line 31)".

        Without a layer on the path, the model is named. Without user code in the layer, no line is.
        """
        name, line = self.layer(path), self._line(path)
        owner = f"layer {name!r}" if name else f"model {self._model.name!r}"
        return f"{owner} {describe_line(*line)}" if line else owner

    def location(self, path: str) -> dict[str, Any]:
        """Returns the fields of an `ExportError` that name the location of an operator."""
        file, number = self._line(path) or (None, None)
        return {"layer": self.layer(path), "file": file, "line": number}

    def _line(self, path: str) -> tuple[str, int] | None:
        """Returns the file and the line of the user's code that added an operator, or called its function.

        The path may end with the number of an output, as in a LiteRT file.
        """
        path = path.partition(":")[0]
        while path:
            with contextlib.suppress(KeyError):
                return users_line(self._graph.get_operation_by_name(path).traceback, TRACERS)
            path = path.rpartition("/")[0]
        return None

    def layer(self, path: str) -> str | None:
        """Returns the name of the innermost layer on the path of an operator; None if the path has no layer."""
        names = (_layer_name(part, self._layer_names) for part in reversed(path.split("/")))
        return next((name for name in names if name is not None), None)

    def layer_path(self, path: str) -> str:
        """Returns the path of the innermost layer around an operator, without the model's name."""
        return find_layer(path, self._scopes)

    def computing_operators(self, layer: str) -> tuple[str, ...]:
        """Returns the distinct types of the operators that compute numbers in a layer, which is named by its path."""
        within = (op_type for path, op_type in self.operators() if is_within(self.layer_path(path), layer))
        return tuple(dict.fromkeys(op_type for op_type in within if not _HOLDS.fullmatch(op_type)))

    @cached_property
    def layers(self) -> dict[str, Any]:
        """The layers of the model by path, see `layer_paths`."""
        return dict(layer_paths(self._model))

    @cached_property
    def _scopes(self) -> dict[str, str]:
        """The paths of the layers by the paths of their scopes."""
        return layer_scopes(self.layers)

    @cached_property
    def _layer_names(self) -> dict[str, str]:
        """The names of the layers by the names of their scopes."""
        return {scope_name(layer.name): layer.name for layer in self._layers}


def _layer_name(scope: str, names: Mapping[str, str]) -> str | None:
    """Returns the name of the layer of a scope; None if the scope belongs to no layer.

    TensorFlow appends a number to a scope that is opened again. Keras opens each scope at least twice, so `dense_1` may
    be the scope of the layer `dense`.
    """
    return names.get(re.sub(r"_\d+$", "", scope), names.get(scope))


_KEYS = "StatelessRandomGet"  # the first letters of the operators that only prepare a seed
_WITH_SEED = ("StatelessRandomNormalV2", "StatelessRandomUniformV2")
_SEED_ADVICE = "Export it with `seed`='argument', which makes the state of its generator an input and an output. "


def refuse_state_and_randomness(
    view: GraphView,
    signature: Signature,
    outputs: Sequence[str],
    model: str,
    format: Format,
    updated: Sequence[str] = (),
) -> None:
    """Raises UnsupportedError if a call of the model draws random numbers or changes a variable.

    Args:
        view: The traced graph.
        signature: The signature of the model.
        outputs: The names of the graph's output tensors, in the order of the signature's outputs.
        model: The model's name.
        format: The format, for the error.
        updated: Paths of the variables that a call changes without an operator of the graph.
    """
    for path, operator in sorted(view.random_operators(), key=lambda draw: draw[1].startswith(_KEYS)):
        raise UnsupportedError(
            format,
            model,
            f"{view.place(path)} draws random numbers (operator {operator!r}), which no runtime repeats. "
            f"{_SEED_ADVICE if operator in _WITH_SEED else ''}"
            f"Pass the numbers as an input instead{_or_without(view, signature, outputs)}.",
            operator=operator,
            **view.location(path),
        )
    changed = [(path, "Assign", f"variable {path!r} changes with every call") for path in updated]
    changed += [
        (path, operator, f"{view.place(path)} changes a variable") for path, operator in view.assigning_operators()
    ]
    for path, operator, what in changed:
        raise UnsupportedError(
            format,
            model,
            f"{what} (operator {operator!r}), and {format.label} files keep no state. Export it with "
            "`state`='arguments', which makes the state inputs and outputs, or export a SavedModel, which keeps it.",
            operator=operator,
            **view.location(path),
        )


def _or_without(view: GraphView, signature: Signature, outputs: Sequence[str]) -> str:
    """Returns a clause that names the outputs without random numbers; an empty text if there are none."""
    names = [signature.renamed.get(spec.name, spec.name) for spec in signature.outputs]
    free = [name for name, tensor in zip(names, outputs, strict=True) if not view.random_operators(tensor)]
    return f", or export a model that returns {', '.join(map(repr, free))} alone, without them" if free else ""
