//! Workloads as rows of a table, and those of Fourier transforms, linear algebra and special functions.

use std::fmt;

use torsh_linalg::{self as linalg, SvdOptions};
use torsh_nn::functional as F;
use torsh_special as special;
use torsh_tensor::{DType, Device, Result, StftOptions, Tensor, fft, grad, signal};

use crate::inputs::{Layout, laid_out, rand, randn};
use crate::workload::{Out, Workload};

/// An input of a row.
#[derive(Clone, Debug)]
pub(crate) enum Input {
    /// Standard normal float32 numbers.
    Normal(Vec<usize>),
    /// The same, a tensor that wants a gradient.
    Leaf(Vec<usize>),
    /// Standard normal complex64 numbers.
    Complex(Vec<usize>),
    /// Symmetric matrices of normal numbers.
    Symmetric(Vec<usize>),
    /// Symmetric positive definite matrices.
    Definite(Vec<usize>),
    /// The same, a tensor that wants a gradient.
    DefiniteLeaf(Vec<usize>),
    /// A lower triangle with a heavy diagonal.
    Lower(usize),
    /// Uniform float32 numbers from 0.01 to 9.91.
    Uniform(usize),
    /// A Hann window.
    Hann(i64),
    /// What a function makes, which is told whether it is to be small.
    Made(fn(bool) -> Result<Tensor>, bool),
}

use Input::{Complex, Definite, DefiniteLeaf, Hann, Leaf, Lower, Made, Normal, Symmetric, Uniform};

/// A call on tensors; its name says what it computes and the shapes.
#[derive(Clone)]
pub struct Row {
    name: String,
    inputs: Vec<Input>,
    call: fn(&[Tensor]) -> Result<Out>,
    flops: usize,
    bytes: usize,
}

impl Row {
    pub(crate) fn new(
        name: impl Into<String>,
        inputs: impl Into<Vec<Input>>,
        [flops, bytes]: [usize; 2],
        call: fn(&[Tensor]) -> Result<Out>,
    ) -> Row {
        Row {
            name: name.into(),
            inputs: inputs.into(),
            call,
            flops,
            bytes,
        }
    }

    /// The name of the workload.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Operations that a call must make, a multiply-add counting two; 0 where that says nothing.
    pub fn flops(&self) -> usize {
        self.flops
    }

    /// The least number of bytes that a call reads and writes; 0 where that says nothing.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The same call on small inputs: a size becomes its binary logarithm, so equal sizes stay equal.
    pub fn small(&self) -> Row {
        let logs = |shape: &[usize]| shape.iter().map(|&n| logarithm(n)).collect::<Vec<_>>();
        let small = |input: &Input| match input {
            // A signal must be longer than half a window.
            Normal(_) if self.name.starts_with("stft") => Normal(vec![2, 500]),
            Normal(shape) => Normal(logs(shape)),
            Leaf(shape) => Leaf(logs(shape)),
            Complex(shape) => Complex(logs(shape)),
            Symmetric(shape) => Symmetric(logs(shape)),
            Definite(shape) => Definite(logs(shape)),
            DefiniteLeaf(shape) => DefiniteLeaf(logs(shape)),
            Lower(n) => Lower(logarithm(*n)),
            Uniform(n) => Uniform(logarithm(*n)),
            Hann(n) => Hann(*n),
            Made(make, _) => Made(*make, true),
        };
        Row {
            inputs: self.inputs.iter().map(small).collect(),
            ..self.clone()
        }
    }

    /// The workload with new inputs; those that are plain normal numbers lie in memory as `layout` says.
    pub fn make(&self, layout: Layout) -> Result<Workload> {
        let make = |input: &Input| build(input, layout);
        let inputs = self.inputs.iter().map(make).collect::<Result<Vec<_>>>()?;
        let (call, given) = (self.call, inputs.clone());
        Ok(Workload {
            inputs,
            state: vec![],
            call: Box::new(move || call(&given)),
        })
    }
}

impl fmt::Debug for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Row").field("name", &self.name).finish()
    }
}

impl PartialEq for Row {
    fn eq(&self, other: &Row) -> bool {
        self.name == other.name
    }
}

/// The size that [`Row::small`] has in the place of `n`.
pub(crate) fn logarithm(n: usize) -> usize {
    n.ilog2().max(1) as usize
}

fn build(input: &Input, layout: Layout) -> Result<Tensor> {
    let identity = |n: usize| Tensor::eye(n, DType::F32, Device::Cpu);
    let definite = |shape: &[usize]| {
        let (a, n) = (randn(shape)?, shape[shape.len() - 1]);
        a.matmul(&a.transpose(-2, -1)?)?
            .add(&identity(n)?.mul(n as f64)?)
    };
    match input {
        Normal(shape) => laid_out(shape, layout),
        Leaf(shape) => Ok(randn(shape)?.requires_grad_(true)),
        Complex(shape) => Tensor::complex(&randn(shape)?, &randn(shape)?),
        Symmetric(shape) => {
            let a = randn(shape)?;
            a.add(&a.transpose(-2, -1)?)
        }
        Definite(shape) => definite(shape),
        DefiniteLeaf(shape) => Ok(definite(shape)?.requires_grad_(true)),
        Lower(n) => randn(&[*n, *n])?.tril(0)?.add(&identity(*n)?.mul(64.0)?),
        Uniform(n) => rand(&[*n])?.mul(9.9)?.add(0.01),
        Hann(n) => signal::windows::hann(*n),
        Made(make, small) => make(*small),
    }
}

/// The rows.
pub(crate) fn rows(all: &mut Vec<Row>) {
    transforms(all);
    matrices(all);
    solvers(all);
    functions(all);
}

pub(crate) fn add(
    all: &mut Vec<Row>,
    name: impl Into<String>,
    inputs: impl Into<Vec<Input>>,
    bytes: usize,
    call: fn(&[Tensor]) -> Result<Out>,
) {
    all.push(Row::new(name, inputs, [0, bytes], call));
}

/// One result.
pub(crate) fn one(t: Result<Tensor>) -> Result<Out> {
    t.map(Out::One)
}

fn transforms(all: &mut Vec<Row>) {
    let complex = |shape: &[usize]| [Complex(shape.to_vec())];
    let normal = |shape: &[usize]| [Normal(shape.to_vec())];
    let size = |shape: &[usize]| shape.iter().product::<usize>();
    add(all, "fft_1024x1024", normal(&[1024, 1024]), 0, |x| {
        one(fft::rfft(&x[0]))
    });
    for n in [1024, 16_384, 1 << 20, 1_000_000] {
        let name = format!("fft_c2c_{n}");
        add(all, name, complex(&[n]), 16 * n, |x| one(fft::fft(&x[0])));
    }
    for n in [1009, 65_537] {
        let name = format!("fft_c2c_prime_{n}");
        add(all, name, complex(&[n]), 16 * n, |x| one(fft::fft(&x[0])));
    }
    let shape = [4096, 256];
    let bytes = 16 * size(&shape);
    add(all, "fft_c2c_4096x256", complex(&shape), bytes, |x| {
        one(fft::fft(&x[0]))
    });
    let (shape, bytes) = ([1024, 1024], 16 << 20);
    add(all, "fft_c2c_dim0_1024x1024", complex(&shape), bytes, |x| {
        one(fft::fft_with(
            &x[0],
            fft::FftOptions {
                dim: 0,
                ..Default::default()
            },
        ))
    });
    let n = 1 << 20;
    add(all, "fft_r2c_1048576", normal(&[n]), 8 * n, |x| {
        one(fft::rfft(&x[0]))
    });
    let n = 4096 * 400;
    add(all, "fft_r2c_4096x400", normal(&[4096, 400]), 8 * n, |x| {
        one(fft::rfft(&x[0]))
    });
    add(all, "fft2_c2c_1024x1024", complex(&shape), bytes, |x| {
        one(fft::fft2(&x[0]))
    });
    let shape = [8, 512, 512];
    add(
        all,
        "fft2_r2c_8x512x512",
        normal(&shape),
        8 * size(&shape),
        |x| one(fft::rfft2(&x[0])),
    );
    add(
        all,
        "ifft_c2r_1024x1024",
        complex(&[1024, 513]),
        8 << 20,
        |x| one(fft::irfft(&x[0])),
    );
    let shape = [64; 3];
    add(
        all,
        "fftn_c2c_64x64x64",
        complex(&shape),
        16 * size(&shape),
        |x| one(fft::fftn(&x[0])),
    );
    let inputs = [Normal(vec![16, 16_000]), Hann(400)];
    add(all, "stft_16x16000_400_160", inputs, 0, |x| {
        let options = StftOptions::new()
            .hop_length(160)
            .window(x[1].clone())
            .return_complex(true);
        one(F::stft_with(&x[0], 400, options))
    });
}

fn reduced(a: &Tensor) -> Result<(Tensor, Tensor, Tensor)> {
    let options = SvdOptions {
        full_matrices: false,
        ..Default::default()
    };
    linalg::svd_with(a, options)
}

fn three((u, s, vh): (Tensor, Tensor, Tensor)) -> Out {
    Out::Many(vec![Some(u), Some(s), Some(vh)])
}

fn svd(x: &[Tensor]) -> Result<Out> {
    reduced(&x[0]).map(three)
}

fn solve(x: &[Tensor]) -> Result<Out> {
    one(linalg::solve(&x[0], &x[1]))
}

fn matrices(all: &mut Vec<Row>) {
    let shapes: [(&str, &[usize]); 5] = [
        ("64", &[64, 64]),
        ("256", &[256, 256]),
        ("1024", &[1024, 1024]),
        ("4096x8x8", &[4096, 8, 8]),
        ("256x32x32", &[256, 32, 32]),
    ];
    for (k, shape) in shapes {
        let normal = || [Normal(shape.to_vec())];
        add(all, format!("svd_{k}"), normal(), 0, svd);
        add(all, format!("svdvals_{k}"), normal(), 0, |x| {
            one(linalg::svdvals(&x[0]))
        });
        let symmetric = [Symmetric(shape.to_vec())];
        add(all, format!("eigh_{k}"), symmetric, 0, |x| {
            linalg::eigh(&x[0]).map(Out::from)
        });
        add(all, format!("qr_{k}"), normal(), 0, |x| {
            linalg::qr(&x[0]).map(Out::from)
        });
        let definite = [Definite(shape.to_vec())];
        add(all, format!("cholesky_{k}"), definite, 0, |x| {
            one(linalg::cholesky(&x[0]))
        });
        add(all, format!("inv_{k}"), normal(), 0, |x| {
            one(linalg::inv(&x[0]))
        });
        if matches!(k, "256" | "4096x8x8") {
            add(all, format!("det_{k}"), normal(), 0, |x| {
                one(linalg::det(&x[0]))
            });
        }
        if k != "1024" {
            add(all, format!("matrix_exp_{k}"), normal(), 0, |x| {
                one(linalg::matrix_exp(&x[0].mul(0.1)?))
            });
        }
        let mut rhs = shape.to_vec();
        rhs[shape.len() - 1] = 8;
        let inputs = [Normal(shape.to_vec()), Normal(rhs)];
        add(all, format!("solve_{k}_rhs8"), inputs, 0, solve);
    }
    add(all, "svd_128", [Normal(vec![128, 128])], 0, |x| {
        linalg::svd(&x[0]).map(three)
    });
    add(all, "inv_512", [Normal(vec![512, 512])], 0, |x| {
        one(linalg::inv(&x[0]))
    });
    add(all, "cholesky_512", [Definite(vec![512, 512])], 0, |x| {
        one(linalg::cholesky(&x[0]))
    });
    for (k, shape) in [
        ("64", vec![64, 64]),
        ("256", vec![256, 256]),
        ("1024x8x8", vec![1024, 8, 8]),
    ] {
        add(all, format!("eig_{k}"), [Normal(shape)], 0, |x| {
            linalg::eig(&x[0]).map(Out::from)
        });
    }
}

fn solvers(all: &mut Vec<Row>) {
    let square = |n| Normal(vec![n, n]);
    add(all, "pinv_256", [square(256)], 0, |x| {
        one(linalg::pinv(&x[0]))
    });
    add(all, "svd_2048x64", [Normal(vec![2048, 64])], 0, svd);
    add(all, "svd_f64_256", [square(256)], 0, |x| {
        linalg::svd(&x[0].to_dtype(DType::F64)?).map(three)
    });
    add(all, "solve_c64_256", [Complex(vec![256, 256])], 0, |x| {
        one(linalg::solve(&x[0], &x[0]))
    });
    for (n, k) in [(64, 8), (256, 1)] {
        let inputs = [Normal(vec![1024, n]), Normal(vec![1024, k])];
        add(all, format!("lstsq_1024x{n}_rhs{k}"), inputs, 0, |x| {
            one(linalg::lstsq(&x[0], &x[1]).map(|l| l.solution))
        });
    }
    let inputs = [Lower(1024), Normal(vec![1024, 64])];
    add(all, "solve_triangular_1024_rhs64", inputs, 0, |x| {
        one(linalg::solve_triangular(&x[0], &x[1], false))
    });
    add(all, "svd_fwd_bwd_256", [Leaf(vec![256, 256])], 0, |x| {
        let (u, s, vh) = reduced(&x[0])?;
        let sum = u.abs()?.sum()?.add(&s.sum()?)?;
        gradient(sum.add(&vh.abs()?.sum()?)?, x)
    });
    add(
        all,
        "inv_fwd_bwd_4096x8x8",
        [Leaf(vec![4096, 8, 8])],
        0,
        |x| gradient(linalg::inv(&x[0])?.sum()?, x),
    );
    add(
        all,
        "logdet_cholesky_fwd_bwd_512",
        [DefiniteLeaf(vec![512, 512])],
        0,
        |x| {
            let l = linalg::cholesky(&x[0])?;
            gradient(l.diagonal()?.log()?.sum()?, x)
        },
    );
}

/// The gradient of a sum.
pub(crate) fn gradient(y: Tensor, x: &[Tensor]) -> Result<Out> {
    grad(&[y], x, &[None], false, false, false).map(Out::Many)
}

fn functions(all: &mut Vec<Row>) {
    let n = 1_000_000;
    let table: [(&str, fn(&[Tensor]) -> Result<Out>); 15] = [
        ("lgamma", |x| one(x[0].lgamma())),
        ("digamma", |x| one(x[0].digamma())),
        ("erf", |x| one(x[0].erf())),
        ("erfinv", |x| one(x[0].mul(0.09)?.erfinv())),
        ("ndtri", |x| one(special::ndtri(&x[0].mul(0.1)?))),
        ("i0e", |x| one(special::i0e(&x[0]))),
        ("bessel_j0", |x| one(special::bessel_j0(&x[0]))),
        ("airy_ai", |x| one(special::airy_ai(&x[0]))),
        ("erfcx", |x| one(special::erfcx(&x[0]))),
        ("log_ndtr", |x| one(special::log_ndtr(&x[0]))),
        ("gammainc", |x| one(special::gammainc(&x[0], &x[0]))),
        ("zeta", |x| one(special::zeta(&x[0].add(1.1)?, &x[0]))),
        ("polygamma1", |x| one(special::polygamma(1, &x[0]))),
        ("modified_bessel_k0", |x| {
            one(special::modified_bessel_k0(&x[0]))
        }),
        ("hermite_h5", |x| {
            one(special::hermite_polynomial_h(&x[0], 5))
        }),
    ];
    for (name, call) in table {
        let name = format!("special_{name}_{n}");
        add(all, name, [Uniform(n)], 8 * n, call);
    }
}
