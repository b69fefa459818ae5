"""The paper's own numbers, from its Tables 1, 2 and 3."""

from typing import NamedTuple


class Value(NamedTuple):
    """A mean and, where the paper gives one, its standard deviation."""

    mean: float
    spread: float | None = None


# classes, features, training rows, test rows
STATISTICS = {
    "usps": (10, 256, 7291, 2007),
    "protein": (3, 357, 17766, 6621),
    "caltech30": (30, 1000, 5502, 2355),
    "tdt30": (30, 1000, 6575, 2819),
    "20news": (20, 1000, 15935, 3993),
    "rcv30": (30, 1000, 507585, 15195),
}

# CPU time, in minutes
MINUTES = {
    "usps": {
        "DuOri": Value(77.0, 3.2),
        "DuRP": Value(0.3, 0.0),
        "OASIS": Value(6.2, 0.2),
        "SRP": Value(0.2, 0.0),
        "SPCA": Value(0.2, 0.0),
        "LMNN": Value(14.2),
    },
    "protein": {
        "DuOri": Value(214.5, 5.8),
        "DuRP": Value(0.6, 0.0),
        "OASIS": Value(81.9, 3.3),
        "SRP": Value(0.2, 0.0),
        "SPCA": Value(0.2, 0.0),
        "LMNN": Value(488.9),
    },
    "caltech30": {
        "DuOri": Value(1214.5, 229.5),
        "DuRP": Value(1.3, 0.0),
        "OASIS": Value(640.4, 121.2),
        "SRP": Value(0.2, 0.0),
        "SPCA": Value(0.5, 0.0),
        "LMNN": Value(2197.9),
    },
    "tdt30": {
        "DuOri": Value(1029.9, 16.8),
        "DuRP": Value(0.8, 0.0),
        "OASIS": Value(140.8, 4.5),
        "SRP": Value(0.2, 0.0),
        "SPCA": Value(0.4, 0.0),
        "LMNN": Value(624.2),
    },
    "20news": {
        "DuOri": Value(1212.9, 154.3),
        "DuRP": Value(1.0, 0.0),
        "OASIS": Value(216.3, 48.8),
        "SRP": Value(0.2, 0.0),
        "SPCA": Value(0.5, 0.0),
        "LMNN": Value(1893.6),
    },
    "rcv30": {
        "DuOri": Value(1121.3, 79.4),
        "DuRP": Value(1.3, 0.0),
        "OASIS": Value(432.5, 7.7),
        "SRP": Value(0.2, 0.0),
        "SPCA": Value(4.2, 0.0),
    },
}

# mean average precision, in per cent
MAP = {
    "usps": {
        "Euclid": Value(53.6),
        "DuOri": Value(67.7, 1.7),
        "DuRP": Value(67.1, 1.2),
        "OASIS": Value(62.5, 0.5),
        "SRP": Value(32.6, 5.4),
        "SPCA": Value(41.6, 0.4),
        "LMNN": Value(59.8),
    },
    "protein": {
        "Euclid": Value(39.0),
        "DuOri": Value(47.0, 0.1),
        "DuRP": Value(49.1, 0.1),
        "OASIS": Value(45.7, 0.1),
        "SRP": Value(37.7, 0.1),
        "SPCA": Value(41.9, 0.1),
        "LMNN": Value(41.9),
    },
    "caltech30": {
        "Euclid": Value(16.4),
        "DuOri": Value(23.8, 0.1),
        "DuRP": Value(25.5, 0.1),
        "OASIS": Value(25.4, 0.2),
        "SRP": Value(8.1, 0.4),
        "SPCA": Value(19.5, 0.0),
        "LMNN": Value(16.3),
    },
    "tdt30": {
        "Euclid": Value(36.8),
        "DuOri": Value(65.9, 0.2),
        "DuRP": Value(69.4, 0.3),
        "OASIS": Value(55.9, 0.1),
        "SRP": Value(11.2, 0.3),
        "SPCA": Value(49.7, 0.2),
        "LMNN": Value(66.4),
    },
    "20news": {
        "Euclid": Value(8.4),
        "DuOri": Value(20.1, 0.2),
        "DuRP": Value(24.9, 0.3),
        "OASIS": Value(16.2, 0.1),
        "SRP": Value(5.3, 0.1),
        "SPCA": Value(12.2, 0.1),
        "LMNN": Value(22.5),
    },
    "rcv30": {
        "Euclid": Value(16.7),
        "DuOri": Value(65.7, 0.1),
        "DuRP": Value(63.2, 0.2),
        "OASIS": Value(68.6, 0.1),
        "SRP": Value(12.8, 0.4),
        "SPCA": Value(46.5, 0.0),
    },
}

# the paper's set beside which each of ours is shown; digits and the extra sets have none
COUNTERPART = {
    "usps": "usps",
    "protein": "protein",
    "protein_val": "protein",
    "caltech30": "caltech30",
    "caltech101_top30_bovw": "caltech30",
    "tdt30": "tdt30",
    "20news": "20news",
    "20news_libsvm": "20news",
    "20news_bydate": "20news",
    "rcv30": "rcv30",
    "rcv1_7class": "rcv30",
}
