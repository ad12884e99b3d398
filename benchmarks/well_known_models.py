"""The trained variables of ten well-known models, in the order in which their usual programs create
them, as (name, shape)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

Shapes = Iterator[tuple[str, tuple[int, ...]]]


def _dense(name: str, inputs: int, outputs: int) -> Shapes:
    yield f"{name}/kernel", (inputs, outputs)
    yield f"{name}/bias", (outputs,)


def _norm(name: str, width: int) -> Shapes:
    yield f"{name}/gamma", (width,)
    yield f"{name}/beta", (width,)


def _conv(name: str, size: int, inputs: int, outputs: int, *, bias: bool = False) -> Shapes:
    """With batch normalization, or with a bias."""
    yield f"{name}/kernel", (size, size, inputs, outputs)
    if bias:
        yield f"{name}/bias", (outputs,)
    else:
        yield from _norm(f"{name}/norm", outputs)


def alexnet() -> Shapes:
    """Krizhevsky 2012, one tower: 61 M."""
    for index, (size, inputs, outputs) in enumerate(
        ((11, 3, 96), (5, 48, 256), (3, 256, 384), (3, 192, 384), (3, 192, 256))
    ):
        yield from _conv(f"conv{index}", size, inputs, outputs, bias=True)
    for index, (inputs, outputs) in enumerate(((9216, 4096), (4096, 4096), (4096, 1000))):
        yield from _dense(f"fc{index}", inputs, outputs)


def vgg16() -> Shapes:
    """Simonyan 2014: 138 M, three quarters of them in one matrix."""
    inputs = 3
    for index, outputs in enumerate(
        (64, 64, 128, 128, 256, 256, 256, 512, 512, 512, 512, 512, 512)
    ):
        yield from _conv(f"conv{index}", 3, inputs, outputs, bias=True)
        inputs = outputs
    for index, (rows, columns) in enumerate(((25088, 4096), (4096, 4096), (4096, 1000))):
        yield from _dense(f"fc{index}", rows, columns)


def resnet50() -> Shapes:
    """He 2015: 25.6 M."""
    yield from _conv("stem", 7, 3, 64)
    inputs = 64
    for stage, (blocks, width) in enumerate(((3, 64), (4, 128), (6, 256), (3, 512))):
        for block in range(blocks):
            name = f"stage{stage}/block{block}"
            if block == 0:
                yield from _conv(f"{name}/shortcut", 1, inputs, 4 * width)
            yield from _conv(f"{name}/a", 1, inputs, width)
            yield from _conv(f"{name}/b", 3, width, width)
            yield from _conv(f"{name}/c", 1, width, 4 * width)
            inputs = 4 * width
    yield from _dense("logits", 2048, 1000)


def mobilenet_v2() -> Shapes:
    """Sandler 2018: 3.5 M."""
    yield from _conv("stem", 3, 3, 32)
    inputs, number = 32, 0
    for expand, outputs, repeats in (
        (1, 16, 1),
        (6, 24, 2),
        (6, 32, 3),
        (6, 64, 4),
        (6, 96, 3),
        (6, 160, 3),
        (6, 320, 1),
    ):
        for _ in range(repeats):
            wide = inputs * expand
            if expand > 1:
                yield from _conv(f"block{number}/expand", 1, inputs, wide)
            yield f"block{number}/depthwise/kernel", (3, 3, wide, 1)
            yield from _norm(f"block{number}/depthwise/norm", wide)
            yield from _conv(f"block{number}/project", 1, wide, outputs)
            inputs, number = outputs, number + 1
    yield from _conv("head", 1, 320, 1280)
    yield from _dense("logits", 1280, 1000)


def densenet121() -> Shapes:
    """Huang 2016: 8 M."""
    yield from _conv("stem", 7, 3, 64)
    width = 64
    for stage, layers in enumerate((6, 12, 24, 16)):
        for layer in range(layers):
            yield from _norm(f"stage{stage}/layer{layer}/norm", width)
            yield from _conv(f"stage{stage}/layer{layer}/a", 1, width, 128)
            yield f"stage{stage}/layer{layer}/b/kernel", (3, 3, 128, 32)
            width += 32
        if stage < 3:
            yield from _norm(f"transition{stage}/norm", width)
            yield f"transition{stage}/kernel", (1, 1, width, width // 2)
            width //= 2
    yield from _norm("norm", width)
    yield from _dense("logits", width, 1000)


def _transformer(name: str, layers: int, width: int, inner: int) -> Shapes:
    for layer in range(layers):
        for part in ("query", "key", "value", "output"):
            yield from _dense(f"{name}/layer{layer}/{part}", width, width)
        yield from _norm(f"{name}/layer{layer}/norm0", width)
        yield from _dense(f"{name}/layer{layer}/inner", width, inner)
        yield from _dense(f"{name}/layer{layer}/outer", inner, width)
        yield from _norm(f"{name}/layer{layer}/norm1", width)


def bert_base() -> Shapes:
    """Devlin 2018: 110 M."""
    for name, rows in (("words", 30522), ("types", 2), ("positions", 512)):
        yield f"embeddings/{name}", (rows, 768)
    yield from _norm("embeddings/norm", 768)
    yield from _transformer("encoder", 12, 768, 3072)
    yield from _dense("pooler", 768, 768)


def gpt2() -> Shapes:
    """Radford 2019, the smallest: 124 M."""
    yield "embeddings/positions", (1024, 768)
    yield "embeddings/words", (50257, 768)
    yield from _transformer("decoder", 12, 768, 3072)
    yield from _norm("norm", 768)


def transformer_big() -> Shapes:
    """Vaswani 2017, with one table for both languages and the logits: about 200 M."""
    yield "embeddings", (37000, 1024)
    yield from _transformer("encoder", 6, 1024, 4096)
    for layer in range(6):
        yield from _transformer(f"decoder/{layer}", 1, 1024, 4096)
        for part in ("query", "key", "value", "output"):
            yield from _dense(f"decoder/{layer}/cross/{part}", 1024, 1024)
        yield from _norm(f"decoder/{layer}/cross/norm", 1024)


def big_lstm() -> Shapes:
    """Jozefowicz 2016 for the One Billion Word benchmark, LSTM-2048-512: two tables of 793,470
    words."""
    yield "embeddings", (793470, 512)
    yield "lstm/kernel", (512 + 512, 4 * 2048)
    yield "lstm/bias", (4 * 2048,)
    yield "lstm/projection", (2048, 512)
    yield "softmax/weights", (793470, 512)
    yield "softmax/biases", (793470,)


# fmt: off
_CRITEO = (
    1460, 583, 10131227, 2202608, 305, 24, 12517, 633, 3, 93145, 5683, 8351593, 3194, 27, 14992,
    5461306, 10, 5652, 2173, 4, 7046547, 18, 15, 286181, 105, 142572,
)
# fmt: on


def dlrm() -> Shapes:
    """Naumov 2019 for the Criteo Kaggle data, width 16: 541 M, in 26 tables of 3 to 10 million
    rows."""
    for index, (inputs, outputs) in enumerate(((13, 512), (512, 256), (256, 64), (64, 16))):
        yield from _dense(f"bottom{index}", inputs, outputs)
    for index, rows in enumerate(_CRITEO):
        yield f"table{index}", (rows, 16)
    for index, (inputs, outputs) in enumerate(((367, 512), (512, 256), (256, 1))):
        yield from _dense(f"top{index}", inputs, outputs)


MODELS: Mapping[str, Callable[[], Shapes]] = {
    "AlexNet": alexnet,
    "VGG-16": vgg16,
    "ResNet-50": resnet50,
    "MobileNetV2": mobilenet_v2,
    "DenseNet-121": densenet121,
    "BERT base": bert_base,
    "GPT-2 small": gpt2,
    "Transformer big": transformer_big,
    "big LSTM": big_lstm,
    "DLRM": dlrm,
}
