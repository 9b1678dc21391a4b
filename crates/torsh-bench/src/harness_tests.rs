use super::*;
use std::time::Duration;

#[test]
fn a_line_has_the_median_and_the_minimum() {
    let us = [1.0, 2.0, 3.0, 4.00049, 5.0, 6.0, 100.0];
    let text = line("add_1", us, 7, 8);
    assert_eq!(
        text,
        r#"{"name": "add_1", "us": 4, "min_us": 1, "flops": 7, "bytes": 8}"#
    );
    assert!(serde_json::from_str::<serde_json::Value>(&text).is_ok());
}

#[test]
fn times_are_those_of_one_call() {
    let us = measure(
        &mut || {
            std::thread::sleep(Duration::from_micros(500));
            Ok::<_, &str>(())
        },
        0.02,
    )
    .unwrap();
    assert!(us.is_sorted());
    assert!(us[0] >= 500.0 && us[0] < 20_000.0, "{us:?}");
}

#[test]
fn nothing_is_built_for_a_workload_left_out() {
    let mut out = Vec::new();
    let mut s = Suite::new(Mode::Time { budget: 1e-9 }, vec!["mul".into()], &mut out);
    let mut built = Vec::new();
    for name in ["add_1", "mul_1"] {
        s.bench(
            name,
            || {
                built.push(name);
                Ok(|| Ok::<_, &str>(()))
            },
            0,
            0,
        );
    }
    assert_eq!(s.finish().unwrap().selected, 1);
    assert_eq!(built, ["mul_1"]);
    assert!(out.starts_with(b"{\"name\": \"mul_1\", "));
}

#[test]
fn a_failing_workload_is_counted_and_prints_no_line() {
    let mut out = Vec::new();
    let mut s = Suite::new(Mode::Time { budget: 1e-9 }, vec![], &mut out);
    let fail = || Err::<(), &str>("no");
    s.bench("a", || Ok(fail), 0, 0);
    s.bench("b", || Ok(|| Ok::<_, &str>(())), 0, 0);
    let summary = s.finish().unwrap();
    assert_eq!((summary.selected, summary.failed), (2, 1));
    assert_eq!(out.iter().filter(|&&c| c == b'\n').count(), 1);
}

struct Closed;
impl Write for Closed {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::ErrorKind::BrokenPipe.into())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_closed_output_ends_the_run() {
    let mut out = Closed;
    let mut s = Suite::new(Mode::List, vec![], &mut out);
    s.bench("a", || Ok(|| Ok::<_, &str>(())), 0, 0);
    s.bench("b", || Ok(|| Ok::<_, &str>(())), 0, 0);
    assert_eq!(s.summary.selected, 1);
    assert_eq!(s.finish().unwrap_err().kind(), io::ErrorKind::BrokenPipe);
}
