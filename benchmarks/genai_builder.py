"""Builds a random Llama by the builder of onnxruntime-genai, in a Python that has PyTorch and transformers.

    python -P benchmarks/genai_builder.py FOLDER SIZES

SIZES is JSON with the arguments of `transformers.LlamaConfig`.
"""

import json
import subprocess
import sys
import tempfile

import transformers
from tokenizers import Tokenizer
from tokenizers.models import WordLevel


def main() -> None:
    """Writes the folder, in float32 for the CPU."""
    folder, sizes = sys.argv[1], json.loads(sys.argv[2])
    config = transformers.LlamaConfig(**sizes, bos_token_id=1, eos_token_id=0, pad_token_id=0)
    words = {str(token): token for token in range(config.vocab_size)}
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=Tokenizer(WordLevel(words, "0")), unk_token="0")
    with tempfile.TemporaryDirectory() as saved:
        transformers.LlamaForCausalLM(config).save_pretrained(saved)
        tokenizer.save_pretrained(saved)  # the builder copies it
        options = {"i": saved, "o": folder, "p": "fp32", "e": "cpu", "c": saved}
        given = [each for name, value in options.items() for each in (f"-{name}", value)]
        subprocess.run([sys.executable, "-P", "-m", "onnxruntime_genai.models.builder", *given], check=True)


if __name__ == "__main__":
    main()
