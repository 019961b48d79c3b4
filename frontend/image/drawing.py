"""Draws boxes and names of classes with OpenCV."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..namespace.atomic_imports import import_atomically


def draw_boxes(
    image: np.ndarray,
    label: np.ndarray,
    color: Any,
    thickness: int,
    wait: int | None,
    window: str,
    names: dict[int, str] | None,
) -> np.ndarray:
    """Draw the boxes of labels (class, xmin, ymin, xmax, ymax, ...) into a BGR image; see `ImageDetIter.draw_next`."""
    cv2: Any = import_atomically("cv2")
    height, width, _ = image.shape
    for number, *box in label[:, :5]:
        left, top, right, bottom = (int(a * b) for a, b in zip(box, (width, height, width, height), strict=True))
        if left < 0:
            continue
        line = tuple(map(float, color[::-1] if color else np.random.rand(3) * 255))
        cv2.rectangle(image, (left, top), (right, bottom), line, thickness)
        if names is not None and int(number) in names:
            font, text = cv2.FONT_HERSHEY_SIMPLEX, str(names[int(number)])
            text_height = cv2.getTextSize(text, font, 0.5, 2)[0][1]
            cv2.putText(image, text, (left + 5, top + text_height + 5), font, 0.5, (255, 255, 255), 2)
    if wait is not None:
        cv2.imshow(window, image)
        cv2.waitKey(wait)
    return image
