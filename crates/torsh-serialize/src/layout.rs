//! Using the bytes of a file as the memory of tensors.

use std::io::Write;

use torsh_tensor::{DType, Device, Result, Shared, Storage, Tensor, TorshError};

use crate::archive::to_storage;

/// The bytes of one number: of one part, for complex ones.
fn part(dtype: DType) -> usize {
    dtype.to_real().size()
}

/// The storage as a tensor of `dtype` can use it: itself where it is aligned and of this
/// machine's byte order, else a copy.
pub(crate) fn usable(
    storage: Shared<Storage>,
    dtype: DType,
    big_endian: bool,
) -> Result<Shared<Storage>> {
    let swap = big_endian != cfg!(target_endian = "big") && part(dtype) > 1;
    let aligned = (storage.ptr() as usize).is_multiple_of(part(dtype));
    if (aligned && !swap) || storage.bytes() == 0 {
        return Ok(storage);
    }
    let mut bytes = vec![0; storage.bytes()];
    storage.read(0, &mut bytes)?;
    if swap {
        bytes
            .chunks_exact_mut(part(dtype))
            .for_each(<[u8]>::reverse);
    }
    to_storage(&bytes)
}

/// The tensor's elements, row-major and little-endian.
pub(crate) fn little_endian(tensor: &Tensor) -> Result<Vec<u8>> {
    let mut bytes = tensor.to_bytes()?;
    to_little(&mut bytes, tensor.dtype());
    Ok(bytes)
}

fn to_little(bytes: &mut [u8], dtype: DType) {
    if cfg!(target_endian = "big") {
        bytes
            .chunks_exact_mut(part(dtype))
            .for_each(<[u8]>::reverse);
    }
}

/// How much of a storage is read at once; a device is waited for each time.
const BLOCK: usize = 1 << 20;
const DEVICE_BLOCK: usize = 64 << 20;

/// Writes all of a tensor's storage, little-endian, a block at a time.
pub(crate) fn write_storage(tensor: &Tensor, to: &mut dyn Write) -> Result<()> {
    let storage = tensor.untyped_storage()?;
    let most = match storage.device().is_host() {
        true => BLOCK,
        false => DEVICE_BLOCK,
    };
    let mut block = vec![0; storage.bytes().min(most)];
    for start in (0..storage.bytes()).step_by(block.len().max(1)) {
        let n = block.len().min(storage.bytes() - start);
        storage.read(start, &mut block[..n])?;
        to_little(&mut block[..n], tensor.dtype());
        to.write_all(&block[..n])?;
    }
    Ok(())
}

/// An error for a sparse tensor, in a format that has none.
pub(crate) fn strided(format: &str, name: &str, tensor: &Tensor) -> Result<()> {
    let layout = tensor.layout();
    if layout.is_strided() {
        return Ok(());
    }
    let of = match name {
        "" => "this".to_string(),
        _ => name.to_string(),
    };
    let what = tensor.describe();
    Err(TorshError::invalid(
        "save",
        format!("{format} files have no sparse tensors; {of} is {what} of the layout {layout}"),
    )
    .with_hint("save a .pt file, which has them, or the tensor that to_dense() makes of it"))
}

/// The error of saving a tensor without data.
pub(crate) fn no_data() -> TorshError {
    TorshError::device("save", "a meta tensor has no data")
}

/// The tensor on the host, where files are written from.
pub(crate) fn on_host(tensor: &Tensor) -> Result<Tensor> {
    match tensor.device() {
        Device::Cpu => Ok(tensor.detach()),
        Device::Meta => Err(no_data()),
        _ => tensor.detach().to_device(Device::Cpu),
    }
}
