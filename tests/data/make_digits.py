"""Writes scikit-learn's digits to tests/data/fixtures/digits.npz: 1797 images of 8x8 pixels, 0 to 16, and their labels.

They are the test set of "Optical Recognition of Handwritten Digits" by E. Alpaydin and C. Kaynak, from the UCI Machine
Learning Repository, licensed under CC BY 4.0. Runs where scikit-learn is installed.
"""

from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

if __name__ == "__main__":
    digits = load_digits()
    images, labels = digits.data.astype("uint8"), digits.target.astype("uint8")
    np.savez_compressed(Path(__file__).parent / "fixtures" / "digits.npz", images=images, labels=labels)
