//! Memory of a storage that goes back to the system and comes again.

use torsh_tensor::{DType, HeldStorage, Result, Shared, Storage, Tensor, tensor};

#[test]
fn memory_that_was_given_back_is_an_error_and_comes_again() -> Result<()> {
    let storage = Shared::new(Storage::reserved(16)?);
    let w = Tensor::from_storage(storage.clone(), DType::F32, &[2, 2], &[2, 1], 0)?;
    w.copy_(&tensor![[1.0, 2.0], [3.0, 4.0]])?;
    let x = tensor![[1.0, 1.0]].requires_grad_(true);
    let y = x.matmul(&w)?;
    assert_eq!(y, tensor![[4.0, 6.0]]);
    let bytes = w.to_bytes()?;
    storage.release()?;
    for e in [
        w.add(1.0).err(),
        w.to_vec::<f32>().err(),
        w.select(0, 0)?.select(0, 0)?.item::<f32>().err(),
        w.fill_(0.0).err(),
        y.sum()?.backward_with(None, true, false).err(),
    ] {
        let text = e.expect("the memory is away").to_string();
        assert!(
            text.contains("memory of an operand was given back"),
            "{text}"
        );
    }
    assert!(w.to_string().contains("its memory was given back"));
    // The same bytes at the same place: what the graph has saved is valid again.
    storage.restore()?;
    let mut held = HeldStorage::try_new(&storage, true).expect("nobody uses it");
    held.bytes_mut().copy_from_slice(&bytes);
    drop(held);
    x.zero_grad();
    y.sum()?.backward()?;
    assert_eq!(x.grad(), Some(tensor![[3.0, 7.0]]));
    Ok(())
}
