"""Runs compiled programs. As `mx.runtime` it lists the features of the installation."""

from .features import Feature, Features, feature_list

__all__ = ["Feature", "Features", "feature_list"]
