"""Writes the Parquet files that the tests read, with pandas 2 or 3 and PyArrow: python make.py"""

import datetime
import decimal
import os

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

os.chdir(os.path.dirname(os.path.abspath(__file__)))

# What `DataFrame.to_parquet` writes if it is not told otherwise: Snappy, dictionaries.
n = 5
frame = pd.DataFrame({
    "flag": [True, False, True, True, False],
    "i8": np.array([1, -2, 3, -128, 127], dtype="int8"),
    "i16": np.array([1, -2, 3, -32768, 32767], dtype="int16"),
    "i32": np.array([1, -2, 3, -2**31, 2**31 - 1], dtype="int32"),
    "i64": np.array([1, -2, 3, -2**63, 2**63 - 1], dtype="int64"),
    "u8": np.array([0, 1, 2, 128, 255], dtype="uint8"),
    "u16": np.array([0, 1, 2, 32768, 65535], dtype="uint16"),
    "u32": np.array([0, 1, 2, 2**31, 2**32 - 1], dtype="uint32"),
    "u64": np.array([0, 1, 2, 2**63, 2**64 - 1], dtype="uint64"),
    "f16": np.array([0.5, -2.0, 65504.0, 0.0, -0.25], dtype="float16"),
    "f32": np.array([0.5, -2.25, 3.0, 1e-3, -1e30], dtype="float32"),
    "f64": np.array([0.1, np.nan, -3.5, 1e300, 0.0]),
    "gaps": pd.array([7, None, 9, None, 11], dtype="Int32"),
    "name": ["b", "a", "c", "a", "b"],
    "kind": pd.Categorical(["y", "x", "y", "y", "x"]),
    "day": [datetime.date(2026, 1, d + 1) for d in range(n)],
    "time": pd.date_range("2026-01-01", periods=n, freq="h"),
    "price": [decimal.Decimal("1.50")] * n,
    "list": [[1, 2]] * n,
})
frame.to_parquet("pandas.parquet")

# Several groups and pages, in the forms that PyArrow writes on demand.
rows = np.arange(1000)
table = pa.table({
    "id": pa.array(rows, pa.int64()),
    "half": pa.array(rows / 2, pa.float64()),
    "some": pa.array([None if i % 3 == 0 else i for i in rows], pa.float32()),
    "deep": pa.array([None if i % 7 == 0 else {"v": int(i % 11)} for i in rows]),
    "class": pa.array([("red", "green", "blue")[i % 3] for i in rows]),
})
for name, options in {
    "groups": dict(row_group_size=300, data_page_size=512, compression="gzip"),
    "plain": dict(use_dictionary=False, data_page_version="2.0", compression="none",
                  column_encoding={"id": "DELTA_BINARY_PACKED", "half": "BYTE_STREAM_SPLIT"}),
    "zstd": dict(compression="zstd"),
}.items():
    part = table if name != "zstd" else table.slice(0, 2)
    pq.write_table(part, f"{name}.parquet", **options)
