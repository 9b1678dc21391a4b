//! Special functions, and elementary ones of complex numbers, at points whose true values are known.
//!
//! `special/special.json` with `special.safetensors` has tables of points by function and dtype, in regions. The error of a
//! result is its distance from the true value in units that the table gives: one unit in the last place, and in regions
//! marked `loose` also what half a unit of the argument moves the function by. Each region has a bound. Beside the tables
//! stand special arguments, where results are compared exactly, signs of zeros included.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::Deserialize;

use crate::case::{TensorRef, Value};
use crate::executor::{Call, Executor};
use crate::layouts::{Layout, Memory};
use crate::panics;
use crate::source::Source;
use crate::tensors::{Dtype, Element, TensorData, TensorFile};

#[derive(Deserialize)]
struct File {
    functions: Vec<Function>,
}

#[derive(Deserialize)]
struct Function {
    name: String,
    arguments: usize,
    tables: Vec<Table>,
    exact: Vec<Vec<Real>>,
}

#[derive(Deserialize)]
struct Table {
    dtype: String,
    key: String,
    regions: Vec<Region>,
}

#[derive(Deserialize)]
struct Region {
    region: u32,
    name: String,
    points: usize,
    worst: BTreeMap<String, f64>,
    bound: f64,
}

/// A number, which JSON writes as text where it is not finite.
#[derive(Deserialize)]
#[serde(untagged)]
enum Real {
    Number(f64),
    Text(String),
}

impl Real {
    fn value(&self) -> Result<f64, String> {
        match self {
            Real::Number(x) => Ok(*x),
            Real::Text(text) => text.parse().map_err(|e| format!("{text}: {e}")),
        }
    }
}

/// A point whose value in the table is wrong, and the true one.
struct Correction {
    function: &'static str,
    arguments: [f64; 2],
    value: f64,
}

const fn zeta(s: f64, q: f64, value: f64) -> Correction {
    Correction {
        function: "special.zeta",
        arguments: [s, q],
        value,
    }
}

/// The values in the tables come from mpmath, whose zeta function at 8 float64 points had stopped too early: they are up to
/// 423 units off. These are sums of 400 terms and 20 of the Euler-Maclaurin formula in 60 digits.
const CORRECTIONS: &[Correction] = &[
    zeta(25.49487061373969, 32.63264476459237, 4.8708756485702256e-39),
    zeta(
        20.992080034333043,
        42.55614338978788,
        1.7026861724312883e-34,
    ),
    zeta(
        29.928490112735577,
        49.624280582488645,
        4.032415194561671e-51,
    ),
    zeta(
        29.686682066378864,
        42.30551584267872,
        1.0610664390864196e-48,
    ),
    zeta(35.97165391051226, 49.95527962943905, 1.5762062704054924e-61),
    zeta(27.78675216507888, 38.79647709548271, 1.4297890264924214e-44),
    zeta(30.450901151376925, 40.79893621073303, 1.752400281528599e-49),
    zeta(23.37830442808026, 38.19482559106487, 2.3390024676528652e-37),
];

/// What came of one region.
#[derive(Clone, Debug)]
pub struct RegionReport {
    /// The function.
    pub function: String,
    /// The dtype.
    pub dtype: Dtype,
    /// The region's name.
    pub region: String,
    /// How many points it has.
    pub points: usize,
    /// The largest error, in units, and where.
    pub worst: f64,
    /// A line on the point with the largest error.
    pub at: String,
    /// What the error may be.
    pub bound: f64,
    /// The largest errors of other libraries.
    pub others: BTreeMap<String, f64>,
}

impl RegionReport {
    /// Whether the errors are within the bound.
    pub fn passes(&self) -> bool {
        self.worst <= self.bound
    }
}

/// What came of all functions.
#[derive(Clone, Debug, Default)]
pub struct SpecialReport {
    /// The regions in order.
    pub regions: Vec<RegionReport>,
    /// Special arguments tried.
    pub exact: usize,
    /// Special arguments whose result is another one.
    pub differing: Vec<String>,
    /// Calls that failed.
    pub failed: Vec<String>,
    /// Points whose value in the table was replaced by the true one.
    pub corrected: usize,
}

impl SpecialReport {
    /// Whether all regions are within their bounds and all special arguments agree.
    pub fn passes(&self) -> bool {
        self.failed.is_empty()
            && self.differing.is_empty()
            && self.regions.iter().all(RegionReport::passes)
    }

    /// How many points were tried.
    pub fn points(&self) -> usize {
        self.regions.iter().map(|r| r.points).sum()
    }

    /// The report: a line for each region, with `verbose` also the point with the largest error.
    pub fn text(&self, verbose: bool) -> String {
        let mut out = String::new();
        let mut line = |text: &str| {
            out.push_str(text);
            out.push('\n');
        };
        for r in &self.regions {
            let mut text = format!(
                "{:4} {:40} {:10} {:22} {:4} points, worst {}, bound {}",
                if r.passes() { "ok" } else { "FAIL" },
                r.function,
                r.dtype.to_string(),
                r.region,
                r.points,
                short(r.worst),
                short(r.bound)
            );
            for (library, worst) in &r.others {
                let _ = write!(text, "; {library} {}", short(*worst));
            }
            line(&text);
            if verbose || !r.passes() {
                line(&format!("       {}", r.at));
            }
        }
        self.failed.iter().for_each(|text| line(text));
        self.differing.iter().for_each(|text| line(text));
        let within = self.regions.iter().filter(|r| r.passes()).count();
        line(&format!(
            "{within} of {} regions within their bounds, {} points ({} with a corrected value)",
            self.regions.len(),
            self.points(),
            self.corrected
        ));
        line(&format!(
            "{} of {} special arguments agree",
            self.exact - self.differing.len(),
            self.exact
        ));
        out
    }
}

fn short(x: f64) -> String {
    if x < 1000.0 {
        format!("{x:.2}")
    } else {
        format!("{x:.1e}")
    }
}

/// Evaluates every function at every point.
///
/// # Errors
/// Files that are not there or cannot be read.
pub fn run(source: &Source, executor: &dyn Executor) -> Result<SpecialReport, String> {
    let read = |name: &str| {
        source
            .read(name)?
            .ok_or_else(|| format!("{name} is not there"))
    };
    let file: File = serde_json::from_slice(&read("special/special.json")?)
        .map_err(|e| format!("special/special.json: {e}"))?;
    let tensors = TensorFile::parse(&read("special/special.safetensors")?)?;
    let mut report = SpecialReport::default();
    for function in &file.functions {
        for table in &function.tables {
            if let Err(e) = run_table(function, table, &tensors, executor, &mut report) {
                report
                    .failed
                    .push(format!("FAIL {} {}: {e}", function.name, table.dtype));
            }
        }
        if let Err(e) = run_exact(function, executor, &mut report) {
            report.failed.push(format!("FAIL {}: {e}", function.name));
        }
    }
    Ok(report)
}

/// Whether the first argument is an order that PyTorch takes as a plain number.
fn takes_order(function: &str) -> bool {
    matches!(function, "special.polygamma" | "special.multigammaln")
}

/// The results at `columns`, a list for each argument in the order of the tables.
fn evaluate(
    function: &str,
    dtype: Dtype,
    columns: &[Vec<Element>],
    executor: &dyn Executor,
) -> Result<Vec<Element>, String> {
    let tensor = |elements: &[Element]| {
        let data = TensorData::from_elements(dtype, &[elements.len()], elements);
        Value::Tensor(Memory::arrange(&data, Layout::Contiguous, false))
    };
    let call = |args: Vec<Value<Memory>>| -> Result<Vec<Element>, String> {
        let call = Call {
            op: function.to_string(),
            args,
            kwargs: Vec::new(),
            writes: false,
            cotangents: None,
            after: Vec::new(),
            eigenvalues: None,
        };
        let done = panics::catch(|| executor.call(&call))??;
        let result = done.outputs.first().ok_or("no result")?;
        Ok(result.elements().collect())
    };
    if takes_order(function) {
        // One call for each order; the executor takes the tensor first.
        let mut results = vec![Element::Bool(false); columns[0].len()];
        let order = |e: Element| match e {
            Element::Float(n) => n as i64,
            _ => 0,
        };
        let mut orders: Vec<i64> = columns[0].iter().map(|&e| order(e)).collect();
        orders.sort_unstable();
        orders.dedup();
        for n in orders {
            let of: Vec<usize> = (0..columns[0].len())
                .filter(|&i| order(columns[0][i]) == n)
                .collect();
            let points: Vec<Element> = of.iter().map(|&i| columns[1][i]).collect();
            let values = call(vec![tensor(&points), Value::Int(n)])?;
            for (&i, value) in of.iter().zip(values) {
                results[i] = value;
            }
        }
        return Ok(results);
    }
    let mut args: Vec<_> = columns.iter().map(|c| tensor(c)).collect();
    if function.contains("_polynomial_") {
        // The tables have the order first.
        args.reverse();
    }
    call(args)
}

fn run_table(
    function: &Function,
    table: &Table,
    tensors: &TensorFile,
    executor: &dyn Executor,
    report: &mut SpecialReport,
) -> Result<(), String> {
    let dtype =
        Dtype::from_name(&table.dtype).ok_or_else(|| format!("no dtype {}", table.dtype))?;
    let named = |part: &str| tensors.named(&format!("{}.{part}", table.key));
    let numbers = |part: &str, dtype: Dtype| -> Result<Vec<Element>, String> {
        let name = format!("{}.{part}", table.key);
        let length = *tensors.named(&name)?.shape.first().unwrap_or(&0);
        let reference = TensorRef {
            name,
            shape: vec![length],
            dtype,
            requires_grad: false,
        };
        Ok(tensors.get(&reference)?.elements().collect())
    };
    let columns = (0..function.arguments)
        .map(|i| numbers(&format!("x{i}"), dtype))
        .collect::<Result<Vec<_>, _>>()?;
    let true_dtype = if dtype.is_complex() {
        Dtype::Complex128
    } else {
        Dtype::Float64
    };
    let mut values = numbers("y", true_dtype)?;
    let real = |e: Element| match e {
        Element::Float(x) => x,
        Element::Int(i) => i as f64,
        _ => f64::NAN,
    };
    let units: Vec<f64> = named("unit")?.elements().map(real).collect();
    let regions: Vec<u32> = named("region")?
        .elements()
        .map(|e| real(e) as u32)
        .collect();
    for c in CORRECTIONS
        .iter()
        .filter(|c| c.function == function.name && dtype == Dtype::Float64)
    {
        let [s, q] = c.arguments.map(Element::Float);
        for i in 0..values.len() {
            if columns[0][i] == s && columns[1][i] == q {
                values[i] = Element::Float(c.value);
                report.corrected += 1;
            }
        }
    }
    let results = evaluate(&function.name, dtype, &columns, executor)?;
    if results.len() != values.len() {
        return Err(format!(
            "{} results for {} points",
            results.len(),
            values.len()
        ));
    }
    for region in &table.regions {
        let mut done = RegionReport {
            function: function.name.clone(),
            dtype,
            region: region.name.clone(),
            points: 0,
            worst: 0.0,
            at: String::new(),
            bound: region.bound,
            others: region.worst.clone(),
        };
        for i in (0..values.len()).filter(|&i| regions[i] == region.region) {
            done.points += 1;
            let error = distance(results[i], values[i]) / units[i];
            let error = if error.is_nan() { f64::INFINITY } else { error };
            if error > done.worst || done.at.is_empty() {
                done.worst = done.worst.max(error);
                let at: Vec<String> = columns.iter().map(|c| c[i].to_string()).collect();
                done.at = format!(
                    "at {}: {}, true is {}",
                    at.join(", "),
                    results[i],
                    values[i]
                );
            }
        }
        if done.points != region.points {
            return Err(format!(
                "{}: {} points, not {}",
                region.name, done.points, region.points
            ));
        }
        report.regions.push(done);
    }
    Ok(())
}

/// The distance of two numbers, in the plane where they are complex.
fn distance(a: Element, b: Element) -> f64 {
    let parts = |e: Element| match e {
        Element::Float(x) => (x, 0.0),
        Element::Complex(re, im) => (re, im),
        _ => (f64::NAN, 0.0),
    };
    let ((a, b), (c, d)) = (parts(a), parts(b));
    (a - c).hypot(b - d)
}

fn run_exact(
    function: &Function,
    executor: &dyn Executor,
    report: &mut SpecialReport,
) -> Result<(), String> {
    if function.exact.is_empty() {
        return Ok(());
    }
    let rows = function
        .exact
        .iter()
        .map(|row| row.iter().map(Real::value).collect::<Result<Vec<f64>, _>>())
        .collect::<Result<Vec<_>, _>>()?;
    for table in &function.tables {
        let dtype =
            Dtype::from_name(&table.dtype).ok_or_else(|| format!("no dtype {}", table.dtype))?;
        let columns: Vec<Vec<Element>> = (0..function.arguments)
            .map(|i| rows.iter().map(|row| Element::Float(row[i])).collect())
            .collect();
        let results = evaluate(&function.name, dtype, &columns, executor)?;
        for (row, result) in rows.iter().zip(results) {
            report.exact += 1;
            let want = row[function.arguments];
            let same = match result {
                Element::Float(x) => (x.is_nan() && want.is_nan()) || x.to_bits() == want.to_bits(),
                _ => false,
            };
            if !same {
                report.differing.push(format!(
                    "FAIL {} {dtype} at {:?}: {result}, not {want:?}",
                    function.name,
                    &row[..function.arguments]
                ));
            }
        }
    }
    Ok(())
}
