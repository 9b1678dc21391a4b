//! Reports, checks and limits, with their texts.

use std::path::{Path, PathBuf};

use torsh_debug::{
    GradientLimits, GradientState, InputLimits, ModelConstraints, ModelStateLimits,
    SanitizeOptions, TensorReport, debug_gradients, debug_gradients_with, load_expected_hash,
    load_model_with_constraints, safe_division, safe_load_model, sanitize_model_input,
    sanitize_model_input_with, save_expected_hash, secure_model_loading, validate_input_tensor,
    validate_input_tensor_with, validate_model_architecture, validate_model_inputs,
    validate_model_output, validate_model_state_with, validate_model_structure,
    verify_model_checksum,
};
use torsh_nn::{Conv2d, Linear, Module, ModuleExt, ReLU, Sequential};
use torsh_tensor::{DType, Device, Result, Tensor, TorshError, no_grad, randn, tensor, zeros};

fn fails<T: std::fmt::Debug>(result: Result<T>, parts: &[&str]) -> TorshError {
    let e = result.expect_err("an error");
    for part in parts {
        assert!(e.to_string().contains(part), "no {part:?} in {e}");
    }
    e
}

/// A file of its own for a test, removed at its end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        Scratch(std::env::temp_dir().join(format!("torsh-debug-{}-{name}", std::process::id())))
    }

    fn beside(&self) -> PathBuf {
        let mut name = self.0.as_os_str().to_os_string();
        name.push(".sha256");
        name.into()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
        let _ = std::fs::remove_file(self.beside());
    }
}

#[test]
fn reports_of_tensors() -> Result<()> {
    let x = tensor![[1.0, -2.5], [f32::NAN, f32::INFINITY]].requires_grad_(true);
    let report = TensorReport::of(&x, "h")?;
    let text = report.to_string();
    for part in [
        "h: float32[2, 2] cpu",
        "requires grad: true",
        "min -2.500000, max 1.000000, mean -0.750000, std 2.474874",
        "warning: 1 of 4 values are nan",
        "warning: 1 of 4 values are infinite",
        "values: [1.0, -2.5, NaN, inf]",
    ] {
        assert!(text.contains(part), "no {part:?} in\n{text}");
    }
    assert_eq!((report.has_nan(), report.has_inf()), (true, true));
    // Many elements are not shown; integers and bools are measured too.
    let many = TensorReport::of(&Tensor::arange(0, 21, 1, DType::I64, Device::Cpu)?, "i")?;
    assert_eq!((many.values, many.stats.map(|s| s.max)), (None, Some(20.0)));
    let few = TensorReport::of(&tensor![true, false], "mask")?;
    assert_eq!(few.values, Some(vec![1.0, 0.0]));
    // Nothing to measure.
    for t in [
        zeros(&[0, 3]),
        Tensor::zeros(&[2], DType::F32, Device::Meta)?,
        Tensor::zeros(&[2], DType::C64, Device::Cpu)?,
    ] {
        let report = TensorReport::of(&t, "t")?;
        assert_eq!(
            (report.stats, report.values, report.dtype),
            (None, None, t.dtype())
        );
    }
    Ok(())
}

#[test]
fn reports_of_gradients() -> Result<()> {
    let model = Sequential::new()
        .add(Linear::new(2, 2))
        .add(ReLU::new())
        .add(Linear::new(2, 1));
    let empty = debug_gradients(&model)?;
    assert_eq!(empty.names(GradientState::Missing).len(), 4);
    for (i, p) in model.parameters().into_iter().enumerate() {
        let value = [3.0, 1e-10, f64::NAN, 20.0][i];
        p.set_grad(Some(p.detach().full_like(value)?))?;
    }
    let report = debug_gradients(&model)?;
    assert_eq!(report.entries[0].norm, Some(6.0));
    assert_eq!(report.names(GradientState::Normal), ["0.weight"]);
    assert_eq!(report.names(GradientState::Small), ["0.bias"]);
    assert_eq!(report.names(GradientState::NotFinite), ["2.weight"]);
    assert_eq!(report.names(GradientState::Large), ["2.bias"]);
    let text = report.to_string();
    assert!(
        text.contains("0.weight: gradient norm 6.000000e0\n"),
        "{text}"
    );
    assert!(
        text.contains("2.bias: gradient norm 2.000000e1  warning: large"),
        "{text}"
    );
    let strict = GradientLimits::new().large(5.0).small(1e-12);
    let report = debug_gradients_with(&model as &dyn Module, strict)?;
    assert_eq!(report.names(GradientState::Large), ["0.weight", "2.bias"]);
    // Norms of half precision are computed in more.
    let mut half = Linear::new(4, 4);
    half.to_dtype(DType::F16)?;
    let g = half.weight.detach().full_like(60000.0)?;
    half.weight.set_grad(Some(g))?;
    let norm = debug_gradients(&half)?.entries[0].norm;
    assert_eq!(norm, Some(4.0 * 60000.0));
    Ok(())
}

#[test]
fn states_of_models() -> Result<()> {
    let model = Conv2d::new(1, 2, 3, 1, 1)?;
    no_grad(|| model.weight.fill_(0.0))?;
    let warnings = validate_model_state_with(&model, ModelStateLimits::new().large(1e-3))?;
    let fields: Vec<&str> = warnings.iter().map(|w| w.field.as_str()).collect();
    assert_eq!(fields, ["weight", "bias"]);
    assert_eq!(
        warnings[0].to_string(),
        "weight: the parameter's norm is very small (0.0000e0)"
    );
    no_grad(|| model.weight.fill_(f64::NEG_INFINITY))?;
    fails(
        validate_model_state_with(&model, ModelStateLimits::new()),
        &[
            "validate_model_state",
            "`weight` has 18 infinite values of 18",
        ],
    );
    fails(
        validate_model_structure(&model),
        &["validate_model_structure", "`weight`"],
    );
    Ok(())
}

#[test]
fn inputs_and_outputs() -> Result<()> {
    let x = tensor![[0.5, f32::NAN]];
    fails(
        validate_model_inputs(&x, [1, 2], DType::F32),
        &["input has 1 nan values of 2"],
    );
    fails(
        validate_model_inputs(&x, [1, 2], DType::F64),
        &["expected float64, got float32[1, 2]"],
    );
    fails(
        validate_input_tensor(&x, [2, 1]),
        &["expected shape [2, 1]", "float32[1, 2]"],
    );
    fails(
        validate_input_tensor(&x, [1, 2]),
        &["validate_input_tensor", "nan"],
    );
    let x = tensor![[-0.5, 0.5]];
    let warnings = validate_model_inputs(&x, (1, 2), DType::F32)?;
    assert_eq!((warnings.len(), warnings[0].value), (1, -0.5));
    validate_input_tensor_with(&x, [1, 2], InputLimits::new().min(-0.5).max(0.5))?;
    fails(
        validate_input_tensor_with(&x, [1, 2], InputLimits::new().min(0.0)),
        &["the values from -0.5 to 0.5 are outside of [0, 10]"],
    );
    // Integers, and no elements at all.
    validate_input_tensor(&tensor![1, 2], [2])?;
    validate_input_tensor(&zeros(&[0]), [0])?;

    let half = tensor![510.0, -1.0].to_dtype(DType::BF16)?;
    let clean = sanitize_model_input(&half)?;
    assert_eq!(clean.dtype(), DType::BF16);
    let bytes = sanitize_model_input(&tensor![0, 51])?;
    assert_eq!(bytes.to_vec::<f32>()?, [0.0, 0.2]);
    let plain = SanitizeOptions::new()
        .min(-1.0)
        .max(1.0)
        .replacement(0.5)
        .divisor(1.0);
    let y = sanitize_model_input_with(&tensor![f32::NAN, f32::NEG_INFINITY, 0.25], plain)?;
    assert_eq!(y, tensor![0.5, -1.0, 0.25]);
    fails(
        sanitize_model_input_with(&zeros(&[3, 4]), SanitizeOptions::new().max_elements(11)),
        &["12 elements", "max_elements is 11"],
    );

    assert!(validate_model_output(&tensor![[3.0, 0.0]])?.is_empty());
    assert!(validate_model_output(&tensor![0.0, 0.0])?.is_empty());
    let warnings = validate_model_output(&zeros(&[4, 11]))?;
    assert!((warnings[0].value - 1.0 / 11.0).abs() < 1e-6);
    fails(
        validate_model_output(&tensor![[f32::NAN]]),
        &["output has 1 nan values of 1"],
    );
    Ok(())
}

#[test]
fn divisions() -> Result<()> {
    let a = randn(&[2, 3]);
    let b = tensor![[1.0], [2.0]];
    assert_eq!(safe_division(&a, &b)?, a.div(&b)?);
    let b = tensor![[1.0, -0.0, 2.0], [0.0, 1.0, 1.0]];
    fails(
        safe_division(&a, &b),
        &[
            "safe_division",
            "b has 2 zero of 6 values, the first at index 1",
        ],
    );
    fails(safe_division(&tensor![1], &tensor![0]), &["b has 1 zero"]);
    assert_eq!(safe_division(&zeros(&[0]), &zeros(&[0]))?.numel(), 0);
    Ok(())
}

#[test]
fn hashes() -> Result<()> {
    let file = Scratch::new("hash.pt");
    std::fs::write(&file.0, "").unwrap();
    fails(load_expected_hash(&file.0), &["hash.pt.sha256"]);
    let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    assert_eq!(save_expected_hash(&file.0)?, empty);
    assert_eq!(load_expected_hash(&file.0)?, empty);
    // As sha256sum and others write it.
    for text in [
        empty.to_uppercase(),
        format!("\\{empty} *a\n"),
        format!("{empty}\n"),
    ] {
        std::fs::write(file.beside(), text).unwrap();
        verify_model_checksum(&file.0)?;
    }
    for text in ["", "0123", &"g".repeat(64), &"0".repeat(65)] {
        std::fs::write(file.beside(), text).unwrap();
        fails(
            verify_model_checksum(&file.0),
            &["load_expected_hash", "64 hexadecimal digits"],
        );
    }
    std::fs::write(file.beside(), "0".repeat(64)).unwrap();
    fails(
        verify_model_checksum(&file.0),
        &["verify_model_checksum", empty, "was changed"],
    );
    Ok(())
}

#[test]
fn layers_that_are_allowed() -> Result<()> {
    let model = Sequential::new()
        .add(Conv2d::new(1, 1, 1, 1, 0)?)
        .add(Sequential::new().add(Linear::new(1, 1)));
    let only = |list: &[&str]| ModelConstraints::new().allowed_operations(list);
    validate_model_architecture(&model, &only(&["CONV", "linear"]))?;
    validate_model_architecture(&model, &ModelConstraints::new())?;
    fails(
        validate_model_architecture(&model, &only(&["linear"])),
        &["allowed_operations: the layer `0` is a Conv2d"],
    );
    let but = |list: &[&str]| ModelConstraints::new().disallowed_operations(list);
    validate_model_architecture(&model, &but(&["exec", "file_io"]))?;
    fails(
        validate_model_architecture(&model, &but(&["linear"])),
        &["disallowed_operations: the layer `1.0` is a Linear"],
    );
    fails(
        validate_model_architecture(&model, &but(&["sequential"])),
        &["the layer `the model itself` is a Sequential"],
    );
    Ok(())
}

#[test]
fn files_within_limits() -> Result<()> {
    let file = Scratch::new("model.safetensors");
    let (trained, model) = (Linear::new(300, 1000), Linear::new(300, 1000));
    let before = model.weight.to_vec::<f32>()?;
    trained.save(&file.0)?;
    let limits = ModelConstraints::new;
    // None of these touch the model.
    for (constraints, parts) in [
        (
            limits().max_file_size_mb(1),
            ["max_file_size_mb", "1 MiB are allowed"],
        ),
        (
            limits().max_parameters(300_999),
            ["max_parameters", "there are 301000 elements"],
        ),
        (
            limits().disallowed_operations(&["linear"]),
            ["disallowed_operations", "Linear"],
        ),
    ] {
        fails(
            load_model_with_constraints(&model, &file.0, &constraints),
            &parts,
        );
    }
    fails(
        secure_model_loading(&model, &file.0, &limits()),
        &["model.safetensors.sha256"],
    );
    save_expected_hash(&file.0)?;
    let mut bytes = std::fs::read(&file.0).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(&file.0, &bytes).unwrap();
    fails(
        secure_model_loading(&model, &file.0, &limits()),
        &["was changed"],
    );
    no_grad(|| trained.weight.mul_(1e6))?;
    trained.save(&file.0)?;
    save_expected_hash(&file.0)?;
    fails(
        secure_model_loading(&model, &file.0, &limits()),
        &["norm of parameter `weight`"],
    );
    fails(
        safe_load_model(&model, &file.0),
        &["safe_load_model", "above 1000"],
    );
    assert_eq!(model.weight.to_vec::<f32>()?, before);
    // And what they let in.
    load_model_with_constraints(&model, &file.0, &limits())?;
    assert_eq!(
        model.weight.to_vec::<f32>()?,
        trained.weight.to_vec::<f32>()?
    );

    fails(
        safe_load_model(&model, "model.exe"),
        &["model.exe", "extension"],
    );
    fails(safe_load_model(&model, "nowhere.pth"), &["nowhere.pth"]);
    let other = Scratch::new("other.pt");
    Linear::new(2, 2).save(&other.0)?;
    fails(safe_load_model(&model, &other.0), &["weight"]);
    Ok(())
}

/// A safetensors file with these tensors of 4 bytes each number: name, dtype, shape.
fn safetensors(path: &Path, tensors: &[(&str, &str, &[usize])]) {
    let (mut header, mut data) = (Vec::new(), Vec::new());
    for (name, dtype, shape) in tensors {
        let (start, n) = (data.len(), shape.iter().product::<usize>());
        match *dtype {
            "F32" => data.extend((0..n).flat_map(|i| (i as f32).to_le_bytes())),
            _ => data.extend(std::iter::repeat_n(0x38, n)),
        }
        let end = data.len();
        header.push(format!(
            r#""{name}":{{"dtype":"{dtype}","shape":{shape:?},"data_offsets":[{start},{end}]}}"#
        ));
    }
    let header = format!("{{{}}}", header.join(","));
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.bytes());
    bytes.extend(data);
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn entries_that_cannot_be_read_hide_nothing() -> Result<()> {
    let file = Scratch::new("foreign.safetensors");
    safetensors(
        &file.0,
        &[
            ("weight", "F32", &[3, 2]),
            ("bias", "F32", &[3]),
            ("scales", "F8_E4M3", &[3]),
        ],
    );
    save_expected_hash(&file.0)?;
    let limits = ModelConstraints::new;
    let loads: [&dyn Fn(&Linear) -> Result<()>; 3] = [
        &|m| safe_load_model(m, &file.0),
        &|m| load_model_with_constraints(m, &file.0, &limits()),
        &|m| secure_model_loading(m, &file.0, &limits()),
    ];
    for load in loads {
        let model = Linear::new(2, 3);
        load(&model)?;
        assert_eq!(*model.weight, tensor![[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]]);
    }
    // What the model wants must be readable.
    safetensors(
        &file.0,
        &[("bias", "F32", &[3]), ("weight", "F8_E4M3", &[3, 2])],
    );
    save_expected_hash(&file.0)?;
    for load in loads {
        let e = fails(
            load(&Linear::new(2, 3)),
            &["`weight` is float8_e4m3fn [3, 2]"],
        );
        assert!(!e.to_string().contains("bias"), "{e}");
    }
    Ok(())
}
