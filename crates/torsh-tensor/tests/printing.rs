//! The text of tensors against PyTorch 2.15's, to the character.
//!
//! `data/printing.json` (golden cases) and `data/printing_torch.json` (the rest) are written by
//! `data/printing.py`. `TORSH_PRINTING_CASES=FILE` adds the cases of another such file, as its
//! `--random` makes them.

use serde_json::Value;
use torsh_tensor::print::{
    Described, PrintOptions, Values, contents, displayed_indices, format, print_options,
    set_print_options, set_profile, size_text,
};

fn float(v: &Value) -> f64 {
    match v {
        Value::String(s) => s.parse().unwrap(),
        // JSON of an integer-valued float keeps its ".0", so the sign of -0.0 survives.
        v => v.as_f64().unwrap(),
    }
}

fn values(dtype: &str, case: &Value) -> Values {
    if let Some(n) = case["arange"].as_i64() {
        return match dtype.starts_with("float") {
            true => Values::Float((0..n).map(|i| i as f64).collect()),
            false => Values::Int((0..n).collect()),
        };
    }
    let empty = Vec::new();
    let list = case["values"].as_array().unwrap_or(&empty).iter();
    if dtype == "bool" {
        Values::Bool(list.map(|v| v.as_bool().unwrap()).collect())
    } else if dtype.starts_with("complex") {
        Values::Complex(list.map(|v| (float(&v[0]), float(&v[1]))).collect())
    } else if dtype.contains("float") {
        Values::Float(list.map(float).collect())
    } else {
        Values::Int(list.map(|v| v.as_i64().unwrap()).collect())
    }
}

fn options(case: &Value) -> PrintOptions {
    let mut o = PrintOptions::default();
    let Some(given) = case["options"].as_object() else {
        return o;
    };
    for (key, v) in given {
        // A threshold of null is infinity.
        let number = || v.as_u64().map_or(usize::MAX, |n| n as usize);
        o = match key.as_str() {
            "precision" => o.precision(number()),
            "threshold" => o.threshold(number()),
            "edgeitems" => o.edgeitems(number()),
            "linewidth" => o.linewidth(number()),
            "sci_mode" => o.sci_mode(v.as_bool()),
            other => panic!("unknown option {other}"),
        };
    }
    o
}

/// Checks every case of a fixture and gives how many there were.
fn check(text: &str) -> usize {
    let cases: Vec<Value> = serde_json::from_str(text).unwrap();
    let mut wrong = Vec::new();
    for case in &cases {
        let dtype = case["dtype"].as_str().unwrap();
        let sizes = case["shape"].as_array().unwrap().iter();
        let shape: Vec<usize> = sizes.map(|v| v.as_u64().unwrap() as usize).collect();
        let mut d = Described::new(&shape, dtype, values(dtype, case));
        d.default_dtype_name = case["default_dtype"].as_str().unwrap_or("float32");
        d.device = case["device"].as_str();
        d.requires_grad = case["requires_grad"].as_bool().unwrap_or(false);
        d.grad_fn = case["grad_fn"].as_str();
        d.meta = case["meta"].as_bool().unwrap_or(false);
        let expected = case["printed"].as_str().unwrap();
        let got = format(&d, &options(case));
        if got != expected {
            wrong.push(format!("--- expected\n{expected}\n--- got\n{got}\n{case}"));
        }
    }
    let count = wrong.len();
    wrong.truncate(5);
    assert!(
        wrong.is_empty(),
        "{count} of {} cases differ:\n{}",
        cases.len(),
        wrong.join("\n\n")
    );
    cases.len()
}

#[test]
fn golden_cases() {
    assert_eq!(check(include_str!("data/printing.json")), 29);
}

#[test]
fn cases_of_every_dtype_layout_and_option() {
    assert!(check(include_str!("data/printing_torch.json")) > 300);
}

#[test]
fn cases_of_another_file() {
    if let Ok(path) = std::env::var("TORSH_PRINTING_CASES") {
        check(&std::fs::read_to_string(path).unwrap());
    }
}

#[test]
fn displayed_values_alone_print_like_all() {
    let o = PrintOptions::default().threshold(50).edgeitems(2);
    for shape in [
        &[100][..],
        &[10, 10],
        &[3, 4, 9],
        &[1, 60],
        &[2, 2, 2, 2, 9],
    ] {
        let numel: usize = shape.iter().product();
        let indices = displayed_indices(shape, &o);
        let full = Values::Int((0..numel as i64).collect());
        let part = Values::Int(indices.iter().map(|&i| i as i64).collect());
        assert!(part.len() < full.len());
        let all = format(&Described::new(shape, "int64", full), &o);
        assert_eq!(all, format(&Described::new(shape, "int64", part), &o));
        // Each shown number once, in order.
        let shown: Vec<usize> = all
            .split(|c: char| !c.is_ascii_digit())
            .filter_map(|s| s.parse().ok())
            .collect();
        assert_eq!(shown, indices);
    }
}

#[test]
fn displayed_indices_are_the_edges() {
    let o = PrintOptions::default();
    assert_eq!(displayed_indices(&[], &o), [0]);
    assert_eq!(displayed_indices(&[0, 3], &o), [0usize; 0]);
    assert_eq!(displayed_indices(&[2, 3], &o), [0, 1, 2, 3, 4, 5]);
    assert_eq!(
        displayed_indices(&[2, 1000], &o),
        [0, 1, 2, 997, 998, 999, 1000, 1001, 1002, 1997, 1998, 1999]
    );
    assert_eq!(displayed_indices(&[0, usize::MAX], &o), [0usize; 0]);
    assert_eq!(
        displayed_indices(&[10, 10], &o.threshold(0).edgeitems(0)),
        [0usize; 0]
    );
}

#[test]
#[should_panic(expected = "values do not fill the shape [2, 3]")]
fn values_must_fill_the_shape() {
    contents(
        &[2, 3],
        &Values::Int(vec![1, 2]),
        0,
        &PrintOptions::default(),
    );
}

#[test]
fn size_is_a_python_tuple() {
    assert_eq!(size_text(&[]), "()");
    assert_eq!(size_text(&[3]), "(3,)");
    assert_eq!(size_text(&[2, 0]), "(2, 0)");
}

#[test]
fn options_are_process_wide() {
    assert_eq!(print_options(), PrintOptions::default());
    assert!(set_profile("short"));
    assert_eq!(print_options().precision, 2);
    assert_eq!(print_options().edgeitems, 2);
    assert!(set_profile("full"));
    assert_eq!(print_options().precision, 4);
    assert_eq!(print_options().threshold, usize::MAX);
    assert!(!set_profile("tiny"));
    assert_eq!(print_options().threshold, usize::MAX);
    set_print_options(PrintOptions::default().sci_mode(Some(true)));
    assert_eq!(print_options().sci_mode, Some(true));
    assert!(set_profile("default"));
    assert_eq!(print_options(), PrintOptions::default());
}
