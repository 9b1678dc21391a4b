use super::*;
use crate::kernels::attention::choose::{AttentionAlgorithm, AttentionProblem};
use crate::kernels::conv::choose::{ConvAlgorithm, ConvProblem};
use crate::kernels::matmul::choose::{Batch, ProductAlgorithm, ProductProblem, Split};
use crate::kernels::reduce::choose::{ReduceAlgorithm, ReduceProblem};
use crate::kernels::softmax::choose::{SoftmaxAlgorithm, SoftmaxProblem};
use crate::kernels::sort::choose::{SortAlgorithm, SortProblem};
use crate::operations::OPERATIONS;

#[test]
fn tuning_files_are_read_and_mistakes_told_by_line() {
    let text = "# measured\nmatmul float32 m=2 n=2 k=2 a=N b=N out=N threads=1: packed # all\n\n";
    let read = read_tuning(text, OPERATIONS).unwrap();
    let problem = "matmul float32 m=2 n=2 k=2 a=N b=N out=N threads=1";
    assert_eq!(read[problem], "packed");
    assert_eq!(read.len(), 1);
    let error = |text: &str| read_tuning(text, OPERATIONS).unwrap_err();
    assert_eq!(error("\nmatmul m=2"), "line 2: no `:` in `matmul m=2`");
    assert_eq!(
        error("matmull m=2: packed"),
        "line 1: no operation `matmull`"
    );
    assert_eq!(
        error("conv m=2: packed"),
        "line 1: conv has no algorithm `packed`"
    );
}

/// Every algorithm has a name of its own, and what is chosen is accepted, on every machine.
#[test]
fn choices_are_accepted() {
    fn check<A: Algorithm>(problems: &[A::Problem]) {
        let names: Vec<_> = A::ALL.iter().map(|a| a.name()).collect();
        for (i, name) in names.iter().enumerate() {
            assert!(!names[..i].contains(name), "{}: {name} twice", A::OP);
        }
        for machine in Machine::DESCRIBED {
            let machine = Machine::described(machine).unwrap();
            for problem in problems {
                for threads in [1, 2, 16] {
                    let (chosen, reason) = A::choose(problem, &machine, threads);
                    assert!(
                        chosen.accepts(problem, &machine) && !reason.is_empty(),
                        "{} on {}: {problem}: {chosen:?}",
                        A::OP,
                        machine.name
                    );
                }
            }
        }
    }
    let sizes = [1, 2, 3, 8, 17, 64, 300, 2048];
    let mut products = Vec::new();
    let mut batches = Vec::new();
    for m in sizes {
        for n in sizes {
            for k in sizes {
                for dtype in torsh_core::DType::ALL {
                    if dtype != torsh_core::DType::Bool {
                        products.push(ProductProblem::row_major(dtype, m, n, k));
                    }
                }
                batches.extend([1, 2, 7].map(|count| Batch { count, m, n, k }));
            }
        }
    }
    check::<ProductAlgorithm>(&products);
    check::<Split>(&batches);
    check::<ConvAlgorithm>(&crate::kernels::conv::choose::tests::problems());
    check::<AttentionAlgorithm>(&attentions());
    check::<ReduceAlgorithm>(&reductions());
    check::<SoftmaxAlgorithm>(&softmaxes());
    let sorts = [1, 511, 512, 5000, 1 << 20].map(|n| SortProblem { n, bits: 32 });
    check::<SortAlgorithm>(&sorts);
}

/// Heads of the benchmark, and smaller ones.
fn attentions() -> Vec<AttentionProblem> {
    let mut all = Vec::new();
    for (l, s, e) in [(512, 512, 64), (128, 128, 32), (64, 64, 64), (1, 512, 64)] {
        for (backward, masked) in [(false, false), (false, true), (true, false), (true, true)] {
            all.push(AttentionProblem {
                dtype: torsh_core::DType::F32,
                backward,
                l,
                s,
                e,
                d: e,
                masked,
            });
        }
    }
    all
}

fn reductions() -> Vec<ReduceProblem> {
    let of = |results, count, kept, reduced, kept_is_closer| ReduceProblem {
        results,
        count,
        kept,
        reduced,
        kept_is_closer,
        short: 64,
    };
    vec![
        of(1, 1_000_000, 1, 1_000_000, false),
        of(1024, 1024, 1024, 1024, false),
        of(1024, 1024, 1024, 1024, true),
        of(4096, 16, 4096, 16, false),
        of(4, 100, 4, 100, true),
    ]
}

fn softmaxes() -> Vec<SoftmaxProblem> {
    let of = |native, n, rows: usize, across_is_closer: bool| SoftmaxProblem {
        native,
        is_softmax: true,
        n,
        across: rows,
        rows,
        across_is_closer,
        adjacent_along: !across_is_closer,
        adjacent_across: across_is_closer,
    };
    let f32 = Some(torsh_core::DType::F32);
    vec![
        of(f32, 1024, 4096, false),
        of(f32, 1024, 65536, false),
        of(f32, 256, 256, true),
        of(f32, 10, 10_000, false),
        of(Some(torsh_core::DType::F64), 1024, 4096, false),
        of(None, 1024, 4096, false),
        of(None, 256, 256, true),
    ]
}

/// The choices for the benchmark's shapes on five machines, frozen: a change of a threshold shows in the
/// table's diff. `TORSH_WRITE_CHOICES=1` writes the table anew.
#[test]
fn the_choices_for_the_benchmarks_shapes() {
    use std::fmt::Write as _;
    let mut text = String::new();
    fn table<A: Algorithm>(text: &mut String, problems: &[A::Problem]) {
        for problem in problems {
            let _ = writeln!(text, "{} {problem}", A::OP);
            for name in Machine::DESCRIBED {
                let machine = Machine::described(name).unwrap();
                let [one, two] = [1, 2].map(|n| A::choose(problem, &machine, n).0.name());
                let _ = match one == two {
                    true => writeln!(text, "  {name}: {one}"),
                    false => writeln!(text, "  {name}: {one}, with two threads {two}"),
                };
            }
        }
    }
    let f32_product =
        |[m, n, k]: [usize; 3]| ProductProblem::row_major(torsh_core::DType::F32, m, n, k);
    let mut products = [
        [256, 256, 256],
        [512, 512, 512],
        [1024, 1024, 1024],
        [64, 64, 64],
        [16, 16, 16],
        [128, 64, 128],
        [256, 3072, 768],
        [32, 128, 784],
        [1, 4096, 4096],
    ]
    .map(f32_product)
    .to_vec();
    // A layer's weight is read transposed.
    let mut layer = f32_product([32, 128, 784]);
    layer.b = crate::kernels::matmul::choose::Steps { row: 1, col: 784 };
    products.push(layer);
    for (dtype, n) in [
        (torsh_core::DType::F64, 512),
        (torsh_core::DType::BF16, 1024),
        (torsh_core::DType::F16, 256),
        (torsh_core::DType::C64, 256),
        (torsh_core::DType::I64, 256),
    ] {
        products.push(ProductProblem::row_major(dtype, n, n, n));
    }
    table::<ProductAlgorithm>(&mut text, &products);
    let batches = [
        [1, 1024, 1024, 1024],
        [96, 128, 128, 64],
        [3, 300, 300, 300],
        [1, 8, 8, 100_000],
        [3, 1, 4096, 4096],
    ]
    .map(|[count, m, n, k]| Batch { count, m, n, k });
    table::<Split>(&mut text, &batches);
    let convs: Vec<ConvProblem> = crate::kernels::conv::choose::tests::benchmark();
    table::<ConvAlgorithm>(&mut text, &convs);
    table::<AttentionAlgorithm>(&mut text, &attentions());
    table::<ReduceAlgorithm>(&mut text, &reductions());
    table::<SoftmaxAlgorithm>(&mut text, &softmaxes());
    let sorts = [100, 1000, 1_000_000].map(|n| SortProblem { n, bits: 32 });
    table::<SortAlgorithm>(&mut text, &sorts);
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/src/machine/choice/choices.txt"
    );
    if std::env::var_os("TORSH_WRITE_CHOICES").is_some() {
        std::fs::write(path, &text).unwrap();
    }
    let frozen = std::fs::read_to_string(path).unwrap();
    for (ours, theirs) in text.lines().zip(frozen.lines()) {
        assert_eq!(ours, theirs, "a choice changed; see {path}");
    }
    assert_eq!(text.lines().count(), frozen.lines().count());
}
