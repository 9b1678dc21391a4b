//! Memory that holds what no kernel wrote: bools of any byte, and elements at any address.

use std::io::Write;
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use torsh_tensor::{DType, Device, Result, Shared, Storage, Tensor};

/// The allocator's limit holds for the whole process: the test that sets it writes, the others, which allocate, read.
static LIMIT: RwLock<()> = RwLock::new(());

fn without_limit() -> RwLockReadGuard<'static, ()> {
    LIMIT.read().unwrap_or_else(PoisonError::into_inner)
}

/// A bool tensor of these bytes, and the same memory as uint8.
fn bytes(values: &[u8]) -> Result<(Tensor, Tensor)> {
    let storage = Shared::new(Storage::filled(values.len(), |to| {
        to.copy_from_slice(values);
        Ok(())
    })?);
    let n = [values.len()];
    let bools = Tensor::from_storage(storage.clone(), DType::Bool, &n, &[1], 0)?;
    let bytes = Tensor::from_storage(storage, DType::U8, &n, &[1], 0)?;
    Ok((bools, bytes))
}

#[test]
fn any_byte_but_0_is_true() -> Result<()> {
    let _limit = without_limit();
    let values: Vec<u8> = (0..200).map(|i| (i % 5 * 63) as u8).collect();
    let expected: Vec<bool> = values.iter().map(|&v| v != 0).collect();
    let (odd, _) = bytes(&values)?;
    let plain = Tensor::from_data(&expected, [expected.len()])?;
    assert_eq!(odd.to_vec::<bool>()?, expected);
    assert!(odd.select(0, 3)?.item::<bool>()?);
    // Whatever is computed from them is what is computed from true and false.
    for (what, x) in [("odd", &odd), ("plain", &plain)] {
        let not: Vec<bool> = expected.iter().map(|b| !b).collect();
        assert_eq!(x.logical_not()?.to_vec::<bool>()?, not, "{what}");
        assert_eq!(x.bitwise_and(&plain)?.to_vec::<bool>()?, expected, "{what}");
        assert_eq!(x.eq(&plain)?.to_vec::<bool>()?, vec![true; 200], "{what}");
        assert_eq!(x.sum()?.item::<i64>()?, 160, "{what}");
        assert_eq!(x.count_nonzero()?.item::<i64>()?, 160, "{what}");
        assert!(
            x.any()?.item::<bool>()? && !x.all()?.item::<bool>()?,
            "{what}"
        );
        assert!(
            x.index_select(0, &x.nonzero()?.flatten(0)?)?
                .all()?
                .item::<bool>()?,
            "{what}"
        );
        assert_eq!(x.masked_select(x)?.numel(), 160, "{what}");
        let (sorted, _) = x.sort()?;
        assert_eq!(sorted.sum()?.item::<i64>()?, 160, "{what}");
        assert!(
            !sorted.select(0, 39)?.item::<bool>()? && sorted.select(0, 40)?.item::<bool>()?,
            "{what}"
        );
        assert_eq!(x.unique()?.numel(), 2, "{what}");
        assert!(x.equal(&plain)?, "{what}");
        assert_eq!(
            x.to_dtype(DType::F32)?.sum()?.item::<f32>()?,
            160.0,
            "{what}"
        );
        let scattered = Tensor::zeros([200], DType::Bool, Device::Cpu)?;
        scattered.copy_(x)?;
        assert_eq!(scattered.to_vec::<bool>()?, expected, "{what}");
        let max = x.max()?.item::<bool>()?;
        assert!(max, "{what}");
    }
    Ok(())
}

#[test]
fn a_bool_tensor_is_written_through_its_bytes() -> Result<()> {
    let _limit = without_limit();
    let x = Tensor::from_data(&[true, false, true], [3])?;
    let view = x.view_dtype(DType::U8)?;
    view.fill_(2)?;
    assert_eq!(x.to_vec::<bool>()?, [true; 3]);
    let back = view.view_dtype(DType::Bool)?;
    assert_eq!(back.to_vec::<bool>()?, [true; 3]);
    assert!(back.logical_not()?.any()?.item::<bool>().is_ok_and(|b| !b));
    // What `empty` finds in memory is a bool too.
    let found = Tensor::empty([64], DType::Bool, Device::Cpu)?;
    let twice = found.logical_not()?.logical_not()?;
    assert_eq!(found.to_vec::<bool>()?, twice.to_vec::<bool>()?);
    Ok(())
}

/// A uint8 tensor in a mapped file, that begins at an odd address.
fn at_an_odd_address() -> Result<Tensor> {
    let path = std::env::temp_dir().join(format!("torsh-odd-{}", std::process::id()));
    std::fs::File::create(&path)?.write_all(&[0; 64])?;
    let file = std::fs::File::open(&path)?;
    let all = 1..33;
    let storage = Storage::map_file(&file, std::slice::from_ref(&all))?.swap_remove(0);
    let removed = std::fs::remove_file(&path);
    // Windows keeps a file that is mapped.
    if !cfg!(windows) {
        removed?;
    }
    Tensor::from_storage(Shared::new(storage), DType::U8, &[32], &[1], 0)
}

#[test]
fn a_view_is_aligned_for_its_dtype() -> Result<()> {
    let _limit = without_limit();
    let x = at_an_odd_address()?;
    assert_eq!(x.view_dtype(DType::I8)?.numel(), 32);
    for dtype in [DType::I16, DType::F32, DType::F64, DType::C128] {
        let e = x.view_dtype(dtype).expect_err("an odd address").to_string();
        let said = format!("the memory is not aligned for {dtype}");
        assert!(e.starts_with("view: ") && e.contains(&said), "{e}");
        assert!(e.contains("uint8[32] cpu") && e.contains("copy()"), "{e}");
        // What the hint says helps.
        assert_eq!(x.copy()?.view_dtype(dtype)?.numel(), 32 / dtype.size());
    }
    // Half of a complex number's size is enough for it.
    let floats = Tensor::from_data(&[0.0f32; 6], [6])?;
    let pairs = floats.narrow(0, 2, 4)?.view_dtype(DType::C64)?;
    assert_eq!(pairs.dims(), [2]);
    Ok(())
}

#[test]
fn a_refused_request_names_its_operation() -> Result<()> {
    let _limit = LIMIT.write().unwrap_or_else(PoisonError::into_inner);
    let x = Tensor::zeros([1 << 16], DType::F32, Device::Cpu)?;
    torsh_core::alloc::set_limit(Some(1 << 16));
    let (result, line) = (x.add(1.0), line!());
    torsh_core::alloc::set_limit(None);
    let e = result.expect_err("beyond the limit").to_string();
    assert!(
        e.starts_with("add: out of memory: cpu cannot give the 262144 bytes"),
        "{e}"
    );
    assert!(e.contains("operands: float32[65536] cpu, 1"), "{e}");
    assert!(e.contains(&format!("memory.rs:{line}")), "{e}");
    Ok(())
}
