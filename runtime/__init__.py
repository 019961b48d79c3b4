"""Runs compiled programs. Under the name `mx.runtime` users ask it what the installation can do."""

from .features import Feature, Features, feature_list

__all__ = ["Feature", "Features", "feature_list"]
