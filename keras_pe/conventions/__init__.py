"""The signal layouts of other codebases, and the detection of the layout of a table."""

from keras_pe.conventions.catalogue import CONVENTIONS, convention, from_convention
from keras_pe.conventions.definition import Convention
from keras_pe.conventions.identification.identify import identify
from keras_pe.conventions.identification.match import Grid, Match
from keras_pe.conventions.identify_rotary import RotaryMatch, identify_rotary
from keras_pe.conventions.keras_hub import rotary_from_keras_hub
from keras_pe.conventions.keras_hub_models import convert_keras_hub
from keras_pe.conventions.permutation import channel_permutation, permute_rotary_weights

__all__ = [
    "CONVENTIONS",
    "Convention",
    "Grid",
    "Match",
    "RotaryMatch",
    "channel_permutation",
    "convention",
    "convert_keras_hub",
    "from_convention",
    "identify",
    "identify_rotary",
    "permute_rotary_weights",
    "rotary_from_keras_hub",
]
