"""Fashion-MNIST, 28x28 pictures of clothes of ten kinds, for the examples beside this file.

The data comes from the Debian package that DATA_PACKAGE names. Its files are a short header, then bytes.
"""
import gzip
import pathlib
import sys

import numpy as np

DATA_PACKAGE = "dataset-fashion-mnist"
DATA_FOLDER = "/usr/share/datasets/fashion-mnist"
CLASSES = 10


def read_images_and_labels(folder, name):
    """The images as floats from 0 to 1, shaped [n, 28, 28], and their labels, 32-bit integers."""
    images = gzip.decompress((folder / f"{name}-images-idx3-ubyte.gz").read_bytes())
    labels = gzip.decompress((folder / f"{name}-labels-idx1-ubyte.gz").read_bytes())
    images = np.frombuffer(images, np.uint8, offset=16).reshape(-1, 28, 28)
    labels = np.frombuffer(labels, np.uint8, offset=8)
    return images.astype(np.float32) / 255, labels.astype(np.int32)


def read_data(folder):
    """((images, labels) to train on, (images, labels) to test on). Ends the program without them."""
    folder = pathlib.Path(folder)
    try:
        return read_images_and_labels(folder, "train"), read_images_and_labels(folder, "t10k")
    except FileNotFoundError as error:
        sys.exit(f"error: no file {error.filename}. Get the data with: "
                 f"sudo apt-get install {DATA_PACKAGE}\n"
                 "or name the folder that has it with --data.")
