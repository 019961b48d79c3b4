"""Makes the photographs, lists and record files in images/: `python make_images.py`, with mxforge and OpenCV.

images.lst and images.rec have 7 photographs with two labels each.
objects.lst and objects.rec have 5 photographs with boxes, one of which has no area.
The second image of broken.lst and broken.rec is no image.
"""

from pathlib import Path

import cv2
import mxforge as mx
import numpy as np

FOLDER = Path(__file__).resolve().parent / "images"
SIZES = ((40, 56), (48, 48), (64, 40), (36, 50), (41, 33), (52, 44), (45, 61))
BOXES = [[[0, 0.1, 0.2, 0.5, 0.6]], [[1, 0, 0, 1, 1], [2, 0.3, 0.3, 0.8, 0.5]], [[1, 0.4, 0.1, 0.9, 0.9]]]
BOXES += [
    [[0, 0.5, 0.5, 0.5, 0.5], [1, 0.2, 0.4, 0.7, 0.9]],
    [[2, 0.6, 0.1, 1, 0.4], [0, 0.1, 0.1, 0.4, 0.9], [1, 0.2, 0.5, 0.7, 0.8]],
]


def photograph(number: int, size: tuple[int, int]) -> np.ndarray:
    rows, columns = np.mgrid[: size[0], : size[1]]
    waves = [128 + 100 * np.sin((columns * (k + 1) + rows * (number - 3)) / (9 + 2 * k) + number * k) for k in range(3)]
    return np.clip(np.stack(waves, -1), 0, 255).astype(np.uint8)


def write(name: str, labels: list[list[float]], files: list[Path]) -> None:
    records = mx.recordio.MXIndexedRecordIO(str(FOLDER / f"{name}.idx"), str(FOLDER / f"{name}.rec"), "w")
    lines = []
    for key, (label, file) in enumerate(zip(labels, files, strict=True)):
        records.write_idx(key * 3, mx.recordio.pack((0, label, key * 3, 0), file.read_bytes()))
        lines.append("\t".join([str(key * 3), *map(str, label), file.name]) + "\n")
    records.close()
    (FOLDER / f"{name}.lst").write_text("".join(lines))


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    files = []
    for number, size in enumerate(SIZES):
        files.append(FOLDER / f"{number}.jpg")
        quality = [cv2.IMWRITE_JPEG_QUALITY, 80]
        files[-1].write_bytes(cv2.imencode(".jpg", photograph(number, size), quality)[1].tobytes())
    write("images", [[float(n), n / 4] for n in range(len(files))], files)
    write("objects", [[4, 5, 640, 480, *np.ravel(boxes).tolist()] for boxes in BOXES], files[:5])
    (FOLDER / "broken.jpg").write_bytes(b"no image")
    write("broken", [[float(n), n / 4] for n in range(3)], [files[0], FOLDER / "broken.jpg", files[2]])
