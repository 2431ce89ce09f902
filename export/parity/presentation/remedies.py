"""The usual remedy of each cause, in a sentence."""

from collections.abc import Mapping

from keras_pe.export.results import Cause

_CHANGED_WEIGHT = (
    "Compare the weight in the file with the model's: it was changed after the export, or the file is of another "
    "checkpoint. Export again from the model that is meant."
)
_CHANGED_CALL = "Rebuild the layer with the setting that is named, or export the model again."
_CHANGED_INPUT = "Look at what feeds this layer in the file: the step before it was left out or done twice."
_MASK = "Pass the mask on in the file as the model does, or export the model again: masks travel with the layers here."
_REORDERED = "Look for a transposition or a reshape that was added or lost, such as between channels last and first."
_OUTPUTS = "Give the outputs of the file the model's names, in the model's order: keras_pe.export keeps both."
_INTERFACE = (
    "If that was meant, accept it with the option that is named; if not, export the model again, or convert it without "
    "changing its inputs and outputs."
)
_QUANTIZED = (
    "If that was meant, accept its precision (--precision) or judge it by its decisions on your data (--data); if not, "
    "take the file in float32."
)

_NOT_LOADED = (
    "Make sure that the file is whole and of this model, and export it again; else for this runtime, with an older "
    "opset_version, or take a runtime that knows the operator named."
)

REMEDIES: Mapping[Cause, str] = {
    Cause.CRASH: "Try another release of the runtime, or its optimizations off; report it there with the bundle.",
    Cause.HANG: "Give it more time (--timeout); if that does not help, try smaller inputs or another release.",
    Cause.NOT_LOADED: _NOT_LOADED,
    Cause.INVALID_ANSWER: (
        "Let the method run of the runtime return a mapping of output names to arrays of numbers or texts."
    ),
    Cause.REFUSED_CASE: "Read what the runtime says, and the log of a server: it takes other inputs than the model.",
    Cause.MISSING_OUTPUT: _OUTPUTS,
    Cause.EXTRA_OUTPUT: _OUTPUTS,
    Cause.RENAMED_OUTPUT: _OUTPUTS,
    Cause.SWAPPED_OUTPUTS: _OUTPUTS,
    Cause.INPUT_RETURNED: "The file leaves out what lies between: export the whole model, not a part of it.",
    Cause.OTHER_DTYPE: "Add the cast to the model, or convert the file without changing types.",
    Cause.OTHER_SHAPE: "Look for a dimension that was fixed, squeezed or transposed on the way, and export again.",
    Cause.FALSE_DECLARATION: "The numbers are right: name this dimension of the output in the file, or export again.",
    Cause.MISSING_INPUT: "Compare the file with a model that takes the same inputs: keras.Model around this one.",
    Cause.EXTRA_INPUT: "Compare the file with a model that takes the same inputs: keras.Model around this one.",
    Cause.RENAMED_INPUT: _INTERFACE,
    Cause.OTHER_INPUT_TYPE: _INTERFACE,
    Cause.OTHER_IMAGE_LAYOUT: _INTERFACE,
    Cause.DECIDED_OUTPUT: _INTERFACE,
    Cause.NON_DETERMINISM: "Export the model for inference: no dropout, no random layer, no state between calls.",
    Cause.FROZEN_STATE: "Make the state an input and an output of the model: a file keeps none from call to call.",
    Cause.FROZEN_LENGTH: "Export with None in the input signature where sizes vary.",
    Cause.LENGTH_LIMIT: "Export with a larger max_length, or keep inputs below the limit.",
    Cause.CLAMPED_TABLE: "Give the table as many rows as the longest input, or refuse longer inputs before the model.",
    Cause.DEPENDENCE_ON_BATCH: "Look for an operation over the batch axis, such as a normalization in training mode.",
    Cause.CAST_OUT_OF_RANGE: "Give the values that the model takes, as the line says, or clip them before the cast.",
    Cause.GRAPH_OPTIMIZATION: "Run with the optimizations off, or with another release; report it with the bundle.",
    Cause.KERAS_ITSELF: "The file is right: compare with the compiled model, and report it to Keras.",
    Cause.OTHER_RELEASE: "Use the release that passes, and report it to the runtime with the bundle.",
    Cause.SERVED_FILE: "Mend the file first: the server returns what the file says.",
    Cause.NOT_A_NUMBER: "Look for a division by zero or an overflow at the layer named, in half precision above all.",
    Cause.MISSING_VALUES: "The weight did not arrive: load it before the export, or look for a name that has changed.",
    Cause.CHANGED_VALUES: _CHANGED_WEIGHT,
    Cause.SCALED_VALUES: "A scaling was lost or done twice, such as the square root of the width on embeddings.",
    Cause.OFFSET_VALUES: "An offset was lost or added twice, such as a bias or the mean of the inputs.",
    Cause.CLIPPED_VALUES: "Look for a limit that was added or moved, such as that of ReLU6 or of a range for integers.",
    Cause.FLIPPED_SIGN: "A sign was turned on the way: compare the formula of this layer in both.",
    Cause.ROUNDED_VALUES: _QUANTIZED,
    Cause.QUANTIZED_INT8: _QUANTIZED,
    Cause.QUANTIZED_INT4: _QUANTIZED,
    Cause.HALF_PRECISION: "Run in float32: turn TF32 and float16 off in the runtime, or export in half precision.",
    Cause.TRANSPOSED_AXES: _REORDERED,
    Cause.REVERSED_VALUES: _REORDERED,
    Cause.SHIFTED_ROWS: "Rows are off by some: compare where the table or the kernel begins in both.",
    Cause.REORDERED_VALUES: _REORDERED,
    Cause.ANOTHER_WEIGHT: "Two weights were mixed up: match them by name, not by order.",
    Cause.ADDED_TWICE: "A term was added twice, such as a residual or the positions: leave one out.",
    Cause.START_INDEX_OFF: "Give the encoding the model's start_index: codebases count from 0, 1 or 2.",
    Cause.WRONG_LAYOUT: "Give the encoding the model's layout, or reorder its channels (channel_permutation).",
    Cause.OTHER_CONVENTION: "Take the model's convention (keras_pe.from_convention), or port the model to this one.",
    Cause.MISSING_SCALING: "Give the encoding the model's scaling (from_rope_parameters reads it), or export it again.",
    Cause.ROUNDED_RATES: "Keep the rates and the angles in float32: only the rotated result may be of 16 bits.",
    Cause.OTHER_BUCKET: "Take the model's number of buckets and farthest distance, and thresholds of whole numbers.",
    Cause.OTHER_ACTIVATION: _CHANGED_CALL,
    Cause.USERS_ATTRIBUTE: "Set the attribute of your own layer to the value that the model has, and export it again.",
    Cause.OTHER_EPSILON: "Set the epsilon of the normalization to the model's: frameworks differ in their defaults.",
    Cause.OTHER_AXIS: _CHANGED_CALL,
    Cause.OTHER_PADDING: "Pad as the model does: frameworks split 'same' padding differently at even sizes.",
    Cause.OTHER_PLACES: "Interpolate at the same places: half pixels or corners, as the model's resizing says.",
    Cause.OTHER_DIRECTION: _CHANGED_CALL,
    Cause.OTHER_OPERATION: _CHANGED_CALL,
    Cause.OTHER_ORDER: "Exchange the two steps: in the file they stand the other way round.",
    Cause.TRAINING_MODE: "Export the model for inference: a normalization uses its moving statistics there.",
    Cause.LAYER_LEFT_OUT: "Put the layer back: a conversion has folded or dropped it.",
    Cause.OPERATION_LEFT_OUT: "Put the operation back: a conversion has folded or dropped it.",
    Cause.OPERATION_ADDED: "Leave the operation out: what the layer does by itself was done once more after it.",
    Cause.DROPPED_MASK: _MASK,
    Cause.INVERTED_MASK: "Invert the mask: true means keep in Keras, and leave out elsewhere.",
    Cause.SHIFTED_MASK: _MASK,
    Cause.WEAK_MASK: "Hide with a number far below every score, such as -1e9: others leave weight to what is hidden.",
    Cause.DROPPED_CAUSAL_MASK: "Mask what comes later: set use_causal_mask, or give the mask to the file.",
    Cause.ADDED_CAUSAL_MASK: "Leave the causal mask out: this attention sees the whole sequence in the model.",
    Cause.DROPPED_INPUT: "Connect the input that is named: the file goes without it.",
    Cause.OTHER_INPUT: "Connect the layer to the input that the model gives it.",
    Cause.EXCHANGED_INPUTS: "Exchange the two inputs: match them by name, not by order.",
    Cause.REPEATED_ROW: "Leave the batch dimension free: the file was traced with a batch of one.",
    Cause.SCALED_INPUT: _CHANGED_INPUT,
    Cause.REVERSED_INPUT: _CHANGED_INPUT,
    Cause.CLIPPED_INPUT: _CHANGED_INPUT,
    Cause.SHIFTED_INPUT: _CHANGED_INPUT,
    Cause.REORDERED_INPUT: _REORDERED,
    Cause.UNKNOWN: "Narrow it down: the first layer that differs, other runtimes and levels, your own inputs.",
}


def remedy(cause: Cause) -> str:
    """Returns the usual remedy of a cause; an open kind of cause has one remedy for all its members."""
    return REMEDIES.get(cause, _QUANTIZED if cause.is_rounding else _CHANGED_CALL)
