"""Writes an ImageNet-like folder of synthetic photographs: FOLDER/{train,val}/classN/*.jpg.

A photograph's spectrum falls off like 1/f (Field 1987), its chroma is smoother than its luma and it has
edges; with that, JPEG of quality 90 and 4:2:0 comes to the 50-80 kB of a 500 x 375 photograph. What
matters for the bench is the number of bits a pixel: entropy decoding dominates.
"""
import argparse
import os

import numpy as np
from PIL import Image


def spectrum(rng, h, w, power):
    fy = np.fft.fftfreq(h)[:, None]
    fx = np.fft.rfftfreq(w)[None, :]
    f = np.maximum(np.hypot(fy, fx), 1.0 / max(h, w))
    noise = rng.standard_normal(f.shape) + 1j * rng.standard_normal(f.shape)
    field = np.fft.irfft2(noise / f**power, s=(h, w))
    return (field - field.mean()) / field.std()


def photograph(rng, w, h):
    luma = 120 + 45 * spectrum(rng, h, w, 1.25)
    y, x = np.mgrid[0:h, 0:w]
    for _ in range(12):
        cx, cy, r = rng.uniform(0, w), rng.uniform(0, h), rng.uniform(10, 120)
        luma = np.where((x - cx) ** 2 + (y - cy) ** 2 < r * r, luma + rng.uniform(-50, 50), luma)
    luma = luma + 3 * rng.standard_normal((h, w))
    cb = 128 + 16 * spectrum(rng, h, w, 1.6)
    cr = 128 + 16 * spectrum(rng, h, w, 1.6)
    planes = np.clip(np.stack([luma, cb, cr], -1), 0, 255).astype(np.uint8)
    return Image.fromarray(planes, "YCbCr")


def write(folder, count, width, height, quality, classes=10, seed=1):
    rng = np.random.default_rng(seed)
    total = 0
    for i in range(count):
        for part in ("train", "val"):
            place = os.path.join(folder, part, f"class{i % classes}")
            os.makedirs(place, exist_ok=True)
            name = os.path.join(place, f"{i:05d}.jpg")
            if part == "train":
                photograph(rng, width, height).save(name, quality=quality)
                total += os.path.getsize(name)
                first = name
            else:
                os.link(first, name)
    return total / count


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("folder")
    p.add_argument("--count", type=int, default=200)
    p.add_argument("--width", type=int, default=500)
    p.add_argument("--height", type=int, default=375)
    p.add_argument("--quality", type=int, default=90)
    a = p.parse_args()
    mean = write(a.folder, a.count, a.width, a.height, a.quality)
    print(f"{a.count} files of {mean / 1024:.0f} KiB on average")
