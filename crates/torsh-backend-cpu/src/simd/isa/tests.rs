//! The model against values worked out by hand, and against the processor where it has the instructions.

use super::model::program::Program;
use super::model::{dot, fused, sum, to_bf16, wide};
use super::{amx::is_present, bf16, stand_in};
use crate::kernels::matmul::amx;
use crate::testing::skipped;

fn two(power: i32) -> f32 {
    2f64.powi(power) as f32
}

/// A number that is exact in bfloat16.
fn b(x: f32) -> u16 {
    assert_eq!(x.to_bits() & 0xffff, 0, "{x}");
    (x.to_bits() >> 16) as u16
}

const ONE: u16 = 0x3f80;

#[torsh_macros::unit_test]
fn sums_round_once_to_even() {
    // Above 2^24 every second integer is a number: halves go to the multiple of 4.
    assert_eq!(fused(1.0, 1.0, two(24)), two(24));
    assert_eq!(fused(1.0, 1.0, two(24) + 2.0), two(24) + 4.0);
    assert_eq!(fused(1.5, 1.0, two(24)), two(24) + 2.0);
    assert_eq!(sum(two(24) + 2.0, 1.0), two(24) + 4.0);
    // The product by itself would be rounded to 0.
    let exact = fused(two(-70), two(-70), f32::MIN_POSITIVE);
    assert_eq!(exact.to_bits(), 0x0080_0200);
    // Too large by itself, and exact in the sum.
    assert_eq!(fused(two(100), two(28), -two(127)), two(127));
    assert_eq!(fused(two(100), two(28), 0.0), f32::INFINITY);
}

#[torsh_macros::unit_test]
fn subnormal_results_are_zeros_of_their_sign() {
    let least = f32::MIN_POSITIVE;
    let below = |x: f32| x.to_bits();
    assert_eq!(below(sum(-1.5 * least, least)), below(-0.0));
    assert_eq!(below(sum(1.5 * least, -least)), below(0.0));
    assert_eq!(below(fused(two(-70), -two(-70), 0.0)), below(-0.0));
    assert_eq!(fused(two(-63), two(-63), 0.0), least);
    // 2^-126 - 2^-150 has 24 bits and is below the normal numbers, although it would round up to 2^-126 at the
    // spacing of subnormal ones.
    assert_eq!(below(fused(two(-75), -two(-75), least)), below(0.0));
    // 2^-126 - 2^-151 rounds to 24 bits as 2^-126.
    assert_eq!(fused(two(-75), -two(-76), least), least);
    assert_eq!(
        below(fused(two(-75), two(-75), -least)),
        below(-0.0),
        "the same of the other sign"
    );
}

#[torsh_macros::unit_test]
fn pairs_are_added_upper_number_first() {
    let (large, one) = (b(two(24)), ONE);
    // (1 + 2^24) - 2^24, of which the first sum is 2^24.
    assert_eq!(dot(1.0, [one, one], [b(-two(24)), large]), 0.0);
    // (1 - 2^24) + 2^24, which is exact.
    assert_eq!(dot(1.0, [one, one], [large, b(-two(24))]), 1.0);
    assert_eq!(dot(3.0, [b(5.0), b(7.0)], [b(11.0), b(-2.0)]), 44.0);
}

#[torsh_macros::unit_test]
fn subnormal_operands_count_as_zeros() {
    let greatest = 0x007f;
    assert_eq!(dot(2.0, [greatest, ONE], [b(two(127)), ONE]), 3.0);
    assert_eq!(dot(2.0, [b(two(127)), ONE], [greatest, ONE]), 3.0);
    assert_eq!(dot(f32::from_bits(0x007f_ffff), [ONE, ONE], [0, 0]), 0.0);
    let negative = dot(-f32::from_bits(1), [ONE, ONE], [0x8000, 0x8000]);
    assert_eq!(negative.to_bits(), (-0f32).to_bits());
    // Not an infinity times a subnormal number, but times 0.
    assert!(dot(0.0, [1, 0], [b(f32::INFINITY), 0]).is_nan());
}

#[torsh_macros::unit_test]
fn nan_and_infinities_of_pairs() {
    let infinite = b(f32::INFINITY);
    let default = 0xffc0_0000;
    assert_eq!(dot(1.0, [infinite, ONE], [ONE, ONE]), f32::INFINITY);
    assert_eq!(dot(1.0, [infinite, 0], [0, 0]).to_bits(), default);
    let opposite = dot(f32::INFINITY, [b(f32::NEG_INFINITY), ONE], [ONE, ONE]);
    assert_eq!(opposite.to_bits(), default);
    // The table's order, each nan with its payload and made quiet.
    let (low, high) = (0x7f81, 0xff82);
    let quiet = |x: u16| u32::from(x | 0x0040) << 16;
    let sum = f32::from_bits(0x7f80_0003);
    assert_eq!(dot(sum, [low, high], [high, low]).to_bits(), quiet(low));
    assert_eq!(dot(sum, [ONE, high], [low, high]).to_bits(), quiet(low));
    assert_eq!(dot(sum, [ONE, high], [ONE, low]).to_bits(), quiet(high));
    assert_eq!(dot(sum, [ONE, ONE], [ONE, low]).to_bits(), quiet(low));
    assert_eq!(dot(sum, [ONE; 2], [ONE; 2]).to_bits(), 0x7fc0_0003);
}

#[torsh_macros::unit_test]
fn conversions_round_to_even() {
    let of = |bits: u32| to_bf16(f32::from_bits(bits));
    for (from, to) in [
        (0x3f80_0000, 0x3f80),
        (0x3f80_7fff, 0x3f80),
        (0x3f80_8000, 0x3f80),
        (0x3f80_8001, 0x3f81),
        (0x3f81_8000, 0x3f82),
        (0xbf81_7fff, 0xbf81),
        // The greatest number, and the greatest that is not rounded to infinity.
        (0x7f7f_ffff, 0x7f80),
        (0x7f7f_7fff, 0x7f7f),
        (0xff80_0000, 0xff80),
        // Subnormal numbers, also those that would be rounded up.
        (0x007f_ffff, 0x0000),
        (0x8000_0001, 0x8000),
        (0x0080_0000, 0x0080),
        // Nan keeps its upper bits and becomes quiet.
        (0x7f80_0001, 0x7fc0),
        (0xffa1_2345, 0xffe1),
        (0x7fff_ffff, 0x7fff),
    ] {
        assert_eq!(of(from), to, "{from:#x}");
    }
}

/// Numbers that look random.
fn random(state: &mut u64) -> u64 {
    *state = state
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    let x = *state ^ *state >> 29;
    x.wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 16
}

/// Of both signs: zeros, subnormal numbers, the least and greatest normal ones, those about 1, infinities, nan.
const SPECIAL: [u32; 24] = [
    0x0000_0000,
    0x8000_0000,
    0x0000_0001,
    0x8000_0001,
    0x0001_0000,
    0x007f_0000,
    0x807f_ffff,
    0x0080_0000,
    0x8080_0000,
    0x00ff_0000,
    0x0100_8000,
    0x3f80_0000,
    0xbf80_0000,
    0x3f81_8000,
    0xbf80_8000,
    0x4b80_0000,
    0xcb80_0001,
    0x7f7f_0000,
    0xff7f_ffff,
    0x7f80_0000,
    0xff80_0000,
    0x7fc0_0000,
    0xffc1_0000,
    0x7f81_0001,
];

/// A number of any bits, one whose exponent is near 0, near the least or near the greatest, or a special one.
fn any(state: &mut u64) -> u32 {
    let bits = random(state) as u32;
    let near = |exponent: u32| bits & 0x807f_ffff | (exponent + (bits >> 23 & 7)) << 23;
    match random(state) % 8 {
        0 => SPECIAL[bits as usize % SPECIAL.len()],
        1..3 => near(124),
        3 => near(0),
        4 => near(247),
        // Products of two are about the least normal number.
        5 => near(60),
        _ => bits,
    }
}

#[torsh_macros::unit_test]
fn the_model_computes_what_the_processor_does() {
    if !bf16::is_present() {
        return skipped("no AVX512-BF16 to compare its model with");
    }
    let check = |to: [f32; 16], a: [[u16; 2]; 16], b: [[u16; 2]; 16]| {
        // SAFETY: the processor has the instructions.
        let got = unsafe { real::dot(&to, &a, &b) };
        for i in 0..16 {
            let want = dot(to[i], a[i], b[i]);
            assert_eq!(
                got[i].to_bits(),
                want.to_bits(),
                "{:#x} + {:#x?} * {:#x?}: {:e} is {want:e} by the model",
                to[i].to_bits(),
                a[i],
                b[i],
                got[i]
            );
        }
    };
    let mut state = 1;
    for _ in 0..100_000 {
        let mut pair = |_| [any(&mut state), any(&mut state)].map(|x| (x >> 16) as u16);
        let (a, b): ([_; 16], [_; 16]) = (
            std::array::from_fn(&mut pair),
            std::array::from_fn(&mut pair),
        );
        check(
            std::array::from_fn(|_| f32::from_bits(any(&mut state))),
            a,
            b,
        );
    }
    // Every triple of special values, and every number of bfloat16 by some.
    let upper = |x: u32| (x >> 16) as u16;
    for (x, y) in SPECIAL.into_iter().flat_map(|x| SPECIAL.map(|y| (x, y))) {
        for to in SPECIAL.chunks(8) {
            let to = std::array::from_fn(|i| f32::from_bits(to[i % 8]));
            let a = std::array::from_fn(|i| {
                if i < 8 {
                    [upper(x), 0]
                } else {
                    [ONE, upper(x)]
                }
            });
            let b = std::array::from_fn(|i| {
                if i < 8 {
                    [upper(y), 0]
                } else {
                    [upper(x), upper(y)]
                }
            });
            check(to, a, b);
        }
    }
    for first in (0..=u16::MAX).step_by(16) {
        let a = std::array::from_fn(|i| [first + i as u16, ONE]);
        for by in [ONE, 0x0080, 0x7f7f, 0x3eab] {
            check([1.0; 16], a, [[by, 0]; 16]);
            check([0.0; 16], a, [[by, by]; 16]);
        }
    }
}

#[torsh_macros::unit_test]
fn the_model_rounds_as_the_processor_does() {
    if !bf16::is_present() {
        return skipped("no AVX512-BF16 to compare its model with");
    }
    let check = |x: [f32; 16]| {
        let reversed = std::array::from_fn(|i| x[15 - i]);
        // SAFETY: the processor has the instructions.
        let (one, two) = unsafe { (real::rounded(&x), real::rounded_two(&x, &reversed)) };
        for (i, &x) in x.iter().enumerate() {
            let want = to_bf16(x);
            assert_eq!(one[i], want, "{:#x}", x.to_bits());
            assert_eq!((two[i], two[31 - i]), (want, want), "{:#x}", x.to_bits());
        }
    };
    let mut state = 2;
    for _ in 0..200_000 {
        check(std::array::from_fn(|_| f32::from_bits(any(&mut state))));
    }
    // Around every number of bfloat16, and halfway to the next one.
    for bits in 0..=u16::MAX {
        let low = [0, 1, 0x7fff, 0x8000, 0x8001, 0xffff];
        check(std::array::from_fn(|i| {
            f32::from_bits(u32::from(bits) << 16 | low[i % 6])
        }));
    }
}

/// The instructions where the processor has them, whatever other tests have the model do.
mod real {
    use std::arch::x86_64::*;
    use std::mem::transmute;

    #[target_feature(enable = "avx512f,avx512bf16")]
    pub fn dot(sums: &[f32; 16], a: &[[u16; 2]; 16], b: &[[u16; 2]; 16]) -> [f32; 16] {
        // SAFETY: all are 64 bytes, and any bits are valid.
        unsafe {
            let [a, b] = [a, b].map(|x| transmute::<[[u16; 2]; 16], __m512bh>(*x));
            let sums = transmute::<[f32; 16], __m512>(*sums);
            transmute::<__m512, [f32; 16]>(_mm512_dpbf16_ps(sums, a, b))
        }
    }
    #[target_feature(enable = "avx512f,avx512bf16")]
    pub fn rounded(x: &[f32; 16]) -> [u16; 16] {
        // SAFETY: of one size, and any bits are valid.
        unsafe {
            let x = transmute::<[f32; 16], __m512>(*x);
            transmute::<__m256bh, [u16; 16]>(_mm512_cvtneps_pbh(x))
        }
    }
    #[target_feature(enable = "avx512f,avx512bf16")]
    pub fn rounded_two(x: &[f32; 16], y: &[f32; 16]) -> [u16; 32] {
        // SAFETY: of one size, and any bits are valid.
        unsafe {
            let [x, y] = [x, y].map(|x| transmute::<[f32; 16], __m512>(*x));
            transmute::<__m512bh, [u16; 32]>(_mm512_cvtne2ps_pbh(y, x))
        }
    }
}

/// A configuration as LDTILECFG reads it: rows, and bytes of a row, of each tile.
fn config(tiles: &[(u8, u16)]) -> [u8; 64] {
    let mut memory = [0; 64];
    memory[0] = 1;
    for (i, (rows, bytes)) in tiles.iter().enumerate() {
        memory[16 + 2 * i..18 + 2 * i].copy_from_slice(&bytes.to_le_bytes());
        memory[48 + i] = *rows;
    }
    memory
}

/// Runs instructions whose operands are addresses, or numbers.
fn run(texts: &[&str], operands: &[(&str, usize)]) {
    let names: Vec<&str> = operands.iter().map(|o| o.0).collect();
    let mut registers: Vec<usize> = operands.iter().map(|o| o.1).collect();
    // SAFETY: the tests' buffers have room for the tiles that they configure.
    unsafe { Program::new(texts, &names).run(&mut registers) };
}

fn at<T>(data: &[T]) -> usize {
    data.as_ptr() as usize
}

fn at_mut<T>(data: &mut [T]) -> usize {
    data.as_mut_ptr() as usize
}

/// A product of tiles of `m` rows, `n` columns and `k` pairs by the model.
fn product([m, n, k]: [usize; 3], c: &[f32], a: &[[u16; 2]], b: &[[u16; 2]]) -> Vec<f32> {
    let sizes = config(&[
        (m as u8, 4 * n as u16),
        (m as u8, 4 * k as u16),
        (k as u8, 4 * n as u16),
    ]);
    let mut out = c.to_vec();
    run(
        &[
            "ldtilecfg [{z}]",
            "tileloadd tmm0, [{c} + {n}]",
            "tileloaddt1 tmm1, [{a} + {k}]\ntileloadd tmm2, [{b} + {n}]",
            "tdpbf16ps tmm0, tmm1, tmm2",
            "tilestored [{c} + {n}], tmm0",
            "tilerelease",
        ],
        &[
            ("z", at(&sizes)),
            ("c", at_mut(&mut out)),
            ("a", at(a)),
            ("b", at(b)),
            ("n", 4 * n),
            ("k", 4 * k),
        ],
    );
    out
}

#[torsh_macros::unit_test]
fn products_of_tiles_of_any_size() {
    for (m, n, k) in (1..=16).flat_map(|m| [1, 3, 16].map(|n| (m, n, 17 - m))) {
        let small = |i: usize| b(((i * 7 + 3) % 9) as f32 - 4.0);
        let pairs = |count: usize, seed: usize| -> Vec<[u16; 2]> {
            (0..count)
                .map(|i| [small(2 * i + seed), small(2 * i + seed + 1)])
                .collect()
        };
        let (left, right) = (pairs(m * k, 1), pairs(k * n, 2));
        let c: Vec<f32> = (0..m * n).map(|i| i as f32).collect();
        let got = product([m, n, k], &c, &left, &right);
        for (i, j) in (0..m).flat_map(|i| (0..n).map(move |j| (i, j))) {
            let terms = (0..k).flat_map(|p| [0, 1].map(|half| (p, half)));
            let sum: f32 = terms
                .map(|(p, half)| wide(left[i * k + p][half]) * wide(right[p * n + j][half]))
                .sum();
            assert_eq!(
                got[i * n + j],
                c[i * n + j] + sum,
                "{m} {n} {k} at {i}, {j}"
            );
        }
    }
}

#[torsh_macros::unit_test]
fn a_tile_sums_first_and_second_numbers_apart_and_from_zero() {
    let (large, one) = (b(two(24)), ONE);
    let of = |c: f32, left: &[[u16; 2]], right: &[[u16; 2]]| {
        product([1, 1, left.len()], &[c], left, right)[0]
    };
    // Not 1 + 2^24 - 2^24, which is 0.
    assert_eq!(
        of(1.0, &[[one, 0]; 2], &[[large, 0], [b(-two(24)), 0]]),
        1.0
    );
    // 2^24 - 2^24 and 1 + 1: in the order of the terms it would be 1.
    assert_eq!(
        of(0.0, &[[one; 2]; 2], &[[large, one], [b(-two(24)), one]]),
        2.0
    );
    // The first numbers in their order: (2^24 + 1) + 1, but (1 + 1) + 2^24.
    assert_eq!(
        of(0.0, &[[one, 0]; 3], &[[large, 0], [one, 0], [one, 0]]),
        two(24)
    );
    assert_eq!(
        of(0.0, &[[one, 0]; 3], &[[one, 0], [one, 0], [large, 0]]),
        two(24) + 2.0
    );
    // The pair is added up before what the tile held: (2^24 + 1) + 1.
    assert_eq!(of(1.0, &[[one; 2]], &[[large, one]]), two(24));
    // Subnormal numbers, before and after.
    assert_eq!(of(f32::from_bits(9), &[[one, 0]], &[[1, 0]]).to_bits(), 0);
    assert_eq!(
        of(0.0, &[[b(two(-70)), 0]], &[[b(-two(-70)), 0]]).to_bits(),
        0
    );
    let least = f32::MIN_POSITIVE;
    assert_eq!(
        of(least, &[[b(two(-70)), 0]], &[[b(two(-70)), 0]]),
        least,
        "a product flushed by itself"
    );
    // What is not finite stays in its row.
    let infinite = b(f32::INFINITY);
    let rows = product(
        [2, 1, 1],
        &[1.0; 2],
        &[[infinite, 0], [one, one]],
        &[[one, one]],
    );
    assert_eq!(rows, [f32::INFINITY, 3.0]);
    let nan = product(
        [2, 2, 1],
        &[1.0; 4],
        &[[infinite, 0], [one, 0]],
        &[[one, 0], [0, 0]],
    );
    assert!(nan[1].is_nan() && nan[0] == f32::INFINITY && nan[2..] == [2.0, 1.0]);
}

#[torsh_macros::unit_test]
fn tiles_are_loaded_and_stored_by_rows() {
    let from: Vec<u8> = (0..200).map(|i| i as u8).collect();
    let mut to = vec![0xeeu8; 200];
    let sizes = config(&[(3, 5), (16, 64)]);
    let operands = [
        ("z", at(&sizes)),
        ("a", at(&from)),
        ("s", 40),
        ("o", at_mut(&mut to)),
        ("w", 30),
    ];
    let texts = [
        "ldtilecfg [{z}]",
        "tileloadd tmm0, [{a} + {s} + 7]",
        "tilestored [{o} + {w} + 2], tmm0",
    ];
    run(&texts, &operands);
    for (i, &byte) in to.iter().enumerate() {
        let (row, column) = (i.wrapping_sub(2) / 30, i.wrapping_sub(2) % 30);
        let want = if row < 3 && column < 5 {
            7 + 40 * row + column
        } else {
            0xee
        };
        assert_eq!(usize::from(byte), want, "at {i}");
    }
    // Zeros in place of what was there; configuring clears, too.
    run(
        &["tilezero tmm0", "tilestored [{o} + {w} + 2], tmm0"],
        &operands,
    );
    assert_eq!(to[2..7], [0; 5]);
    to.fill(0xee);
    run(
        &[
            "tileloadd tmm0, [{a} + {s}]",
            "ldtilecfg [{z}]",
            "tilestored [{o} + {w}], tmm0",
            "tilerelease",
        ],
        &operands,
    );
    assert_eq!(to[30..36], [0, 0, 0, 0, 0, 0xee]);
}

#[torsh_macros::unit_test]
fn loops_end_where_they_count_down_to_zero() {
    let sizes = config(&[(1, 4), (1, 4), (1, 4)]);
    let (a, one, mut out) = (
        [[b(1.0), b(2.0)], [b(3.0), b(4.0)], [b(5.0), b(6.0)]],
        [ONE; 2],
        [0f32],
    );
    let texts = [
        "ldtilecfg [{z}]\ntilezero tmm0\ntileloadd tmm2, [{b} + {s}]",
        "2:",
        "tileloadd tmm1, [{a} + {s}]\ntdpbf16ps tmm0, tmm1, tmm2\nprefetcht1 [{a} + 64]\nadd {a}, 4\nadd {b}, {s}",
        "dec {n}",
        "jnz 2b",
        "tilestored [{o} + {s}], tmm0\ntilerelease",
    ];
    let operands = [
        ("z", at(&sizes)),
        ("a", at(&a)),
        ("b", at(&one)),
        ("s", 4),
        ("n", 3),
        ("o", at_mut(&mut out)),
    ];
    run(&texts, &operands);
    assert_eq!(out, [21.0]);
}

#[torsh_macros::unit_test]
fn what_the_processor_refuses_is_refused() {
    let refused = |why: &str, texts: &[&str], memory: [u8; 64]| {
        let out = [0f32; 256];
        let operands = [("z", at(&memory)), ("o", at(&out)), ("s", 64)];
        let result = std::panic::catch_unwind(|| run(texts, &operands));
        let panic = result.expect_err(why);
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text
            .or(panic.downcast_ref::<&str>().copied())
            .unwrap_or_default();
        assert!(text.contains(why), "{text}, not {why}");
        run(&["tilerelease"], &[]);
    };
    let whole = config(&[(16, 64); 8]);
    refused(
        "#UD: the tiles are not configured",
        &["tilezero tmm0"],
        whole,
    );
    let released = [
        "ldtilecfg [{z}]",
        "tilerelease",
        "tileloadd tmm0, [{o} + {s}]",
    ];
    refused("#UD: the tiles are not configured", &released, whole);
    let mut nothing = whole;
    nothing[0] = 0;
    refused(
        "#UD: the tiles are not configured",
        &["ldtilecfg [{z}]", "tilezero tmm0"],
        nothing,
    );
    refused(
        "#UD: tmm3 is not configured",
        &["ldtilecfg [{z}]", "tilezero tmm3"],
        config(&[(1, 4)]),
    );
    let product = ["ldtilecfg [{z}]", "tdpbf16ps tmm0, tmm1, tmm2"];
    refused("is not of", &product, config(&[(2, 8), (2, 8), (1, 8)]));
    refused("is not of", &product, config(&[(2, 8), (1, 8), (2, 8)]));
    refused("is not of", &product, config(&[(2, 4), (2, 8), (2, 8)]));
    refused(
        "one tile twice",
        &["ldtilecfg [{z}]", "tdpbf16ps tmm0, tmm1, tmm1"],
        whole,
    );
    for (at, value) in [(0, 2), (5, 1), (48, 17), (16, 65), (49, 0), (48 + 8, 1)] {
        let mut wrong = whole;
        wrong[at] = value;
        refused("#GP", &["ldtilecfg [{z}]"], wrong);
    }
    refused(
        "does not know: tdpbssd",
        &["tdpbssd tmm0, tmm1, tmm2"],
        whole,
    );
}

/// One product of random bits by AMX itself.
#[torsh_macros::unit_test]
fn the_model_multiplies_tiles_as_the_unit_does() {
    if !is_present() {
        return skipped("no AMX to compare its model with");
    }
    let mut state = 3;
    for round in 0..500 {
        let mut pairs = |n: usize| -> Vec<[u16; 2]> {
            let number = |state: &mut u64| match round % 2 {
                0 => (any(state) >> 16) as u16,
                // Without nan and infinities, which would be in every sum.
                _ => b(f32::from_bits(any(state) & 0xbfff_0000)),
            };
            (0..n)
                .map(|_| [number(&mut state), number(&mut state)])
                .collect()
        };
        let (left, right) = (pairs(256), pairs(256));
        let c: Vec<f32> = (0..256).map(|_| f32::from_bits(any(&mut state))).collect();
        let want = product([16; 3], &c, &left, &right);
        let mut got = c.clone();
        // SAFETY: AMX is there, and the buffers are tiles.
        unsafe {
            amx::tiles::configure();
            super::amx::tile_asm!(
                [
                    "tileloadd tmm0, [{c} + {s}]",
                    "tileloadd tmm1, [{a} + {s}]",
                    "tileloadd tmm2, [{b} + {s}]",
                    "tdpbf16ps tmm0, tmm1, tmm2",
                    "tilestored [{c} + {s}], tmm0",
                ],
                c = in(reg) got.as_mut_ptr(),
                a = in(reg) left.as_ptr(),
                b = in(reg) right.as_ptr(),
                s = in(reg) 64usize;
                nostack
            );
            amx::tiles::release();
        }
        for (i, (got, want)) in got.iter().zip(&want).enumerate() {
            let same = got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan();
            assert!(same, "{round} at {i}: {got:e} is {want:e} by the model");
        }
    }
}

#[torsh_macros::unit_test]
fn the_unit_stands_in_for_this_thread_alone() {
    let real = is_present();
    assert_eq!(amx::is_available(), real);
    let Some(unit) = stand_in() else { return };
    assert!(amx::is_available());
    let other = std::thread::spawn(amx::is_available).join();
    assert_eq!(other.expect("no panic"), real);
    // SAFETY: AMX, or its model, is there.
    let operations = unsafe { amx::peak(3) };
    assert_eq!(operations, 3 * 4 * 2 * 16 * 16 * 32);
    unit.assert_used();
    drop(unit);
    assert_eq!(amx::is_available(), real);
}
