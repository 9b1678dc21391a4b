//! The seam between tensors and devices, seen through a device that is not the CPU.

use torsh_backend_mock::Injection;
use torsh_core::Device;
use torsh_core::backend::QueueId;
use torsh_tensor::{DType, Result, Shared, Tensor, TorshError, tensor};

use crate::alone;

#[test]
fn tensors_go_there_and_back() -> Result<()> {
    let (d, _, _alone) = alone();
    let x = tensor![[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]];
    let y = x.to_device(d)?;
    assert_eq!(y.device().to_string(), "mock:0");
    let z = y.t()?.add(1.0)?.mul(&y.t()?)?;
    assert_eq!(z.to_vec::<f32>()?, [2.0, 20.0, 6.0, 30.0, 12.0, 42.0]);
    assert_eq!(z.cpu()?, x.t()?.add(1.0)?.mul(&x.t()?)?);
    assert_eq!(y.sum()?.item::<f32>()?, 21.0);
    assert!(format!("{y}").contains("device='mock:0'"), "{y}");
    Ok(())
}

#[test]
fn a_0d_tensor_of_the_cpu_is_a_number_of_the_call() -> Result<()> {
    let (d, _, _alone) = alone();
    let x = tensor![1.0, 2.0].to_device(d)?;
    let half = tensor![0.5];
    assert_eq!(x.mul(&half.select(0, 0)?)?.to_vec::<f32>()?, [0.5, 1.0]);
    let e = x.mul(&half).expect_err("two devices").to_string();
    assert!(
        e.contains("mul") && e.contains("found mock:0 and cpu") && e.contains("to_device"),
        "{e}"
    );
    Ok(())
}

#[test]
fn where_takes_0d_tensors_of_the_cpu() -> Result<()> {
    let (d, _, _alone) = alone();
    let x = tensor![1.0, 2.0].to_device(d)?.requires_grad_(true);
    let scalar = |v: f64| Tensor::scalar(v, DType::F64, Device::Cpu);
    let yes = Tensor::scalar(true, DType::Bool, Device::Cpu)?;
    let y = Tensor::where_(&yes, &x, &scalar(5.0)?)?;
    assert_eq!((y.device(), y.dtype()), (d, DType::F32));
    assert_eq!(y.detach().to_vec::<f32>()?, [1.0, 2.0]);
    let other = scalar(5.0)?.requires_grad_(true);
    let y = Tensor::where_(&x.detach().gt(1.5)?, &x, &other)?;
    assert_eq!(y.detach().to_vec::<f32>()?, [5.0, 2.0]);
    y.sum()?.backward()?;
    assert_eq!(x.grad().expect("a gradient").to_vec::<f32>()?, [0.0, 1.0]);
    let g = other.grad().expect("a gradient");
    assert_eq!((g.device(), g.item::<f64>()?), (Device::Cpu, 1.0));
    // As the definitions and derivatives of these do.
    let numbers = x.detach().xlogy(2.0)?.to_vec::<f32>()?;
    assert!((numbers[1] - 2.0 * 2f32.ln()).abs() < 1e-6, "{numbers:?}");
    let e = Tensor::where_(&yes, &x, &tensor![1.0, 2.0])
        .expect_err("two devices")
        .to_string();
    assert!(e.contains("where") && e.contains("mock:0"), "{e}");
    Ok(())
}

#[test]
fn a_loss_is_divided_by_a_number_without_float64() -> Result<()> {
    let (d, _, _alone) = alone();
    let x = tensor![1.0, 2.0].to_device(d)?.requires_grad_(true);
    x.sum()?.div(4.0)?.pow(2.0)?.backward()?;
    let g = x.grad().expect("a gradient");
    assert_eq!((g.device(), g.to_vec::<f32>()?), (d, vec![0.375, 0.375]));
    Ok(())
}

#[test]
fn gradients_stay_on_their_device_and_flow_through_moves() -> Result<()> {
    let (d, _, _alone) = alone();
    let x = tensor![1.0, 2.0, 3.0].requires_grad_(true);
    let w = tensor![2.0].select(0, 0)?.detach().requires_grad_(true);
    let y = x.to_device(d)?.mul(&w)?.sum()?;
    y.backward()?;
    let g = x.grad().expect("a gradient");
    assert_eq!(g.device(), Device::Cpu);
    assert_eq!(g.to_vec::<f32>()?, [2.0; 3]);
    let g = w.grad().expect("a gradient");
    assert_eq!((g.device(), g.item::<f32>()?), (Device::Cpu, 6.0));
    Ok(())
}

#[test]
fn a_bad_index_is_reported_once_with_its_call() -> Result<()> {
    let (d, _, _alone) = alone();
    let x = tensor![1.0, 2.0].to_device(d)?;
    let bad = Tensor::from_data(&[0i64, 7], [2])?.to_device(d)?;
    let line = line!() + 1;
    let y = x.index_select(0, &bad)?;
    let e = y
        .to_vec::<f32>()
        .expect_err("7 is out of range")
        .to_string();
    assert!(e.contains("index_select") && e.contains('7'), "{e}");
    assert!(e.contains(&format!("device.rs:{line}")), "{e}");
    assert_eq!(x.add(1.0)?.to_vec::<f32>()?, [2.0, 3.0]);
    Ok(())
}

#[test]
fn what_the_device_has_not_is_refused_by_name() -> Result<()> {
    let (d, _, _alone) = alone();
    let e = Tensor::zeros([2], DType::F64, d)
        .expect_err("no float64")
        .to_string();
    assert!(
        e.contains("mock:0 has no float64") && e.contains("F32"),
        "{e}"
    );
    let e = Tensor::zeros([2], DType::F32, Device::Cuda(0))
        .expect_err("no CUDA")
        .to_string();
    assert!(
        e.contains("cuda:0: this program has no backend for it; there is cpu, mock:0"),
        "{e}"
    );
    Ok(())
}

#[test]
fn queues_wait_for_each_other() -> Result<()> {
    let (d, _, _alone) = alone();
    let b = torsh_backend::backend(d)?;
    let x = tensor![1.0, 2.0].to_device(d)?;
    let other = b.new_queue(0)?;
    let mut y = x.add(1.0)?;
    for i in 0..20 {
        b.set_queue(if i % 2 == 0 { other } else { QueueId(0) })?;
        y = y.add(1.0)?;
    }
    b.set_queue(QueueId(0))?;
    assert_eq!(y.to_vec::<f32>()?, [22.0, 23.0]);
    Ok(())
}

#[test]
fn devices_draw_the_cpus_numbers_from_generators_of_their_own() -> Result<()> {
    let (d, _, _alone) = alone();
    let draws = |d: Device| -> Result<Vec<f32>> {
        torsh_core::random::manual_seed(7);
        let mut all = Tensor::empty([20], DType::F32, d)?
            .uniform_(-0.25, 0.25)?
            .to_vec()?;
        all.extend(Tensor::randn([20], DType::F32, d)?.to_vec::<f32>()?);
        let ints = Tensor::randint(0, 4, [24], DType::I64, d)?.to_dtype(DType::F32)?;
        all.extend(ints.to_vec::<f32>()?);
        all.extend(
            Tensor::rand([3], DType::F32, d)?
                .dropout(0.5, true)?
                .to_vec::<f32>()?,
        );
        Ok(all)
    };
    assert_eq!(draws(d)?, draws(Device::Cpu)?);
    let g = torsh_core::Generator::new(0);
    let e = Tensor::rand_with([2], DType::F32, d, &g)
        .expect_err("another device's")
        .to_string();
    assert!(
        e.contains("expected a generator of mock:0, but got one of cpu"),
        "{e}"
    );
    Ok(())
}

#[test]
fn memory_goes_back_and_comes_again_at_its_address() -> Result<()> {
    let (d, mock, _alone) = alone();
    let in_use = || -> Result<usize> {
        torsh_tensor::devices::synchronize(d)?;
        Ok(torsh_tensor::devices::memory_stats(d)?.allocated_bytes)
    };
    let before = in_use()?;
    let storage = Shared::new(torsh_tensor::devices::reserve(d, 8)?);
    let at = storage.ptr();
    let w = Tensor::from_storage(storage.clone(), DType::F32, &[2], &[1], 0)?;
    w.copy_(&tensor![2.0, 3.0])?;
    let x = tensor![1.0, 1.0].to_device(d)?.requires_grad_(true);
    let y = x.mul(&w)?;
    // The product is not computed yet: the memory goes when it is.
    storage.release()?;
    assert_eq!(in_use()?, before + 2 * 8);
    let refused = [
        w.add(1.0).map(drop),
        w.to_vec::<f32>().map(drop),
        w.to_device(Device::Cpu).map(drop),
        w.to_device(Device::Custom(1)).map(drop),
        w.zero_().map(drop),
        y.sum()?.backward_with(None, true, false),
    ];
    for e in refused {
        let text = e.expect_err("the memory is away").to_string();
        assert!(text.contains("was given back"), "{text}");
    }
    assert_eq!(y.to_vec::<f32>()?, [2.0, 3.0]);
    // No memory: it stays away.
    mock.inject(Injection::OutOfMemory(1));
    assert!(matches!(storage.restore(), Err(TorshError::OutOfMemory)));
    mock.inject(Injection::FailingCopies(1));
    let bytes: Vec<u8> = [2.0f32, 3.0].iter().flat_map(|v| v.to_ne_bytes()).collect();
    assert!(storage.restore_with(&bytes).is_err());
    assert!(storage.is_released());
    storage.restore_with(&bytes)?;
    assert_eq!(storage.ptr(), at);
    // The values from before: what the graph saved is valid.
    y.sum()?.backward()?;
    assert_eq!(x.grad(), Some(tensor![2.0, 3.0].to_device(d)?));
    // On another queue, which waits for the memory.
    let b = torsh_backend::backend(d)?;
    storage.release()?;
    storage.restore_with(&bytes)?;
    b.set_queue(b.new_queue(0)?)?;
    let z = w.add(1.0)?;
    storage.release()?;
    b.set_queue(QueueId(0))?;
    assert_eq!(z.to_vec::<f32>()?, [3.0, 4.0]);
    drop((w, storage, x, y, z));
    assert_eq!(in_use()?, before);
    // Other memory stays.
    let t = tensor![1.0].to_device(d)?;
    assert!(t.untyped_storage()?.release().is_err());
    Ok(())
}
