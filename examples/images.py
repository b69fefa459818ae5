"""Images: pixels as features, beside linear discriminant analysis.

The data are usps (16 × 16 pixels) if it is in DUALMETRIC_DATA, otherwise scikit-learn's digits
(8 × 8).
"""

from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from dualmetric import DuRP, Euclidean, knn_accuracy, mean_average_precision
from dualmetric.datasets import available, load_dataset

data = load_dataset("usps" if available("usps") else "digits")
print(f"{data.name}: {len(data.X_train):,} rows to learn from, {data.X_train.shape[1]} pixels")

methods = {
    "plain Euclidean distance": Euclidean(),
    "plain cosine": Euclidean(distance="cosine"),
    "LDA": LinearDiscriminantAnalysis(solver="eigen", shrinkage=0.1),
    "DuRP, the paper's": DuRP(random_state=1),
    "DuRP, whitened, cosine": DuRP(
        n_projections=50, shrinkage=0.3, distance="cosine", random_state=1
    ),
    "DuRP, from neighbours": DuRP(
        n_projections=50, shrinkage=0.3, sampler="neighbors", distance="cosine", random_state=1
    ),
    "DuRP, lifted": DuRP(
        lift="rbf",  # no longer linear in the pixels
        shrinkage=0.03,
        n_components=9,
        power=0.0,
        distance="cosine",
        random_state=1,
    ),
}
for name, method in methods.items():
    method.fit(data.X_train, data.y_train)
    train, test = method.transform(data.X_train), method.transform(data.X_test)
    ranking = mean_average_precision(test, data.y_test)
    voting = knn_accuracy(train, data.y_train, test, data.y_test)
    print(f"{name:>24}: mAP {ranking:.3f}, 5-NN {voting:.3f}")
