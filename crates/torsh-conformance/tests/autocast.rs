//! Every shipped golden case of operators in float32 and bfloat16, in an autocast region.
//!
//! `data/autocast.csv` lists the cases whose results have another dtype there, as PyTorch 2.15 has
//! them in regions of bfloat16 and float16; all others have the dtypes they have outside. (Where a
//! region of float16 meets bfloat16 tensors in `cat` and its kin PyTorch ends in an internal error;
//! here they promote, so that the dtypes are those outside.)

use std::collections::HashMap;
use std::path::Path;

use torsh_conformance::case::{Case, Expect, OpFile, Value};
use torsh_conformance::executor::{Call, Executor};
use torsh_conformance::layouts::{Layout, Memory};
use torsh_conformance::source::Source;
use torsh_conformance::tensors::{Dtype, Element, TensorData, TensorFile};
use torsh_conformance::torsh::Torsh;
use torsh_tensor::{Autocast, DType, Device, TorshError, autocast_with, ops};

type Table = HashMap<(String, usize), [String; 2]>;

fn table() -> Table {
    let text = include_str!("data/autocast.csv");
    let row = |line: &str| {
        let f: Vec<&str> = line.split(',').collect();
        let key = (f[0].to_string(), f[1].parse().unwrap());
        (key, [f[2].to_string(), f[3].to_string()])
    };
    text.lines().skip(1).map(row).collect()
}

/// The call with each tensor that `cast` names another dtype for in that dtype.
fn call(case: &Case, tensors: &TensorFile, cast: impl Fn(Dtype) -> Dtype) -> Call {
    let load = |v: &Value<_>| {
        v.try_map(&mut |r| {
            let data = converted(&tensors.get(r)?, &cast);
            Ok::<_, String>(Memory::arrange(&data, Layout::Contiguous, false))
        })
        .unwrap()
    };
    Call {
        op: case.op.clone(),
        args: case.args.iter().map(load).collect(),
        kwargs: case
            .kwargs
            .iter()
            .map(|(k, v)| (k.clone(), load(v)))
            .collect(),
        writes: case.writes(),
        cotangents: None,
        after: Vec::new(),
        eigenvalues: None,
    }
}

fn converted(data: &TensorData, cast: impl Fn(Dtype) -> Dtype) -> TensorData {
    let dtype = cast(data.dtype);
    if dtype == data.dtype {
        return data.clone();
    }
    let elements: Vec<Element> = data.elements().collect();
    TensorData::from_elements(dtype, &data.shape, &elements)
}

fn dtypes(outputs: &[TensorData]) -> String {
    let names: Vec<&str> = outputs.iter().map(|t| t.dtype.name()).collect();
    names.join(" ")
}

/// The dtype that a call is cast to by hand, where its op is cast whole.
fn by_hand(op: &str, region: Dtype) -> Option<Dtype> {
    let record = ops::find(op)?.into_iter().next()?;
    match record.autocast {
        Autocast::Lower => Some(region),
        Autocast::Fp32 => Some(Dtype::Float32),
        _ => None,
    }
}

#[test]
fn every_shipped_case_has_pytorchs_dtype_in_a_region() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/ops.zip");
    let source = Source::open(&path).unwrap();
    let table = table();
    let (mut cases, mut changed, mut values, mut wrong) = (0, 0, 0, Vec::new());
    for stem in source.list("ops").unwrap() {
        let read = |end: &str| source.read(&format!("ops/{stem}.{end}")).unwrap().unwrap();
        let file = OpFile::parse(&read("json")).unwrap();
        if !Torsh.has(&file.op) {
            continue;
        }
        let tensors = TensorFile::parse(&read("safetensors")).unwrap();
        for (i, case) in file.cases.iter().enumerate() {
            let Expect::Outputs(plain, _) = &case.expect else {
                continue;
            };
            if !matches!(case.dtype.as_str(), "float32" | "bfloat16") {
                continue;
            }
            let outside: Vec<&str> = plain.iter().map(|t| t.dtype.name()).collect();
            let row = table.get(&(stem.clone(), i));
            let plain = call(case, &tensors, |d| d);
            let regions = [(DType::BF16, Dtype::BFloat16), (DType::F16, Dtype::Float16)];
            for (at, (region, name)) in regions.into_iter().enumerate() {
                let want = row.map_or(outside.join(" "), |r| r[at].clone());
                cases += 1;
                changed += usize::from(row.is_some());
                let run = || Torsh.call(&plain).map_err(TorshError::Other);
                let got = match autocast_with(Device::Cpu, region, run) {
                    Ok(outcome) => outcome.outputs,
                    Err(e) => {
                        wrong.push(format!("{stem} {i} {} in {region}: {e}", case.dtype));
                        continue;
                    }
                };
                if dtypes(&got) != want {
                    wrong.push(format!(
                        "{stem} {i} {} in {region}: want {want}, got {}",
                        case.dtype,
                        dtypes(&got)
                    ));
                    continue;
                }
                let Some(to) = by_hand(&case.op, name).filter(|_| row.is_some()) else {
                    continue;
                };
                let half = |d| matches!(d, Dtype::Float32 | Dtype::Float16 | Dtype::BFloat16);
                let cast = call(case, &tensors, |d| if half(d) { to } else { d });
                match Torsh.call(&cast) {
                    Ok(cast) if cast.outputs == got => values += 1,
                    other => wrong.push(format!(
                        "{stem} {i} in {region}: not as by hand: {:?}",
                        other.err()
                    )),
                }
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {cases}:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    println!("{cases} calls, {changed} with another dtype, {values} compared with casts by hand");
    assert!(
        cases > 4000 && changed > 300 && values > 250,
        "{cases} {changed} {values}"
    );
}
