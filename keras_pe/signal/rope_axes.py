"""The position axis of each rotary pair: sections of a language model, rows and columns of a vision encoder."""

from collections.abc import Mapping, Sequence
from typing import Any

from keras_pe.argument_errors import ArgValueError
from keras_pe.signal.rope_families import AxialRule, Family


def section_arguments(parameters: Mapping[str, Any], family: Family) -> dict[str, Any]:
    """Returns the arguments of a layer for the `mrope_section` of a configuration, or nothing."""
    sections = parameters.get("mrope_section")
    if (family.deal == "of_channels" and sections) or parameters.get("xdrope_section"):
        name = "mrope_section" if sections else "xdrope_section"
        raise ArgValueError(
            "config",
            f"must be of a model that rotates pairs of channels. Received: {name}={parameters[name]}. "
            "The sections of HunYuan-VL rotate the two channels of a pair by different positions.",
        )
    sections = sections or family.sections
    if not sections:
        return {}
    sections = _whole_numbers("mrope_section", sections)
    if family.deal == "rows_and_columns_first":
        rows, columns, time = sections  # positions are those of the time, the row and the column
        if rows != columns:
            raise ArgValueError(
                "mrope_section",
                "must have as many pairs for rows as for columns, because these pairs alternate. "
                f"Received: mrope_section={list(sections)}.",
            )
        return {"axis_of_pair": (1, 2) * rows + (0,) * time, "shared_rates": True}
    in_turns = family.deal == "in_turns" or parameters.get("mrope_interleaved") or parameters.get("interleaved")
    arguments = {"sections": sections, "shared_rates": True}
    return arguments | ({"interleave_sections": True} if in_turns else {})


def width_arguments(name: str, widths: Any, base: float) -> dict[str, Any]:
    """Returns the arguments of a layer for the channels of each axis, as diffusion transformers list them."""
    widths = _whole_numbers(name, widths)
    if any(width % 2 for width in widths):
        raise ArgValueError(name, f"must have an even number of channels for each axis. Received: {name}={widths}.")
    return {"base": base, "sections": tuple(width // 2 for width in widths)}


def axial_arguments(rule: AxialRule, base: float, head_dim: int) -> dict[str, Any]:
    """Returns the arguments of a layer that turns pairs by rows and pairs by columns.

    Args:
        rule: The rule. The position of the row is the first, whatever stands first among the channels.
        base: Base of the rates; each axis has a sequence of its own, "dealt" deals one sequence out.
        head_dim: Channels of a head.
    """
    axes = 3 if rule == "three" else 2
    pairs = head_dim // (2 * axes)
    if rule != "three" and head_dim % 4:
        raise ArgValueError(
            "head_dim", f"must be a multiple of 4 for rows and columns with equally many pairs. Received: {head_dim=}."
        )
    sections: dict[str, Any] = {"base": base, "sections": (pairs,) * axes}
    if rule == "three":
        return sections | ({} if 6 * pairs == head_dim else {"rotary_dim": 6 * pairs})
    if rule == "dealt":
        scales = [base ** (2 * pair / head_dim) for pair in range(2 * pairs)]
        return {"timescales": scales[0::2] + scales[1::2], "sections": (pairs, pairs)}
    further: dict[str, dict[str, Any]] = {
        "plain": sections,
        "neighbors": {**sections, "layout": "interleaved"},
        "blocks": {**sections, "split_sections": True},
        "columns_first": {"base": base, "axis_of_pair": (1,) * pairs + (0,) * pairs},
        "columns_first_neighbors": {
            "base": base, "axis_of_pair": (1,) * pairs + (0,) * pairs, "layout": "interleaved",
        },
        "alternate": {"base": base, "axis_of_pair": (1, 0) * pairs},
    }  # fmt: skip
    return further[rule]


def _whole_numbers(name: str, listed: Any) -> tuple[int, ...]:
    """Returns the numbers of pairs or channels of each axis, or raises ValueError."""
    is_list = isinstance(listed, Sequence) and not isinstance(listed, str)
    if not is_list or not listed or any(type(each) is not int or each < 1 for each in listed):
        raise ArgValueError(name, f"must be a list of one positive whole number for each axis. Received: {listed!r}.")
    return tuple(listed)
