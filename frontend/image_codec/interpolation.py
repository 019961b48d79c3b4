"""The interpolation method that depends on the sizes of an image, number 9 in MXNet."""

from __future__ import annotations


def method_between(old: tuple[int, int], new: tuple[int, int]) -> int:
    """OpenCV's method to resize from `old` to `new`, both (height, width): area (3) if both extents shrink, bicubic (2)
    if both grow, and otherwise bilinear (1)."""
    if new[0] > old[0] and new[1] > old[1]:
        return 2
    return 3 if new[0] < old[0] and new[1] < old[1] else 1
