"""Times transforms in torchvision; the same names and lines as torsh-bench-transforms.

    python benches/torchvision_transforms.py [--threads N] [--budget SECONDS] [--jpeg FILE] [NAME_PART ...]

Both decode the same JPEG file; this script writes it where there is none, as most files are, with colours of half the
resolution.
"""

import argparse
import json
import os
import statistics
import time

import torch
from torchvision import io as tvio
from torchvision.transforms import v2


def picture(h, w):
    noise, data = 1, torch.empty(3, h, w, dtype=torch.uint8)
    y = torch.arange(h, dtype=torch.float64).unsqueeze(1)
    x = torch.arange(w, dtype=torch.float64)
    generator = torch.Generator().manual_seed(noise)
    for c in range(3):
        wave = torch.sin(x * (c + 1) / 37) + torch.cos(y / 23)
        grain = torch.randint(0, 16, (h, w), generator=generator)
        data[c] = (128 + 50 * wave + grain).to(torch.uint8)
    return data


def on(size, transform):
    image = picture(*size)
    return lambda: transform(image)


def decode(path):
    if not os.path.exists(path):
        tvio.write_jpeg(picture(768, 1024), path, quality=90)
    file = tvio.read_file(path)
    t = v2.Compose(
        [
            v2.Resize(256),
            v2.CenterCrop(224),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
        ]
    )
    return lambda: t(tvio.decode_image(file))


JPEG = "target/torsh-bench.jpg"

ROWS = {
    "resize_1024_224_u8": lambda: on((1024, 1024), v2.Resize((224, 224))),
    "color_jitter_512_u8": lambda: on((512, 512), v2.ColorJitter(0.4, 0.4, 0.4, 0.1)),
    "random_resized_crop_512_224_u8": lambda: on((512, 512), v2.RandomResizedCrop(224)),
    "gaussian_blur_5_512_u8": lambda: on((512, 512), v2.GaussianBlur(5)),
    "random_affine_512_u8": lambda: on((512, 512), v2.RandomAffine(30)),
    "decode_resize_normalize_jpeg_1024x768": lambda: decode(JPEG),
}


def seconds(f, n):
    start = time.perf_counter()
    for _ in range(n):
        f()
    return time.perf_counter() - start


def measure(f, budget, rounds=7):
    seconds(f, 2)
    n = 1
    while (t := seconds(f, n)) <= budget / rounds:
        factor = min(budget / rounds / max(t, 1e-9) * 1.2, 10.0)
        n = max(n + 1, int(n * factor))
    return sorted(seconds(f, n) / n * 1e6 for _ in range(rounds))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("only", nargs="*", metavar="NAME_PART")
    parser.add_argument("--threads", type=int, metavar="N")
    parser.add_argument("--budget", type=float, default=0.35, metavar="SECONDS")
    parser.add_argument("--jpeg", default=JPEG, metavar="FILE")
    args = parser.parse_args()
    globals()["JPEG"] = args.jpeg
    if args.threads:
        torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    for name, make in ROWS.items():
        if args.only and not any(part in name for part in args.only):
            continue
        us = measure(make(), args.budget)
        line = {"name": name, "us": round(statistics.median(us), 3), "min_us": round(us[0], 3), "flops": 0, "bytes": 0}
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    with torch.inference_mode():
        main()
