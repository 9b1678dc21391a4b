//! The benchmark suite of ToRSh: its workloads, the machine's limits, cliffs between sizes, and
//! memory. The program `torsh-bench` says how to use it.

#![forbid(unsafe_code)]

pub mod decode;
pub mod distributed;
mod gpt;
pub mod harness;
pub mod inputs;
pub mod limits;
mod make;
pub mod memory;
pub mod models;
pub mod science;
mod sparse;
pub mod spec;
pub mod suite;
pub mod sweep;
mod text;
pub mod tune;
mod vision;
mod workload;

use harness::Suite;
use inputs::Layout;

/// Registers every workload, in the order in which they run.
pub fn register(s: &mut Suite<'_>) {
    for (name, spec) in suite::workloads() {
        let make = || spec.make(Layout::Contiguous).map(|w| w.call);
        s.bench(&name, make, spec.flops(), spec.bytes());
    }
    text::register(s);
}

/// Tests that allocate read it, the test of the bytes that are held writes: they are counted for the whole process.
#[cfg(test)]
pub(crate) static ALLOCATES: std::sync::RwLock<()> = std::sync::RwLock::new(());

#[cfg(test)]
mod tests {
    use super::*;
    use harness::Mode;

    fn lines(mode: Mode, only: &[&str]) -> Vec<String> {
        let mut out = Vec::new();
        let only = only.iter().map(|s| s.to_string()).collect();
        let mut suite = Suite::new(mode, only, &mut out);
        register(&mut suite);
        let summary = suite.finish().unwrap();
        assert_eq!(summary.failed, 0);
        let text = String::from_utf8(out).unwrap();
        text.lines().map(str::to_string).collect()
    }

    #[test]
    fn name_parts_select() {
        assert_eq!(
            lines(Mode::List, &["exp_1", "chain100"]),
            [
                "exp_100",
                "exp_10000",
                "exp_1000000",
                "exp_16000000",
                "autograd_chain100"
            ]
        );
    }

    /// What selects the rows of sparse tensors on PyTorch's side selects the same rows here, and no other ones.
    #[test]
    fn the_rows_of_sparse_tensors_are_those_of_both_sides() {
        let parts = [
            "spmm", "spmv", "spgemm", "sampled", "coalesce", "csr", "coo", "sparse",
        ];
        assert_eq!(
            lines(Mode::List, &parts),
            [
                "spmm_csr_10000_1e6_x64",
                "spmm_csr_100000_1e6_x32",
                "spmm_csr_1024_dense10pct_x1024",
                "spmv_csr_100000_1e6",
                "spmm_coo_10000_1e6_x64",
                "spgemm_csr_10000_1e5",
                "sampled_addmm_csr_4096_1e5_k64",
                "spmm_csr_fwd_bwd_10000_1e6_x64",
                "coalesce_1000000",
                "dense_to_csr_2048_1pct",
                "csr_to_dense_2048_1pct",
                "coo_add_1e6",
                "sparse_softmax_coo_10000_1e6",
            ]
        );
    }

    /// Every workload runs at the size of its name; what it computes the tests of small sizes say.
    #[test]
    fn every_workload_runs() {
        let _read = ALLOCATES.read();
        for (name, spec) in suite::workloads() {
            let made = spec.make(Layout::Contiguous);
            let result = made.and_then(|mut w| (w.call)());
            assert!(result.is_ok(), "{name}: {result:?}");
        }
    }

    #[test]
    fn a_timed_workload_prints_its_line() {
        let _read = ALLOCATES.read();
        let timed = lines(Mode::Time { budget: 1e-9 }, &["exp_100", "matmul_64"]);
        let values = timed.iter().map(|line| serde_json::from_str(line).unwrap());
        let values: Vec<serde_json::Value> = values.collect();
        let names: Vec<_> = values.iter().filter_map(|v| v["name"].as_str()).collect();
        assert_eq!(names, ["matmul_64", "exp_100", "exp_10000", "exp_1000000"]);
        assert_eq!(
            (&values[0]["flops"], &values[1]["bytes"]),
            (&524_288.into(), &800.into())
        );
        for v in values {
            assert!(v["us"].as_f64().unwrap() >= v["min_us"].as_f64().unwrap());
        }
    }
}
