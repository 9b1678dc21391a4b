//! What goes wrong on a device is said with the operation, its operands and the device.

use torsh_backend_mock::Injection;
use torsh_core::Kernel;
use torsh_tensor::devices::{Fallback, definitions_used, fallbacks, set_fallback};
use torsh_tensor::{DType, Device, Result, Tensor, TorshError, tensor};

use crate::alone;

#[test]
fn no_memory_names_the_call() -> Result<()> {
    let (d, mock, _alone) = alone();
    let x = tensor![1.0, 2.0, 3.0].to_device(d)?;
    // A refusal of the host before is not what the text tells of.
    assert!(Tensor::zeros([1i64 << 50], DType::F32, Device::Cpu).is_err());
    mock.inject(Injection::OutOfMemory(1));
    let (e, line) = (x.mul(2.5).expect_err("no memory"), line!());
    assert!(matches!(e, TorshError::OutOfMemory));
    let text = e.to_string();
    assert!(
        text.starts_with("mul: out of memory: mock:0 cannot give the 12 bytes"),
        "{text}"
    );
    assert!(text.contains("operands: float32[3] mock:0, 2.5"), "{text}");
    assert!(text.contains(&format!("boundary.rs:{line}")), "{text}");
    // An op in place that is computed and copied over.
    mock.inject(Injection::OutOfMemory(1));
    let text = x.cumsum_(0).expect_err("no memory").to_string();
    assert!(
        text.contains("out of memory: mock:0 cannot give the 12 bytes"),
        "{text}"
    );
    assert!(text.contains("float32[3] mock:0"), "{text}");
    Ok(())
}

#[test]
fn a_copy_that_fails_is_the_devices_failure() -> Result<()> {
    let (d, mock, _alone) = alone();
    mock.inject(Injection::FailingCopies(1));
    let e = tensor![1.0].to_device(d).expect_err("a failing copy");
    assert!(matches!(e, TorshError::DeviceFailed(_)), "{e}");
    let text = e.to_string();
    assert!(
        text.starts_with("to_device: a copy to or from mock:0 failed"),
        "{text}"
    );
    assert!(text.contains("operands: float32[1] cpu, mock:0"), "{text}");
    Ok(())
}

#[test]
fn a_lost_device_is_lost() -> Result<()> {
    let (d, mock, _alone) = alone();
    let x = tensor![1.0, 2.0].to_device(d)?;
    mock.inject(Injection::Lost);
    let result = x.add(1.0);
    let waited = x.to_vec::<f32>();
    mock.restore();
    for e in [result.map(drop), waited.map(drop)].map(|r| r.expect_err("lost")) {
        assert!(matches!(e, TorshError::DeviceLost(_)), "{e}");
        let text = e.to_string();
        assert!(text.contains("mock:0 was lost"), "{text}");
        assert!(
            text.contains("float32[2] mock:0") && text.contains("hint: "),
            "{text}"
        );
    }
    let text = tensor![1.0]
        .to_device(Device::Cuda(0))
        .expect_err("no CUDA")
        .to_string();
    assert!(
        text.starts_with("to_device: device not available: cuda:0"),
        "{text}"
    );
    assert!(text.contains("cpu, mock:0"), "{text}");
    Ok(())
}

#[test]
fn an_error_that_comes_later_names_the_operands() -> Result<()> {
    let (d, _, _alone) = alone();
    let x = Tensor::from_data(&[4i64, 5, 6], [3])?.to_device(d)?;
    let zero = Tensor::from_data(&[1i64, 0, 1], [3])?.to_device(d)?;
    let trunc = torsh_tensor::DivOptions::new().rounding_mode("trunc");
    let (y, line) = (x.div_with(&zero, trunc)?, line!());
    let text = y.to_vec::<i64>().expect_err("a zero").to_string();
    assert!(text.starts_with("div: "), "{text}");
    assert!(
        text.contains("operands: int64[3] mock:0, int64[3] mock:0"),
        "{text}"
    );
    assert!(text.contains(&format!("boundary.rs:{line}")), "{text}");
    Ok(())
}

#[test]
fn a_kernel_without_the_dtype_is_no_kernel() -> Result<()> {
    let (d, mock, _alone) = alone();
    let count = |all: Vec<(&'static str, u64)>, name| {
        all.iter().find(|(n, _)| *n == name).map_or(0, |(_, n)| *n)
    };
    // `square` has a definition, which computes in the half types alone.
    let x = tensor![1.5, -2.0].to_device(d)?;
    let before = count(definitions_used(), "square");
    assert_eq!(x.square()?.to_vec::<f32>()?, [2.25, 4.0]);
    assert_eq!(count(definitions_used(), "square"), before);
    let y = x.to_dtype(DType::BF16)?.square()?;
    assert_eq!(
        (y.dtype(), y.to_dtype(DType::F32)?.to_vec::<f32>()?),
        (DType::BF16, vec![2.25, 4.0])
    );
    assert_eq!(count(definitions_used(), "square"), before + 1);

    // The cross product has none: it is refused, or computed on the CPU.
    let a = Tensor::from_data(&[1i8, 0, 0], [3])?.to_device(d)?;
    let b = Tensor::from_data(&[0i8, 1, 0], [3])?.to_device(d)?;
    mock.inject(Injection::NoKernelIn(Kernel::Cross, DType::I8));
    let fallen_back = || fallbacks().iter().map(|(_, n)| n).sum::<u64>();
    let before = fallen_back();
    let e = a.cross(&b).expect_err("no kernel").to_string();
    assert!(
        e.contains("mock:0 has no kernel for") && e.contains("int8"),
        "{e}"
    );
    assert!(e.contains("int8[3] mock:0"), "{e}");
    set_fallback(Fallback::Cpu);
    let result = a.cross(&b);
    set_fallback(Fallback::Refuse);
    // Another dtype has its kernel.
    let wide = a.to_dtype(DType::I32)?.cross(&b.to_dtype(DType::I32)?);
    mock.restore();
    assert_eq!(result?.to_vec::<i8>()?, [0, 0, 1]);
    assert_eq!(fallen_back(), before + 1, "{:?}", fallbacks());
    assert_eq!(wide?.to_vec::<i32>()?, [0, 0, 1]);
    Ok(())
}

#[test]
fn a_dtype_that_a_kernel_lacks_is_named_with_the_device() -> Result<()> {
    let (d, _, _alone) = alone();
    let x = Tensor::from_data(&[true, false], [2])?.to_device(d)?;
    let y = x.kthvalue(1, 0, false)?;
    let e = y.0.to_vec::<bool>().expect_err("not of bools").to_string();
    assert!(
        e.starts_with("kthvalue: not implemented for bool on mock:0"),
        "{e}"
    );
    assert!(e.contains("operands: bool[2] mock:0"), "{e}");
    Ok(())
}
