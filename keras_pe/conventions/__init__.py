"""How other codebases lay the signal out, and which one made a given table. NumPy only; Keras for a layer."""

from keras_pe.conventions.catalogue import CONVENTIONS as CONVENTIONS
from keras_pe.conventions.catalogue import Convention as Convention
from keras_pe.conventions.catalogue import convention as convention
from keras_pe.conventions.catalogue import from_convention as from_convention
from keras_pe.conventions.identification.match import Match as Match
from keras_pe.conventions.identification.match import identify as identify
from keras_pe.conventions.permutation import channel_permutation as channel_permutation
