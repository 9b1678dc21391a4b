use super::*;

const MACHINE: Machine = Machine {
    threads: 1,
    f32: 100e9,
    f64: 50e9,
    bf16: None,
    copy: 20e9,
    read: 25e9,
};

fn scored(name: &str, us: f64, m: &Machine, o: &Options) -> Option<Score> {
    let row = rows().into_iter().find(|r| r.name == name).unwrap();
    let times = [("matmul_1024", 30_000.0), ("sdpa_4x8x512x64", 10_000.0)];
    let times = times.map(|(n, us)| (n.to_string(), us)).into();
    score(&row, us, m, &times, o)
}

#[test]
fn scores_are_shares_of_the_limits() {
    let o = Options::default();
    // 2 * 1024^3 operations in 23.861 ms are 90 GFLOP/s.
    let s = scored("matmul_1024", 23_861.0, &MACHINE, &o).unwrap();
    assert!((s.value - 90.0).abs() < 0.01 && s.target == 90.0, "{s:?}");
    let two = Machine {
        threads: 2,
        f32: 200e9,
        ..MACHINE
    };
    let s = scored("matmul_1024", 23_861.0, &two, &o).unwrap();
    assert!((s.value - 45.0).abs() < 0.01 && s.target == 85.0 && !s.holds());
    // Against the peak of its own dtype.
    let s = scored("matmul_f64_512", 10_000.0, &MACHINE, &o).unwrap();
    assert!((s.value - 100.0 * 26.8435456 / 50.0).abs() < 1e-6, "{s:?}");
    // 12 bytes of each of 16 million in 12 ms are 16 GB/s of 20.
    let s = scored("add_16000000", 12_000.0, &MACHINE, &o).unwrap();
    assert!((s.value - 80.0).abs() < 1e-9 && s.holds());
    let s = scored("op_overhead_add1", 0.12, &MACHINE, &o).unwrap();
    assert!(
        !s.holds()
            && scored("op_overhead_add1", 0.1, &MACHINE, &o)
                .unwrap()
                .holds()
    );
    let s = scored("sdpa_causal_again_4x8x512x64", 5_000.0, &MACHINE, &o).unwrap();
    assert_eq!((s.value, s.holds()), (2.0, true));
}

#[test]
fn no_limit_no_score() {
    let mut o = Options::default();
    assert_eq!(scored("matmul_bf16_1024", 10_000.0, &MACHINE, &o), None);
    let m = Machine {
        bf16: Some(400e9),
        ..MACHINE
    };
    assert_eq!(
        scored("matmul_bf16_1024", 10_000.0, &m, &o).unwrap().value,
        3.0
    );
    assert_eq!(scored("sort_1000000", 20_000.0, &MACHINE, &o), None);
    o.peer.insert("sort_1000000".into(), 100_000.0);
    assert_eq!(
        scored("sort_1000000", 20_000.0, &MACHINE, &o)
            .unwrap()
            .value,
        5.0
    );
}

#[test]
fn every_row_has_what_its_limit_counts() {
    let all = rows();
    for row in &all {
        match &row.limit {
            Limit::Peak { .. } => assert!(row.spec.flops() > 0, "{}", row.name),
            Limit::Bandwidth(_) => {
                // Larger than most last-level caches, and than twice this one's 32 MiB.
                assert!(
                    row.spec.traffic() >= 50 << 20,
                    "{} {}",
                    row.name,
                    row.spec.traffic()
                );
            }
            Limit::Faster { than, .. } => assert!(all.iter().any(|r| &r.name == than)),
            Limit::Time(_) | Limit::Peer(_) => {}
        }
    }
}

/// What is measured is of the order of any machine's.
#[test]
fn a_machine_is_measured() {
    let m = Machine::measure(1);
    assert!(m.f32 > 1e8 && m.f32 < 1e13, "{m}");
    assert!(m.f64 > 1e8 && m.f64 < 1e13, "{m}");
    assert!(m.copy > 1e8 && m.copy < 1e13, "{m}");
    let better = Machine {
        f32: 2.0 * m.f32,
        ..m
    };
    assert_eq!(m.best(better).f32, better.f32);
    assert_eq!(m.best(better).copy, m.copy);
}

#[test]
fn a_run_prints_a_line_for_each_row() {
    let o = Options {
        only: vec!["op_overhead".into(), "topk".into()],
        budget: 1e-9,
        threads: vec![1],
        ..Options::default()
    };
    let mut out = Vec::new();
    run(&o, &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    let line = |part: &str| text.lines().find(|l| l.contains(part)).unwrap();
    assert!(
        line("op_overhead_add1").contains(" ns, target 110 ns"),
        "{text}"
    );
    assert!(line("topk_1000000_k100").ends_with("no time of the other side (--peer FILE)"));
    assert!(!text.contains("matmul") && text.contains("targets missed"));
}

#[test]
fn a_program_that_fails_is_an_error() {
    assert!(start(std::path::Path::new("/no/such/program")).is_err());
}
