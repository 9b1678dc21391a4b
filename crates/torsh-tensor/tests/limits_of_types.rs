//! Numbers that a dtype cannot hold: what PyTorch 2.15 refuses, and what it makes of the rest.

use torsh_tensor::{
    AddcmulOptions, AddmmOptions, DType, Device, HardtanhOptions, KlDivOptions, Result, Scalar,
    Tensor, tensor,
};

const COMPLEX: Scalar = Scalar::Complex(1.0, 2.0);

fn refused(result: Result<Tensor>, op: &str, part: &str) {
    let error = result.unwrap_err().to_string();
    assert!(error.starts_with(&format!("{op}: ")), "{error}");
    assert!(error.contains(part), "{error}");
}

fn number(value: impl Into<Scalar>, dtype: DType) -> Tensor {
    Tensor::scalar(value, dtype, Device::Cpu).unwrap()
}

#[test]
fn complex_values_are_not_written_into_real_tensors() {
    let (mask, index) = (tensor![true, false, true], tensor![0, 2]);
    let complex = number(COMPLEX, DType::C64);
    for x in [tensor![0, 1, 2], tensor![0.0, 1.0, 2.0]] {
        let held = "without overflow: 1.0+2.0j";
        refused(x.masked_fill(&mask, COMPLEX), "masked_fill", held);
        refused(x.masked_fill(&mask, &complex), "masked_fill", held);
        refused(x.masked_fill_(&mask, &complex), "masked_fill_", held);
        refused(x.fill_(COMPLEX), "fill_", held);
        refused(x.full_like(COMPLEX), "full_like", held);
        refused(x.new_full([2], COMPLEX), "full", held);
        let why = "a complex value cannot be written";
        refused(x.index_fill(0, &index, &complex), "index_fill", why);
        refused(x.index_fill_(0, &index, COMPLEX), "index_fill_", why);
        let value = AddcmulOptions::new().value(COMPLEX);
        refused(x.addcmul_with(&x, &x, value.clone()), "addcmul", held);
        refused(x.addcmul_with_(&x, &x, value), "addcmul", held);
        let square = x.outer(&x).unwrap();
        let alpha = AddmmOptions::new().alpha(COMPLEX);
        refused(
            square.addmm_with(&square, &square, alpha.clone()),
            "addmm",
            held,
        );
        refused(square.addr_with(&x, &x, alpha), "addr", held);
        assert_eq!(
            x.masked_fill(&mask, &number(5, DType::C64))
                .unwrap()
                .sum()
                .unwrap()
                .item::<f64>()
                .unwrap(),
            11.0
        );
    }
}

#[test]
fn values_out_of_range_are_not_written() {
    let mask = tensor![true, false, true];
    let x = tensor![0, 1, 2].to_dtype(DType::I8).unwrap();
    let held = "cannot be converted to type int8 without overflow: 300";
    let large = number(300, DType::I64);
    refused(x.masked_fill(&mask, &large), "masked_fill", held);
    refused(x.index_fill(0, &tensor![0], &large), "index_fill", held);
    refused(x.fill_(300), "fill_", held);
    refused(x.full_like(300), "full_like", held);
    refused(
        Tensor::linspace(0, 300, 3, DType::I8, Device::Cpu),
        "linspace",
        held,
    );
    refused(
        Tensor::logspace(0, 300, 3, 2.0, DType::I8, Device::Cpu),
        "logspace",
        held,
    );
    let held = "cannot be converted to type float16 without overflow";
    refused(
        Tensor::full([2], 1e30, DType::F16, Device::Cpu),
        "full",
        held,
    );
    // Infinities fit, and negative numbers wrap in uint8.
    let x = Tensor::full([1], f64::INFINITY, DType::F16, Device::Cpu).unwrap();
    assert_eq!(x.item::<f64>().unwrap(), f64::INFINITY);
    let x = Tensor::full([1], -1, DType::U8, Device::Cpu).unwrap();
    assert_eq!(x.to_vec::<u8>().unwrap(), [255]);
}

#[test]
fn limits_out_of_range_limit_nothing_or_are_refused() {
    let x = tensor![0, 1, 5, 200, 255].to_dtype(DType::U8).unwrap();
    let check = |y: Result<Tensor>, want: [u8; 5]| {
        assert_eq!(y.unwrap().to_vec::<u8>().unwrap(), want);
    };
    check(x.clamp(-1, None), [0, 1, 5, 200, 255]);
    check(x.clamp(-300, 3), [0, 1, 3, 3, 3]);
    check(x.clamp(3, 300), [3, 3, 5, 200, 255]);
    check(x.clamp_max(1000), [0, 1, 5, 200, 255]);
    check(x.copy().unwrap().clamp_(-1, 5), [0, 1, 5, 5, 5]);
    check(x.hardtanh(), [0, 1, 1, 1, 1]);
    let wide = HardtanhOptions::new().min_val(-1.5).max_val(2.5);
    check(x.hardtanh_with(wide), [0, 1, 2, 2, 2]);
    let low = "the upper limit -1 is outside the range of uint8";
    refused(x.clamp(None, -1), "clamp", low);
    refused(x.clamp_max(-1), "clamp", low);
    let high = "the lower limit 300 is outside the range of uint8";
    refused(x.clamp(300, None), "clamp", high);
    refused(x.clamp_(300, 5), "clamp", high);
    let narrow = HardtanhOptions::new().min_val(-5.0).max_val(-1.0);
    refused(x.hardtanh_with(narrow), "hardtanh", "the upper limit -1");
    let x = tensor![1.0, -2.0].to_dtype(DType::F16).unwrap();
    let held = "cannot be converted to type float16 without overflow";
    refused(x.clamp(-70000.0, 70000.0), "clamp", held);
}

/// Operands that PyTorch refuses are errors that name the dtype and the op.
#[test]
fn what_has_no_meaning_for_a_dtype_is_refused() -> Result<()> {
    let whole = tensor![[1, 2], [3, 4]];
    let float = whole.to_dtype(DType::F32)?;
    let complex = Tensor::complex(&float, &float)?;
    let options = KlDivOptions::new();
    for (e, parts) in [
        (whole.glu(-1).err(), ["glu", "int64"]),
        (
            whole.kl_div_with(&float, options.clone()).err(),
            ["kl_div", "int64"],
        ),
        (
            float.kl_div_with(&whole, options).err(),
            ["kl_div", "int64"],
        ),
        (
            complex.unique_consecutive().err(),
            ["unique_consecutive", "complex64"],
        ),
        (Tensor::isin(1, 2).err(), ["isin", "both numbers"]),
    ] {
        let text = e.expect("an error").to_string();
        assert!(parts.iter().all(|p| text.contains(p)), "{text}");
    }
    Ok(())
}
