"""Writes `datasets.json`: what torchvision's data sets make of made-up files, for `tests/datasets.rs`.

    python crates/torsh-vision/tests/data/datasets.py
"""

import json
import pathlib
import xml.etree.ElementTree as ET

import numpy as np
from torchvision import datasets

XML = """<annotation>
  <folder>VOC2012</folder><filename>a.jpg</filename>
  <source><database>none</database></source>
  <size><width>8</width><height>6</height><depth>3</depth></size>
  <segmented>1</segmented>
  <object><name>dog</name><pose>Left</pose><truncated>1</truncated><difficult>0</difficult>
    <bndbox><xmin>2</xmin><ymin>1</ymin><xmax>7</xmax><ymax>5.5</ymax></bndbox>
    <part><name>head</name><bndbox><xmin>2</xmin><ymin>1</ymin><xmax>3</xmax><ymax>2</ymax></bndbox></part>
    <part><name>foot</name><bndbox><xmin>4</xmin><ymin>4</ymin><xmax>5</xmax><ymax>5</ymax></bndbox></part>
  </object>
  <empty></empty>
</annotation>"""


def fake():
    out = []
    for size, classes, offset, index in [((3, 4, 5), 10, 0, 0), ((3, 4, 5), 10, 0, 7), ((1, 2, 9), 3, 100, 2), ((3, 20, 20), 4, 5, 1)]:
        image, label = datasets.FakeData(20, size, classes, random_offset=offset)[index]
        pixels = np.asarray(image)
        pixels = pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1)
        out.append([list(size), classes, offset, index, pixels.ravel()[:60].tolist(), int(pixels.sum()), label])
    return out


def main():
    tree = datasets.VOCDetection.parse_voc_xml(ET.fromstring(XML))
    values = {
        "fake": fake(),
        "xml": XML,
        "tree": tree,
        "emnist": {k: v for k, v in datasets.EMNIST.classes_split_dict.items()},
    }
    path = pathlib.Path(__file__).resolve().parent / "datasets.json"
    lines = ",\n".join(f"{json.dumps(k)}: {json.dumps(v, default=list)}" for k, v in values.items())
    path.write_text("{\n" + lines + "\n}\n")


if __name__ == "__main__":
    main()
