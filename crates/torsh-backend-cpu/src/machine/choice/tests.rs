use super::*;
use crate::kernels::attention::choose::AttentionAlgorithm;
use crate::kernels::conv::choose::{ConvAlgorithm, ConvProblem};
use crate::kernels::copy::choose::{CopyAlgorithm, CopyLayout, CopyProblem};
use crate::kernels::fft::choose as fft;
use crate::kernels::index::choose as index;
use crate::kernels::matmul::choose::{Batch, ProductAlgorithm, ProductProblem, ProductSplit};
use crate::kernels::optim::choose::{StepAlgorithm, StepProblem};
use crate::kernels::pooling::choose::{PoolAlgorithm, PoolKind, PoolProblem};
use crate::kernels::reduce::choose::{ReduceAlgorithm, ReduceProblem, ReduceSplit, SplitProblem};
use crate::kernels::resample::choose::{ResampleAlgorithm, ResampleProblem};
use crate::kernels::rnn::choose::{RnnAlgorithm, RnnProblem};
use crate::kernels::row_norm::choose::{RowNormAlgorithm, RowNormProblem};
use crate::kernels::scan::choose::{ScanAlgorithm, ScanProblem};
use crate::kernels::softmax::choose::{SoftmaxAlgorithm, SoftmaxProblem};
use crate::kernels::sort::choose::{SortAlgorithm, SortProblem, SortSplit, SortSplitProblem};
use crate::memory::transpose::choose::{TransposeAlgorithm, TransposeProblem};
use crate::operations::all;
use crate::sparse::choose as sparse;

#[torsh_macros::unit_test]
fn tuning_files_are_read_and_mistakes_told_by_line() {
    let text = "# measured\nmatmul float32 m=2 n=2 k=2 a=N b=N out=N threads=1: packed # all\n\n";
    let read = read_tuning(text, all()).unwrap();
    let problem = "matmul float32 m=2 n=2 k=2 a=N b=N out=N threads=1";
    assert_eq!(read[problem], "packed");
    assert_eq!(read.len(), 1);
    let error = |text: &str| read_tuning(text, all()).unwrap_err();
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
#[torsh_macros::unit_test]
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
    check::<ProductSplit>(&batches);
    check::<ConvAlgorithm>(&crate::kernels::conv::choose::tests::problems());
    check::<AttentionAlgorithm>(&AttentionAlgorithm::examples());
    check::<ReduceAlgorithm>(&reductions());
    check::<ReduceSplit>(&splits());
    check::<fft::LinesAlgorithm>(&transforms());
    check::<SoftmaxAlgorithm>(&softmaxes());
    let sorts = [1, 511, 512, 5000, 1 << 20].map(|n| SortProblem { n, bits: 32 });
    check::<SortAlgorithm>(&sorts);
    check::<SortSplit>(&sorted_lines());
    check::<ResampleAlgorithm>(&resamples());
    check::<RnnAlgorithm>(&rnns());
    check::<RowNormAlgorithm>(&row_norms());
    check::<ScanAlgorithm>(&scans());
    check::<CopyAlgorithm>(&copies());
    check::<TransposeAlgorithm>(&transposes());
    check::<PoolAlgorithm>(&poolings());
    check::<StepAlgorithm>(&steps());
    check::<index::GatherAlgorithm>(&gathers());
    check::<index::ScatterAlgorithm>(&scatters());
    check::<index::ScatterSumAlgorithm>(&sums_into_places());
    check::<index::SelectAlgorithm>(&selections());
    check::<index::MaskedFillAlgorithm>(&masked_fills());
    check::<index::IsinAlgorithm>(&[1, 16, 17, 1000].map(|keys| index::IsinProblem { keys }));
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

fn splits() -> Vec<SplitProblem> {
    [
        [1, 1, 1_000_000, 1],
        [1, 1, 1_000_000, 2],
        [1024, 1, 1024, 2],
        [1024, 8, 1024, 2],
        [3, 3, 1000, 2],
        [1 << 20, 1, 64, 2],
    ]
    .map(|[results, blocks, outermost, parts]| SplitProblem {
        results,
        blocks,
        outermost,
        parts,
    })
    .to_vec()
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

fn sorted_lines() -> Vec<SortSplitProblem> {
    [(1, 1_000_000), (1024, 1024), (1, 1000)]
        .map(|(lines, n)| SortSplitProblem { lines, n })
        .to_vec()
}

fn resamples() -> Vec<ResampleProblem> {
    let of = |planes, from, to, passes, adjacent| ResampleProblem {
        dtype: torsh_core::DType::F32,
        planes,
        from,
        to,
        passes,
        adjacent,
    };
    vec![
        of(24, 112 * 112, 224 * 224, 2, true),
        of(24, 112 * 112, 224 * 224, 2, false),
        of(512, 112 * 112, 224 * 224, 2, true),
        of(512, 112, 112_000, 1, false),
    ]
}

fn rnns() -> Vec<RnnProblem> {
    let of = |batch, rows, weight, projected| RnnProblem {
        backward: false,
        batch,
        rows,
        weight,
        projected,
    };
    vec![
        of(32, 3200, [512, 128], false),
        of(32, 3200, [512, 128], true),
        of(32, 3200, [4096, 1024], false),
        of(1, 100, [512, 128], false),
    ]
}

fn row_norms() -> Vec<RowNormProblem> {
    let of = |rows, n, same| RowNormProblem {
        dtype: torsh_core::DType::F32,
        same,
        rows,
        n,
    };
    vec![
        of(4096, 1024, true),
        of(256, 128, true),
        of(65_536, 1024, true),
        of(65_536, 1024, false),
        of(64, 65_536, true),
    ]
}

fn transforms() -> Vec<fft::LinesProblem> {
    let of = |points, size, outer, inner| fft::LinesProblem {
        points,
        size,
        outer,
        inner,
        adjacent: inner == 1,
        even: true,
    };
    vec![
        of(1024, 4, 1, 1),
        of(16384, 4, 1, 1),
        of(1 << 20, 4, 1, 1),
        of(1_000_000, 8, 1, 1),
        of(65_537, 4, 1, 1),
        of(256, 4, 4096, 1),
        of(200, 4, 4096, 1),
        of(1024, 4, 1, 1024),
        of(1024, 8, 1, 1024),
        of(1009, 4, 1, 1024),
        of(64, 4, 64, 64),
        of(512, 4, 8, 257),
        fft::LinesProblem {
            even: false,
            ..of(1125, 4, 64, 1)
        },
    ]
}

fn scans() -> Vec<ScanProblem> {
    let of = |sums, n, lines, across, across_is_closer| ScanProblem {
        sums,
        n,
        lines,
        across,
        across_is_closer,
        adjacent_along: !across_is_closer,
    };
    let f32 = Some(torsh_core::DType::F32);
    vec![
        of(f32, 1_000_000, 1, 1, false),
        of(f32, 1024, 1024, 1024, false),
        of(f32, 1024, 1024, 1024, true),
        of(f32, 1024, 4, 4, true),
        of(Some(torsh_core::DType::I64), 1_000_000, 1, 1, false),
        of(None, 1024, 1024, 1024, false),
        of(None, 1024, 1024, 1024, true),
    ]
}

fn copies() -> Vec<CopyProblem> {
    use torsh_core::DType::{F32, F64, U8};
    let of = |from, to, numel, layout| CopyProblem {
        from,
        to,
        numel,
        layout,
    };
    let strided = |inner, adjacent, transposed| CopyLayout::Strided {
        inner,
        several: true,
        adjacent,
        transposed,
    };
    let contiguous = CopyLayout::Contiguous { apart: true };
    vec![
        of(F32, F32, 1, contiguous),
        of(F32, F32, 64, contiguous),
        of(F32, F32, 65_536, contiguous),
        of(F32, F32, 16_000_000, contiguous),
        of(
            F32,
            F32,
            16_000_000,
            CopyLayout::Contiguous { apart: false },
        ),
        of(U8, F32, 150_528, contiguous),
        of(F32, F32, 1 << 20, strided(1024, [false, true], true)),
        of(F32, F32, 6_422_528, strided(56, [true; 2], false)),
        of(F32, F32, 6_422_528, strided(1024, [true; 2], false)),
        of(F32, F32, 6_422_528, strided(56, [false, true], false)),
        of(F64, F32, 1 << 20, strided(1024, [false, true], false)),
    ]
}

fn transposes() -> Vec<TransposeProblem> {
    let of = |rows, columns, others, whole_lines| TransposeProblem {
        size: 4,
        rows,
        columns,
        others,
        whole_lines,
    };
    vec![
        of(1024, 1024, 1, true),
        of(4096, 4096, 1, true),
        of(4095, 4095, 1, false),
        of(64, 3136, 32, true),
    ]
}

fn poolings() -> Vec<PoolProblem> {
    let of = |kind, planes, input, output: usize, rows, small| PoolProblem {
        dtype: torsh_core::DType::F32,
        kind,
        planes,
        input: [1, input, input],
        output: [1, output, output],
        rows,
        small,
        run: output.saturating_sub(1),
    };
    vec![
        of(PoolKind::Maxima, 512, 112, 56, 3, true),
        of(PoolKind::Positions, 512, 112, 56, 3, true),
        of(PoolKind::Means, 512, 56, 28, 2, true),
        of(PoolKind::Maxima, 4096, 112, 56, 3, true),
        of(PoolKind::Maxima, 512, 56, 14, 4, false),
        of(PoolKind::Means, 512, 7, 1, 7, false),
    ]
}

fn steps() -> Vec<StepProblem> {
    use torsh_core::DType::{BF16, F32, F64};
    let of = |row, dtype, plain_adam| StepProblem {
        row,
        dtype,
        plain_adam,
    };
    let adam = torsh_core::Kernel::AdamStep;
    vec![
        of(adam, F32, true),
        of(adam, F32, false),
        of(adam, F64, true),
        of(adam, BF16, true),
        of(torsh_core::Kernel::SgdStep, F32, false),
    ]
}

fn gathers() -> Vec<index::GatherProblem> {
    use index::Along;
    let of = |n, rows, along| index::GatherProblem {
        size: 4,
        n,
        rows,
        along,
    };
    vec![
        of(256, 8192, Along::Row),
        of(64, 100_000, Along::Row),
        of(256, 1, Along::OneIndex),
        of(1_000_000, 1, Along::Offsets),
        of(1_000_000, 1, Along::Apart),
    ]
}

fn scatters() -> Vec<index::ScatterProblem> {
    let of = |p: index::GatherProblem, updates| index::ScatterProblem {
        size: p.size,
        n: p.n,
        rows: p.rows,
        along: p.along,
        updates,
    };
    let both = gathers().into_iter();
    both.flat_map(|p| [of(p, false), of(p, true)]).collect()
}

fn sums_into_places() -> Vec<index::ScatterSumProblem> {
    [
        (1_000_000, 1000),
        (1_000_000, 100),
        (1_000_000, 100_000),
        (1000, 10),
    ]
    .map(|(n, places)| index::ScatterSumProblem { n, places })
    .to_vec()
}

fn selections() -> Vec<index::SelectProblem> {
    [(4, true), (4, false), (8, true), (2, true), (16, true)]
        .map(|(size, adjacent)| index::SelectProblem {
            size,
            n: 1_000_000,
            adjacent,
        })
        .to_vec()
}

fn masked_fills() -> Vec<index::MaskedFillProblem> {
    [(true, true), (false, true), (false, false)]
        .map(|(in_place, adjacent)| index::MaskedFillProblem {
            size: 4,
            n: 1_000_000,
            in_place,
            adjacent,
        })
        .to_vec()
}

/// The choices for an operation's own examples.
fn examples<A: Algorithm>() -> String {
    table::<A>(&A::examples())
}

/// The choices for the benchmark's shapes on five machines, frozen: a change of a threshold shows in the
/// table's diff. `TORSH_WRITE_CHOICES=1` writes the table anew.
#[torsh_macros::unit_test]
fn the_choices_for_the_benchmarks_shapes() {
    if !cfg!(target_arch = "x86_64") {
        return crate::testing::skipped("the expected values are those of x86-64");
    }
    let mut text = String::new();
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
    layer.b = crate::kernels::matmul::choose::MatrixSteps { row: 1, col: 784 };
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
    text += &table::<ProductAlgorithm>(&products);
    let batches = [
        [1, 1024, 1024, 1024],
        [96, 128, 128, 64],
        [3, 300, 300, 300],
        [1, 8, 8, 100_000],
        [3, 1, 4096, 4096],
    ]
    .map(|[count, m, n, k]| Batch { count, m, n, k });
    text += &table::<ProductSplit>(&batches);
    let convs: Vec<ConvProblem> = crate::kernels::conv::choose::tests::benchmark();
    text += &table::<ConvAlgorithm>(&convs);
    text += &examples::<AttentionAlgorithm>();
    text += &table::<ReduceAlgorithm>(&reductions());
    text += &table::<ReduceSplit>(&splits());
    text += &table::<fft::LinesAlgorithm>(&transforms());
    text += &table::<SoftmaxAlgorithm>(&softmaxes());
    let sorts = [100, 1000, 1_000_000].map(|n| SortProblem { n, bits: 32 });
    text += &table::<SortAlgorithm>(&sorts);
    text += &table::<SortSplit>(&sorted_lines());
    text += &table::<ResampleAlgorithm>(&resamples());
    text += &table::<RnnAlgorithm>(&rnns());
    text += &table::<RowNormAlgorithm>(&row_norms());
    text += &table::<ScanAlgorithm>(&scans());
    text += &table::<CopyAlgorithm>(&copies());
    text += &table::<TransposeAlgorithm>(&transposes());
    text += &table::<PoolAlgorithm>(&poolings());
    text += &table::<StepAlgorithm>(&steps());
    text += &table::<index::GatherAlgorithm>(&gathers());
    text += &table::<index::ScatterAlgorithm>(&scatters());
    text += &table::<index::ScatterSumAlgorithm>(&sums_into_places());
    text += &table::<index::SelectAlgorithm>(&selections());
    text += &table::<index::MaskedFillAlgorithm>(&masked_fills());
    text += &examples::<sparse::ProductAlgorithm>();
    text += &examples::<sparse::PatternAlgorithm>();
    text += &examples::<sparse::TermsAlgorithm>();
    text += &examples::<sparse::OrderAlgorithm>();
    text += &examples::<sparse::BlocksAlgorithm>();
    text += &examples::<sparse::BlocksSplit>();
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
