"""What all tests share: runtimes that are quiet, stay on the CPU, and compute alike on each."""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
# TensorFlow uses it on some processors only, and has a fault without it (docs/upstream.md).
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
