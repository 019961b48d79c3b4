"""Makes the small image records of tests/data/records: `python make_records.py`. Needs OpenCV and Pillow.

images.rec      PNG images of different sizes, with one label
photos.rec      JPEG images; the last one is rotated by its EXIF orientation
objects.rec     PNG images with boxes of objects
pairs.rec       PNG images with two labels
"""

import io
import pathlib

import mxforge.recordio as recordio
import numpy as np
from PIL import Image

FOLDER = pathlib.Path(__file__).resolve().parent / "records"
SIZES = ((20, 25), (32, 24), (25, 25), (24, 32), (22, 45), (30, 20), (22, 22))


def picture(number, height, width):
    """A smooth image with an edge, (height, width, 3)."""
    y, x = np.mgrid[:height, :width]
    waves = [np.sin(x * (0.21 + 0.05 * k + 0.03 * number) + y * (0.13 * k - 0.1) + number) for k in range(3)]
    image = 128 + 100 * np.dstack(waves)
    image[height // 3 :, : width // 2] *= 0.5
    return (image // 4 * 4).clip(0, 255).astype(np.uint8)


def write(name, records):
    writer = recordio.MXIndexedRecordIO(str(FOLDER / f"{name}.idx"), str(FOLDER / f"{name}.rec"), "w")
    for key, record in enumerate(records):
        writer.write_idx(key, record)
    writer.close()


def png(label, number, image):
    return recordio.pack_img(recordio.IRHeader(0, label, number, 0), image, quality=9, img_fmt=".png")


def rotated_jpeg(image):
    exif, buffer = Image.Exif(), io.BytesIO()
    exif[0x112] = 6
    Image.fromarray(image).save(buffer, "JPEG", exif=exif, quality=90)
    return recordio.pack(recordio.IRHeader(0, 3.0, 3, 0), buffer.getvalue())


def boxes(number):
    objects = [[0.0, 0.1, 0.2, 0.5, 0.6], [1.0, 0.3, 0.3, 0.9, 0.8]][: 1 + number % 2]
    return [2, 5, *(value for row in objects for value in row)]


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    images = [picture(i, *size) for i, size in enumerate(SIZES)]
    write("images", [png(float(i), 10 * i, image) for i, image in enumerate(images)])
    write("objects", [png(boxes(i), i + 3, image) for i, image in enumerate(images[:4])])
    write("pairs", [png([float(i), i + 0.5], i, picture(i, 16, 16)) for i in range(3)])
    photos = [picture(i, 24 + i, 30) for i in range(4)]
    jpegs = [
        recordio.pack_img(recordio.IRHeader(0, float(i), i, 0), photo, quality=90) for i, photo in enumerate(photos[:3])
    ]
    write("photos", [*jpegs, rotated_jpeg(photos[3])])
