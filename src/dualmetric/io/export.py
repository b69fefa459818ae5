"""A metric for other programs: a NumPy matrix, FAISS, ONNX, torch and sentence-transformers.

FAISS and torch support L, a centre and unit length; ``.npy`` L alone; a layer of
sentence-transformers L and a centre; ONNX also tf-idf, a lift and blocks that are scaled to length
one. Weights of blocks alone become a part of L. A metric with other steps is refused, and the error
names the step.
"""

import json
import os
from functools import reduce
from pathlib import Path
from reprlib import repr as brief
from typing import Any

import numpy as np
from scipy.special import expit

from .._arrays.system import require_memory
from .._types import Array
from ..blocks import Blocks
from ..lift import Lift
from ..metric import Metric
from ._forms import import_extra
from .atomic import replacing, write_atomically

_OPSET = 13  # ONNX of 2020: older than any runtime in use
_IR_VERSION = 7
_LARGEST_ONNX = 2**31 - 2**20  # bytes: protobuf's limit minus room for everything but the numbers


def to_npy(metric: Metric, path: str | os.PathLike[str]) -> None:
    """Write L: the metric is the Euclidean distance between rows of ``X @ numpy.load(path)``.

    Parameters
    ----------
    metric : Metric
        A Euclidean metric without tf-idf or a lift, which a matrix cannot hold.
    path : str or path
        File to write. An existing file is replaced atomically.
    """
    _refuse_first_steps(metric, "a .npy matrix")
    if metric.kind == "cosine" or metric.first.kind == "cosine":
        raise ValueError(
            "a .npy matrix cannot centre rows and scale them to length one, as this metric does "
            "(distance='cosine'): export it to ONNX, FAISS or torch, or keep metric.transform(X)"
        )
    with replacing(path) as file:
        np.save(file, np.ascontiguousarray(_one_factor(metric)), allow_pickle=False)


def to_faiss(metric: Metric, index: Any = None) -> Any:
    """Put the metric in front of a FAISS index, which then takes rows in the original features.

    Parameters
    ----------
    metric : Metric
        A metric without tf-idf or a lift.
    index : faiss.Index, optional
        An index over ``metric.rank`` numbers, by default an ``IndexFlatL2``. It compares by L2, or,
        for a cosine metric, also by inner product.

    Returns
    -------
    faiss.IndexPreTransform
        Train it, add rows to it and search it in float32. FAISS returns squared distances.
    """
    _refuse_first_steps(metric, "FAISS")
    faiss = import_extra("faiss", "faiss")
    if index is None:
        index = faiss.IndexFlatL2(metric.rank)
    if not isinstance(index, faiss.Index):
        raise TypeError(
            f"index must be a FAISS index; got {brief(index)}. To write a file, use "
            "faiss.write_index(to_faiss(metric), path)"
        )
    if index.d != metric.rank:
        raise ValueError(
            f"the index is over vectors of length {index.d}, but this metric has rank "
            f"{metric.rank}: make one of that length"
        )
    if index.metric_type != faiss.METRIC_L2 and metric.kind != "cosine":
        raise ValueError(
            "the index does not compare by L2, as a Euclidean metric needs: make it with "
            "faiss.METRIC_L2"
        )
    steps = []
    for step in _steps(metric):
        if step.factor is not None:
            linear = faiss.LinearTransform(*step.factor.shape)
            faiss.copy_array_to_vector(_float32(step.factor.T, "factor").ravel(), linear.A)
            linear.is_trained = True
            steps.append(linear)
        if step.centre is not None:
            centring = faiss.CenteringTransform(len(step.centre))
            faiss.copy_array_to_vector(_float32(step.centre, "centre"), centring.mean)
            centring.is_trained = True
            steps.append(centring)
        if step.kind == "cosine":
            steps.append(faiss.NormalizationTransform(step.rank))
    result = faiss.IndexPreTransform(index)
    for step in reversed(steps):
        result.prepend_transform(step)
    return result


def to_torch(metric: Metric) -> Any:
    """Return the metric as a torch module, for rows in the precision of its factor.

    Parameters
    ----------
    metric : Metric
        A metric without tf-idf or a lift.

    Returns
    -------
    torch.nn.Linear or torch.nn.Sequential
        Lᵀx without a bias; for a cosine metric, a linear map with the bias −c, then a norm that
        scales rows to length one. Euclidean distances between its outputs are the metric.
    """
    _refuse_first_steps(metric, "torch")
    torch = import_extra("torch", "torch")
    layers: list[Any] = []
    written = [(step, _written_factor(step)) for step in _steps(metric)]
    dtype = np.result_type(*(factor for _, factor in written))
    for step, factor in written:
        weight = torch.from_numpy(np.ascontiguousarray(factor.T, dtype))
        rank, width = weight.shape
        linear = torch.nn.Linear(width, rank, bias=step.centre is not None, dtype=weight.dtype)
        with torch.no_grad():
            linear.weight.copy_(weight)
            if step.centre is not None:
                linear.bias.copy_(torch.from_numpy(-step.centre))
        layers.append(linear)
        if step.kind == "cosine":
            # x/√(mean of squares), √rank times as long as wanted; eps keeps rows of zeros zero
            eps = torch.finfo(weight.dtype).tiny
            norm = torch.nn.RMSNorm(rank, eps=eps, dtype=weight.dtype)
            torch.nn.init.constant_(norm.weight, rank**-0.5).requires_grad_(False)
            layers.append(norm)
    return layers[0] if len(layers) == 1 else torch.nn.Sequential(*layers)


def to_sentence_transformers(metric: Metric, folder: str | os.PathLike[str]) -> None:
    """Write the two files of a ``Dense`` layer of sentence-transformers: Lᵀx, or Lᵀx − c.

    Compare what the layer gives by the Euclidean distance; for a cosine metric, by the cosine.

    Parameters
    ----------
    metric : Metric
        A metric without tf-idf or a lift, which does not scale rows to length one before its last
        step.
    folder : str or path
        Where ``config.json`` and ``model.safetensors`` are written. The folder is made if needed.
    """
    from safetensors.numpy import save as as_bytes

    target = "a Dense layer of sentence-transformers"
    _refuse_first_steps(metric, target)
    if metric.before is not None and metric.before.kind == "cosine":
        raise ValueError(
            f"{target} cannot scale rows to length one between two maps, as this metric does "
            "(before): export it to ONNX or torch"
        )
    tensors = {"linear.weight": _float32(_one_factor(metric).T, "factor")}
    if metric.centre is not None:
        tensors["linear.bias"] = _float32(-metric.centre, "centre")
    config = {
        "in_features": metric.n_features,
        "out_features": metric.rank,
        "bias": metric.centre is not None,
        "activation_function": "torch.nn.modules.linear.Identity",
    }
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / "model.safetensors", as_bytes(tensors, metadata={"format": "pt"}))
    write_atomically(folder / "config.json", (json.dumps(config, indent=4) + "\n").encode())


def to_onnx(metric: Any, path: str | os.PathLike[str]) -> None:
    """Write the metric, with all its steps, as an ONNX model, and check it in onnxruntime.

    Its input ``rows`` is float32 of shape (n, n_features), its output ``vectors`` float32 of shape
    (n, rank). `Metric` refuses negative counts; the model treats them as zero.

    The model of a `Matcher` has a second input ``others``, as many rows, and a second output
    ``probability`` of shape (n, 1): that each row and the corresponding row of the others match.

    Parameters
    ----------
    metric : Metric or Matcher
        Any metric whose numbers take less than 2 GB in float32, or a fitted matcher for one.
    path : str or path
        File to write, only if the model gives the same vectors as the metric. An existing file is
        replaced atomically.
    """
    onnx = import_extra("onnx", "onnx")
    onnxruntime = import_extra("onnxruntime", "onnx")
    matcher = None if isinstance(metric, Metric) else metric
    if matcher is not None and not hasattr(matcher, "calibration_"):
        hint = ": pass its metric_" if hasattr(metric, "metric_") else ""
        found = type(metric).__name__
        raise TypeError(f"metric must be a Metric or a fitted Matcher; got {found}{hint}")
    metric = metric if matcher is None else matcher.metric_
    landmarks = None if metric.first.lift is None else metric.first.lift.landmarks
    arrays = [metric.first.idf, landmarks]
    steps = _steps(metric)
    arrays += [array for step in steps for array in (step.factor, step.centre)]
    size = 4 * sum(array.size for array in arrays if array is not None)
    if size > _LARGEST_ONNX:
        raise ValueError(
            f"an ONNX file can hold less than 2 GB, but this metric takes {size / 1e9:.1f} GB in "
            "float32: reduce it first, with metric.truncate(rank)"
        )
    model = _onnx_model(metric, steps, onnx, matcher)
    onnx.checker.check_model(model)
    content = model.SerializeToString()
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # errors
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    rows = _trial_rows(metric)
    given = {"rows": rows} if matcher is None else {"rows": rows, "others": rows[::-1]}
    found, *more = session.run(None, given)
    expected = metric.transform(rows.astype(float))
    # a lift in float32 may lose digits, in ONNX as in NumPy
    lost = np.abs(metric.transform(rows) - expected).max()
    atol = 1e-4 * np.abs(expected).max() + 10 * lost
    is_right = np.allclose(found, expected, rtol=1e-4, atol=atol)
    if matcher is not None:
        apart = matcher.distance(*(part.astype(float) for part in (rows, rows[::-1])))
        reach = 1e-4 * apart + 2.0 * np.sqrt(expected.shape[1]) * atol
        # the probability never rises with the distance, which is rounded
        low, high = (expit(matcher.log_odds(apart + sign * reach)) for sign in (1.0, -1.0))
        is_right &= bool(((low - 1e-4 <= more[0].ravel()) & (more[0].ravel() <= high + 1e-4)).all())
    if not is_right:
        raise RuntimeError(
            "onnxruntime does not give the same vectors as this metric, so nothing was written: "
            "please report this, with the output of dualmetric doctor"
        )
    write_atomically(path, content)


def _onnx_model(metric: Metric, steps: list[Metric], onnx: Any, matcher: Any = None) -> Any:
    """Build the graph: (tf-idf, unit length) → (blocks) → (lift) → L → (centre, unit length)."""
    graph = _Graph(onnx)
    # of a matcher, all rows go through the same steps, one below the other
    rows = "rows" if matcher is None else graph.add("Concat", "rows", "others", axis=0)
    first = metric.first
    if first.idf is not None:
        held = graph.add("Greater", rows, graph.constant(0.0))
        one = graph.constant(1.0)
        logs = graph.add("Log", graph.add("Where", held, rows, one))
        weights = graph.add("Mul", graph.add("Add", logs, one), graph.constant(first.idf, "idf"))
        rows = graph.unit_length(graph.add("Where", held, weights, graph.constant(0.0)))
    if (blocks := steps[0].blocks) is not None:
        if blocks.are_columns:
            weights = graph.constant(blocks.column_weights(), "block_weights")
            rows = graph.add("Mul", rows, weights)
        else:
            rows = graph.unit_blocks(rows, blocks)
    if first.lift is not None:
        rows = graph.kernel_values(rows, first.lift)
    for step in steps:
        prefix = "" if step is steps[-1] else "before."
        if step.factor is not None:
            rows = graph.add("MatMul", rows, graph.constant(step.factor, f"{prefix}factor"))
        if step.centre is not None:
            rows = graph.add("Sub", rows, graph.constant(step.centre, f"{prefix}centre"))
        if step.kind == "cosine":
            rows = graph.unit_length(rows)
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    inputs = [helper.make_tensor_value_info("rows", kind, ["n", metric.n_features])]
    outputs = [helper.make_tensor_value_info("vectors", kind, ["n", metric.rank])]
    if matcher is None:
        graph.add("Identity", rows, output="vectors")
    else:
        inputs.append(helper.make_tensor_value_info("others", kind, ["n", metric.n_features]))
        outputs.append(helper.make_tensor_value_info("probability", kind, ["n", 1]))
        graph.nodes.append(helper.make_node("Split", [rows], ["vectors", "other_vectors"], axis=0))
        apart = graph.add("Sub", "vectors", "other_vectors")
        graph.probability(graph.add("ReduceL2", apart, axes=[1], keepdims=1), matcher)
    return helper.make_model(
        helper.make_graph(
            graph.nodes,
            "dualmetric",
            inputs,
            outputs,
            graph.constants,
        ),
        producer_name="dualmetric",
        ir_version=_IR_VERSION,
        opset_imports=[helper.make_opsetid("", _OPSET)],
    )


class _Graph:
    """Nodes of an ONNX graph, each named by its place."""

    def __init__(self, onnx: Any) -> None:
        self.onnx = onnx
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def add(self, kind: str, *inputs: str, output: str | None = None, **attributes: Any) -> str:
        output = output or f"{kind.lower()}_{len(self.nodes)}"
        node = self.onnx.helper.make_node(kind, list(inputs), [output], **attributes)
        self.nodes.append(node)
        return output

    def constant(self, value: Any, name: str | None = None) -> str:
        name = name or f"constant_{len(self.constants)}"
        array = _float32(np.asarray(value), name)
        self.constants.append(self.onnx.numpy_helper.from_array(array, name))
        return name

    def probability(self, distances: str, matcher: Any) -> None:
        """The probability of a match, as the output of that name."""
        form, table = matcher.calibration_
        scale = float(matcher.odds_scale_)
        if form != "isotonic":
            if form == "squared":
                distances = self.add("Mul", distances, distances)
            slopes = self.add("Mul", distances, self.constant(table[0, 1], "slope"))
            odds = self.add("Add", slopes, self.constant(table[0, 0] + np.log(scale), "intercept"))
            self.add("Sigmoid", odds, output="probability")
            return
        # linear between the distances of the table: each part adds its share of a step down
        widths, steps = np.diff(table, axis=0).T if len(table) > 1 else np.array([[1.0], [0.0]])
        starts = self.constant(table[: len(widths), 0], "starts")
        parts = self.add("Relu", self.add("Sub", distances, starts))
        parts = self.add("Div", parts, self.constant(widths, "widths"))
        parts = self.add("Min", parts, self.constant(1.0))
        total = self.add("MatMul", parts, self.constant(steps[:, None], "steps"))
        share = self.add("Add", total, self.constant(table[0, 1], "first"))
        one, scaled = self.constant(1.0), self.add("Mul", share, self.constant(scale, "scale"))
        rest = self.add("Add", self.add("Sub", one, share), scaled)
        self.add("Div", scaled, rest, output="probability")

    def kernel_values(self, rows: str, lift: Lift) -> str:
        """Kernel values with landmarks: exp(−‖x − z‖²), where √γ is the unit of length."""
        # this unit keeps squares in the range of float32, and an origin amid them their digits
        unit = lift.gamma**0.5
        landmarks = lift.landmarks.astype(np.float64)
        origin = landmarks.mean(axis=0).astype(np.float32)
        landmarks = unit * (landmarks - origin)
        squares = np.einsum("ij,ij->i", landmarks, landmarks)
        rows = self.add("Sub", rows, self.constant(origin, "origin"))
        rows = self.add("Mul", rows, self.constant(unit, "unit"))
        products = self.add("MatMul", rows, self.constant(-2 * landmarks.T, "landmarks"))
        lengths = self.add("ReduceSumSquare", rows, axes=[1], keepdims=1)
        distances = self.add("Add", products, self.constant(squares, "squares"))
        distances = self.add("Relu", self.add("Add", distances, lengths))
        return self.add("Exp", self.add("Neg", distances))

    def unit_blocks(self, rows: str, blocks: Blocks) -> str:
        """Scale each block to length one and weigh it; blocks of zeros stay zero."""
        rows = self.unit_length(rows)
        members = (blocks.of[:, None] == np.arange(len(blocks.weights))).astype(np.float64)
        squares = self.add("MatMul", self.add("Mul", rows, rows), self.constant(members, "blocks"))
        zero, one = self.constant(0.0), self.constant(1.0)
        lengths = self.add("Sqrt", squares)
        lengths = self.add("Where", self.add("Greater", lengths, zero), lengths, one)
        weights = self.constant(np.sqrt(blocks.weights), "block_weights")
        sizes = self.add("Div", weights, lengths)
        return self.add("Mul", rows, self.add("MatMul", sizes, self.constant(members.T)))

    def unit_length(self, rows: str) -> str:
        """Scale to length one; rows of zeros stay zero."""
        # rows are divided by their largest number first: squares of float32 may leave its range
        zero, one = self.constant(0.0), self.constant(1.0)
        peaks = self.add("ReduceMax", self.add("Abs", rows), axes=[1], keepdims=1)
        peaks = self.add("Where", self.add("Greater", peaks, zero), peaks, one)
        rows = self.add("Div", rows, peaks)
        # one number of the row is now ±1, unless all are zero
        lengths = self.add("ReduceL2", rows, axes=[1], keepdims=1)
        return self.add("Div", rows, self.add("Max", lengths, one))


def _trial_rows(metric: Metric) -> Array:
    """A few random rows of the kind that the metric takes, and one of zeros."""
    rng = np.random.default_rng(0)
    shape = (4, metric.n_features)
    first = metric.first
    rows: Array
    if first.idf is not None:
        rows = rng.poisson(1.0, shape)
    elif first.lift is not None:  # far from all landmarks, kernel values are zero
        pairs = rng.integers(len(first.lift.landmarks), size=(2, 4))
        rows = first.lift.landmarks[pairs].mean(axis=0)
    else:
        rows = rng.standard_normal(shape)
    rows[-1] = 0
    return rows.astype(np.float32)


def _steps(metric: Metric) -> list[Metric]:
    """Steps with written factors, which hold the weights of blocks unless these are scaled."""
    steps = metric.steps()
    first = steps[0]
    if first.blocks is None or first.lift is not None:
        return steps
    if first.kind == "cosine" and not first.blocks.are_columns:
        return steps
    factor = first.blocks.column_weights()[:, None] * _written_factor(first)
    return [first.replaced(factor=factor, blocks=None), *steps[1:]]


def _one_factor(metric: Metric) -> Array:
    """The product of the factors of all steps."""
    factors = [_written_factor(step) for step in _steps(metric) if step.factor is not None]
    return reduce(np.matmul, factors) if factors else _written_factor(metric)


def _written_factor(metric: Metric) -> Array:
    """L, written out if it is the identity."""
    if metric.factor is not None:
        return metric.factor
    d = metric.rank
    require_memory(
        8 * d * d,
        f"the identity over {d:,} features, written out,",
        "This metric leaves rows unchanged: do without it.",
    )
    return np.eye(d)


def _float32(array: Array, name: str) -> Array:
    """Array in float32, contiguous; refused where that precision cannot hold it."""
    peak = float(np.abs(array).max())
    if peak and not 1e-15 < peak < 1e15:  # squares must fit, too
        raise ValueError(
            f"the {name} of this metric has numbers as large as {peak:.1e}, whose squares are out "
            "of the range of float32: rescale the rows, and fit again"
        )
    return np.ascontiguousarray(array, dtype=np.float32)


def _refuse_first_steps(metric: Metric, target: str) -> None:
    """Refuse the steps before L, and what is not a metric."""
    if not isinstance(metric, Metric):
        hint = ": pass its metric_" if hasattr(metric, "metric_") else ""
        raise TypeError(f"metric must be a Metric; got {type(metric).__name__}{hint}")
    blocks = metric.first.blocks
    if blocks is not None and metric.first.kind == "cosine" and not blocks.are_columns:
        raise ValueError(
            f"{target} cannot scale blocks of features to length one, as this metric does "
            "(blocks): export it to ONNX, or pass metric.transform(X) instead of X"
        )
    works = {"idf": "weight counts by tf-idf", "lift": "compute kernel values with landmarks"}
    for step, work in works.items():
        if getattr(metric.first, step) is not None:
            raise ValueError(
                f"{target} cannot {work}, as this metric does ({step}): export it to ONNX, or pass "
                "metric.transform(X) instead of X"
            )
