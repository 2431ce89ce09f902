"""The usual remedy of each cause, in a sentence."""

from collections.abc import Mapping

from keras_pe.export.results import Cause

_CHANGED_WEIGHT = (
    "Compare the weight in the file with the model's. The weight was changed after the export, or the file is from "
    "another checkpoint. Export the right model again."
)
_CHANGED_CALL = "Rebuild the layer with the reported setting, or export the model again."
_CHANGED_INPUT = "Look at the step before this layer in the file. The step is missing or runs twice."
_MASK = "Pass the mask to the layer in the file, as the model does, or export the model again with keras_pe.export."
_REORDERED = "Look for an added or lost transposition or reshape, such as between channels last and first."
_OUTPUTS = "Name and order the outputs of the file as in the model. keras_pe.export keeps names and order."
_INTERFACE = (
    "If the difference is intended, accept it with the reported option. Otherwise export the model again, or convert "
    "it without changing its inputs and outputs."
)
_QUANTIZED = (
    "If the rounding is intended, accept its precision (--precision), or compare decisions on your data (--data). "
    "Otherwise use the file in float32."
)

_RANGE = (
    "Calibrate the range on rows like those of use, or leave the layer in float (nodes_to_exclude). "
    "TensorQuantOverrides sets the range of one tensor."
)
_LEFT_IN_FLOAT = "Leave the layer in float (nodes_to_exclude), or give the tensor 16 bits (TensorQuantOverrides)."

_NOT_LOADED = (
    "Make sure that the file is complete and from this model, or export the model again. If the runtime lacks an "
    "operator, export with an older opset_version, or use another runtime."
)

REMEDIES: Mapping[Cause, str] = {
    Cause.CRASH: "Try another release of the runtime, or disable its optimizations. Report the crash with the bundle.",
    Cause.HANG: "Allow more time (--timeout). If that does not help, try smaller inputs or another release.",
    Cause.NOT_LOADED: _NOT_LOADED,
    Cause.INVALID_ANSWER: (
        "The method run of the runtime must return a mapping of output names to arrays of numbers or texts."
    ),
    Cause.REFUSED_CASE: "Read the runtime's error or the server's log. The file accepts other inputs than the model.",
    Cause.MISSING_OUTPUT: _OUTPUTS,
    Cause.EXTRA_OUTPUT: _OUTPUTS,
    Cause.RENAMED_OUTPUT: _OUTPUTS,
    Cause.SWAPPED_OUTPUTS: _OUTPUTS,
    Cause.INPUT_RETURNED: "The file lacks the layers between this input and this output. Export the whole model.",
    Cause.OTHER_DTYPE: "Add the cast to the model, or convert the file without changing types.",
    Cause.OTHER_SHAPE: "Look for a dimension that was fixed, squeezed or transposed, and export again.",
    Cause.FALSE_DECLARATION: "The numbers are right. Declare a name for this size of the output, or export again.",
    Cause.MISSING_INPUT: "Compare the file with a model of the same inputs, such as a keras.Model around this one.",
    Cause.EXTRA_INPUT: "Compare the file with a model of the same inputs, such as a keras.Model around this one.",
    Cause.RENAMED_INPUT: _INTERFACE,
    Cause.OTHER_INPUT_TYPE: _INTERFACE,
    Cause.OTHER_IMAGE_LAYOUT: _INTERFACE,
    Cause.DECIDED_OUTPUT: _INTERFACE,
    Cause.NON_DETERMINISM: "Export the model for inference: no dropout, no random layer, no state between calls.",
    Cause.FROZEN_STATE: 'Export with state="arguments" (--state arguments). A file keeps no state between calls.',
    Cause.STATE_NOT_RESET: "Begin each sequence with initial_state. Let the runtime keep no state between calls.",
    Cause.STATE_NOT_CARRIED: "Connect each input of a state, and return the value after the call, not before it.",
    Cause.STATE_OF_ANOTHER_ROW: "Keep the order of the rows in each state, and give each row a state of its own.",
    Cause.SHIFTED_STATE: "Compare the steps that the layer keeps for the next call. One step is missing or redundant.",
    Cause.EXCHANGED_STATES: "Match the states by name, not by order. A cell's output and memory have equal shapes.",
    Cause.WRONG_INITIAL_STATE: "Reset the state of the model and export again. A file records the state at the export.",
    Cause.FROZEN_LENGTH: "Export with None in the input signature where sizes vary.",
    Cause.LENGTH_LIMIT: "Export with a larger max_length, or keep inputs below the limit.",
    Cause.CLAMPED_TABLE: "Give the table as many rows as the longest input, or refuse longer inputs before the model.",
    Cause.DEPENDENCE_ON_BATCH: "Look for an operation over the batch axis, such as a normalization in training mode.",
    Cause.CAST_OUT_OF_RANGE: "Pass values in the reported range, or clip values before the cast.",
    Cause.CAST_INPUT: "Export again with an input of the model's type, and leave out the cast.",
    Cause.GRAPH_OPTIMIZATION: "Disable the optimizations, or use another release. Report the fault with the bundle.",
    Cause.KERAS_ITSELF: "The file is right. Compare it with the compiled model, and report the fault to Keras.",
    Cause.COMPUTED_IN_16_BITS: "Let the runtime compute in float32, or accept the precision with --precision float16.",
    Cause.ZERO_VECTOR: "Run the layer on the CPU, or use another release. Report the fault with the bundle.",
    Cause.WRONG_OPERATOR: "Run the layer on the CPU, or use another release. Report the fault with the bundle.",
    Cause.OTHER_RELEASE: "Use the release that passes. Report the fault to the runtime with the bundle.",
    Cause.SERVED_FILE: "Correct the file first. The server returns the file's outputs.",
    Cause.NOT_A_NUMBER: "Look for a division by zero or an overflow in the reported layer, often in half precision.",
    Cause.MISSING_VALUES: "The file lacks the weight. Load the weight before the export, or look for a changed name.",
    Cause.CHANGED_VALUES: _CHANGED_WEIGHT,
    Cause.SCALED_VALUES: "A scaling is missing or applied twice, such as the square root of the width on embeddings.",
    Cause.OFFSET_VALUES: "An offset is missing or added twice, such as a bias or the mean of the inputs.",
    Cause.CLIPPED_VALUES: "Look for an added or moved limit, such as the limit of ReLU6 or of a range of integers.",
    Cause.FLIPPED_SIGN: "Compare the formula of this layer in the model and in the file.",
    Cause.ROUNDED_VALUES: _QUANTIZED,
    Cause.QUANTIZED_INT8: _QUANTIZED,
    Cause.QUANTIZED_INT4: _QUANTIZED,
    Cause.CLIPPED_RANGE: _RANGE,
    Cause.DEAD_RANGE: _RANGE,
    Cause.OUTLIER_CHANNEL: "Leave the layer in float (nodes_to_exclude), or balance its channels (SmoothQuant).",
    Cause.SHARED_SCALE: "Round each tensor with its own scale, or leave the layer that joins them in float.",
    Cause.TINY_SCALE: _RANGE,
    Cause.UNSIGNED_RANGE: "Use signed integers, or calibrate a zero point inside the range.",
    Cause.CHANNELS_OF_ONE_SCALE: "Give each channel its own scale (per_channel=True).",
    Cause.COARSE_POSITIONS: "Leave the layer that adds or computes the positions in float (nodes_to_exclude).",
    Cause.COARSE_BIAS: "Leave the bias in float, or store it as int32 with the scale of its product.",
    Cause.COARSE_SOFTMAX: _LEFT_IN_FLOAT,
    Cause.COARSE_NORMALIZATION: _LEFT_IN_FLOAT,
    Cause.OTHER_CALIBRATION: "Calibrate on rows like those of use, with the same preprocessing.",
    Cause.HALF_PRECISION: "Disable TF32 and float16 in the runtime, or export in half precision.",
    Cause.TRANSPOSED_AXES: _REORDERED,
    Cause.REVERSED_VALUES: _REORDERED,
    Cause.SHIFTED_ROWS: "Compare the first row of the table or kernel in the model and in the file.",
    Cause.REORDERED_VALUES: _REORDERED,
    Cause.ANOTHER_WEIGHT: "Match the weights by name, not by order.",
    Cause.ADDED_TWICE: "A term was added twice, such as a residual or the positions. Remove one.",
    Cause.START_INDEX_OFF: "Set the encoding's start_index to the model's. Codebases count from 0, 1 or 2.",
    Cause.WRONG_LAYOUT: "Give the encoding the model's layout, or reorder its channels (channel_permutation).",
    Cause.OTHER_CONVENTION: "Use the model's convention (keras_pe.from_convention), or port to the other one.",
    Cause.MISSING_SCALING: "Give the encoding the model's scaling (from_rope_parameters reads it), or export it again.",
    Cause.ROUNDED_RATES: "Keep the rates and the angles in float32. Only the rotated result may have 16 bits.",
    Cause.OTHER_BUCKET: "Use the model's number of buckets and largest distance, and integer thresholds.",
    Cause.OTHER_ACTIVATION: _CHANGED_CALL,
    Cause.USERS_ATTRIBUTE: "Set the attribute of your layer to the model's value, and export again.",
    Cause.OTHER_EPSILON: "Set the epsilon of the normalization to the model's. Frameworks differ in their defaults.",
    Cause.OTHER_AXIS: _CHANGED_CALL,
    Cause.OTHER_PADDING: "Pad as the model does. Frameworks split 'same' padding differently at even sizes.",
    Cause.OTHER_PLACES: "Interpolate at the model's positions: half pixels or corners.",
    Cause.OTHER_DIRECTION: _CHANGED_CALL,
    Cause.OTHER_OPERATION: _CHANGED_CALL,
    Cause.OTHER_ORDER: "Exchange the two steps. The file has them in the other order.",
    Cause.TRAINING_MODE: "Export the model for inference, where a normalization uses its moving statistics.",
    Cause.LAYER_LEFT_OUT: "Put the layer back. A conversion has folded or dropped it.",
    Cause.OPERATION_LEFT_OUT: "Put the operation back. A conversion has folded or dropped it.",
    Cause.OPERATION_ADDED: "Remove the operation. It repeats a step of the layer.",
    Cause.DROPPED_MASK: _MASK,
    Cause.INVERTED_MASK: "Invert the mask. True means 'keep' in Keras, and 'hide' elsewhere.",
    Cause.SHIFTED_MASK: _MASK,
    Cause.WEAK_MASK: "Add a number far below every score, such as -1e9. Larger numbers give hidden positions weight.",
    Cause.DROPPED_CAUSAL_MASK: "Mask later positions: set use_causal_mask, or add the mask to the file.",
    Cause.ADDED_CAUSAL_MASK: "Remove the causal mask. In the model this attention sees the whole sequence.",
    Cause.DROPPED_INPUT: "Connect the reported input. The file does not use it.",
    Cause.OTHER_INPUT: "Connect the layer to the same input as in the model.",
    Cause.EXCHANGED_INPUTS: "Exchange the two inputs. Match inputs by name, not by order.",
    Cause.REPEATED_ROW: "Keep the batch dimension dynamic. The file was traced with a batch of one.",
    Cause.SCALED_INPUT: _CHANGED_INPUT,
    Cause.REVERSED_INPUT: _CHANGED_INPUT,
    Cause.CLIPPED_INPUT: _CHANGED_INPUT,
    Cause.SHIFTED_INPUT: _CHANGED_INPUT,
    Cause.REORDERED_INPUT: _REORDERED,
    Cause.UNKNOWN: "Look at the first layer that differs. Then try other runtimes, optimization levels and inputs.",
}


def remedy(cause: Cause) -> str:
    """Returns the usual remedy of a cause; an open kind of cause has one remedy for all its members."""
    return REMEDIES.get(cause, _QUANTIZED if cause.is_rounding else _CHANGED_CALL)
