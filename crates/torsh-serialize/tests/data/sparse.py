"""Sparse tensors and matrices as PyTorch and SciPy write them: python sparse.py [DIR]

Without a folder the files beside this one are written: sparse.pt, sparse_old.pt and csr.npz, csc.npz, bsr.npz, coo.npz,
unsorted.npz, dia.npz, scipy.mtx. With one, its files, which the tests wrote, are opened: ours_sparse.pt, ours_*.npz and
ours_*.mtx; prints ok.
"""

import os
import sys

import numpy as np
import torch

try:
    import scipy.io
    import scipy.sparse as sp
except ImportError:
    sp = None


def tensors():
    dense = torch.tensor([[0.0, 1, 0, 2], [3, 0, 0, 0], [0, 0, 4, 5], [0, 0, 0, 6]])
    hybrid = torch.sparse_coo_tensor([[2, 0, 2]], [[1.0, 2], [3, 4], [5, 6]], (3, 2))
    batch = torch.stack([dense, dense.flip(0)])
    return {
        "coo": dense.to_sparse(),
        "uncoalesced": torch.sparse_coo_tensor([[1, 0, 1], [0, 3, 0]], [1, 2, 3], (2, 4)),
        "hybrid": hybrid,
        "csr": dense.to_sparse_csr(),
        "csc": dense.to_sparse_csc(),
        "bsr": dense.to_sparse_bsr((2, 2)),
        "bsc": dense.to_sparse_bsc((2, 2)),
        "int32": torch.sparse_csr_tensor(
            torch.tensor([0, 1, 2], dtype=torch.int32),
            torch.tensor([1, 0], dtype=torch.int32),
            torch.tensor([1 + 2j, 3 - 4j]),
            (2, 2),
        ),
        "batched": batch.to_sparse_csr(),
        "empty": torch.zeros(3, 2).to_sparse(),
        "parameter": torch.nn.Parameter(dense.to_sparse()),
    }


def matrices():
    m = sp.csr_matrix(np.array([[0.0, 1, 0, 2], [3, 0, 0, 0], [0, 0, 4, 5], [0, 0, 0, 6]]))
    unsorted = sp.csr_matrix(
        (np.array([2.0, 1.0, 3.0, 4.0]), np.array([3, 1, 0, 0]), np.array([0, 2, 4])), shape=(2, 4)
    )
    return {"csr": m, "csc": m.tocsc(), "bsr": m.tobsr((2, 2)), "coo": m.tocoo(), "unsorted": unsorted}


def write():
    os.chdir(os.path.dirname(os.path.abspath(__file__)))
    torch.save(tensors(), "sparse.pt")
    torch.save({"csr": tensors()["csr"], "coo": tensors()["coo"]}, "sparse_old.pt", _use_new_zipfile_serialization=False)
    for name, m in matrices().items():
        sp.save_npz(f"{name}.npz", m, compressed=name != "csc")
    sp.save_npz("dia.npz", sp.dia_matrix(np.eye(3)))
    symmetric = matrices()["coo"]
    scipy.io.mmwrite("scipy.mtx", symmetric + symmetric.T, comment="made by SciPy", symmetry="symmetric")


def same(a, b):
    assert a.layout == b.layout and a.shape == b.shape and a.dtype == b.dtype, (a, b)
    if a.layout == torch.sparse_coo:
        assert a.is_coalesced() == b.is_coalesced(), (a, b)
        assert torch.equal(a._indices(), b._indices()) and torch.equal(a._values(), b._values()), (a, b)
        return
    rows = a.layout in (torch.sparse_csr, torch.sparse_bsr)
    names = ("crow_indices", "col_indices") if rows else ("ccol_indices", "row_indices")
    for name in (*names, "values"):
        x, y = getattr(a, name)(), getattr(b, name)()
        assert x.dtype == y.dtype and torch.equal(x, y), (name, a, b)


def check(folder):
    os.chdir(folder)
    own = torch.load("ours_sparse.pt", weights_only=True)
    for name, t in tensors().items():
        same(own[name], t)
    assert isinstance(own["parameter"], torch.nn.Parameter) and own["parameter"].requires_grad
    if sp is None:
        print("SciPy is not there")
        return
    m = matrices()["csr"].toarray()
    for name in ("csr", "csc", "bsr", "coo"):
        read = sp.load_npz(f"ours_{name}.npz")
        assert read.format == name and np.array_equal(read.toarray(), m), name
    for name in ("coordinate", "array", "symmetric"):
        read = scipy.io.mmread(f"ours_{name}.mtx")
        read = read.toarray() if sp.issparse(read) else read
        assert np.array_equal(read, m + m.T if name == "symmetric" else m), name
    print("ok")


check(sys.argv[1]) if len(sys.argv) > 1 else write()
