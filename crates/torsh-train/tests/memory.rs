//! Pools, and steps that get by with less.

use std::cell::Cell;
use std::time::{Duration, Instant};

use torsh_nn::{Linear, Module, ModuleExt};
use torsh_tensor::{DType, Device, Result, Tensor, TorshError};
use torsh_train::memory::{
    MemoryPool, ModelContext, Retry, TrainingContext, parallel_forward, with_smaller_batches,
};

#[test]
fn a_pool_gives_out_again_within_its_limit() -> Result<()> {
    let pool = MemoryPool::new(1000);
    let a = pool.allocate_tensor([10, 10], DType::F32)?;
    let b = pool.allocate_tensor([100], DType::F32)?;
    assert_eq!((pool.used(), pool.kept()), (800, 0));
    assert!(matches!(
        pool.allocate_tensor([51], DType::F32),
        Err(TorshError::OutOfMemory)
    ));
    let at = a.untyped_storage()?.ptr();
    drop(a);
    assert_eq!((pool.used(), pool.kept()), (400, 400));
    // Another shape of as many elements is the same memory, another dtype is not.
    let c = pool.allocate_tensor([4, 25], DType::F32)?;
    assert_eq!((c.untyped_storage()?.ptr(), c.dims()), (at, &[4, 25][..]));
    assert_eq!(pool.reused(), 1);
    drop(c);
    // What waits goes where there is no room for both.
    let d = pool.allocate_tensor([60], DType::F64)?;
    assert_eq!((pool.used(), pool.kept(), pool.reused()), (880, 0, 1));
    drop((b, d));
    assert_eq!((pool.used(), pool.kept()), (0, 880));
    pool.cleanup();
    assert_eq!(pool.kept(), 0);
    assert!(
        pool.allocate_tensor([1usize << 40, 1usize << 40], DType::F32)
            .is_err()
    );
    Ok(())
}

/// Memory that somebody still uses is not given out again.
#[test]
fn a_pool_leaves_views_alone() -> Result<()> {
    let pool = MemoryPool::new(1 << 20);
    let a = pool.allocate_tensor([4], DType::F32)?;
    a.fill_(7.0)?;
    let view = a.narrow(0, 1, 2)?;
    drop(a);
    assert_eq!((pool.used(), pool.kept()), (0, 0));
    let handle = pool.allocate_tensor([4], DType::F32)?.clone();
    handle.fill_(0.0)?;
    pool.allocate_tensor([4], DType::F32)?.fill_(0.0)?;
    assert_eq!(view.to_vec::<f32>()?, [7.0, 7.0]);
    assert_eq!(pool.kept(), 16);
    // A pool and its tensors go between threads, and tensors may outlive the pool's handle.
    let t = std::thread::spawn(move || pool.allocate_tensor([4], DType::F32)).join();
    assert_eq!(t.expect("no panic")?.to_vec::<f32>()?, [0.0; 4]);
    Ok(())
}

#[test]
fn contexts() -> Result<()> {
    let cx = ModelContext::new(Device::Cpu, 64)?;
    assert!(cx.create_tensor([17], DType::F32).is_err());
    assert_eq!((cx.device(), cx.pool().limit()), (Device::Cpu, 64));
    assert!(ModelContext::new(Device::Cuda(7), 64).is_err());

    let net = Linear::new(2, 1);
    let mut cx = TrainingContext::new(&net, 6)?;
    let a = cx.workspace([2, 3])?;
    a.fill_(1.0)?;
    let b = cx.workspace([4])?;
    assert!(a.shares_storage(&b));
    assert_eq!(b.to_vec::<f32>()?, [1.0; 4]);
    assert!(!cx.workspace([7])?.shares_storage(&a));
    let e = cx
        .add_gradients(&Linear::new(3, 1))
        .unwrap_err()
        .to_string();
    assert!(e.contains("other parameters"), "{e}");
    net.forward(&Tensor::ones([1, 2], DType::F32, Device::Cpu)?)?
        .sum()?
        .backward()?;
    cx.add_gradients(&net)?;
    assert!(net.weight.grad().is_none());
    assert_eq!(cx.gradients()[1].to_vec::<f32>()?, [1.0]);
    cx.clear()?;
    assert_eq!(cx.gradients()[1].to_vec::<f32>()?, [0.0]);
    Ok(())
}

#[test]
fn retries_stop_where_they_are_of_no_use() {
    let calls = Cell::new(0);
    let run = |e: fn() -> TorshError| {
        calls.set(0);
        let retry = Retry::new(2).pause(Duration::from_millis(5));
        retry.run(|_| -> Result<()> {
            calls.set(calls.get() + 1);
            Err(e())
        })
    };
    let start = Instant::now();
    assert!(matches!(
        run(|| TorshError::OutOfMemory),
        Err(TorshError::OutOfMemory)
    ));
    // 5 and then 10 milliseconds of pause.
    assert!(calls.get() == 3 && start.elapsed() >= Duration::from_millis(15));
    let e = run(|| TorshError::shape("add", "no"));
    assert!(e.is_err() && calls.get() == 1);
    let e = run(|| TorshError::Other("network".into()));
    assert!(e.is_err() && calls.get() == 3);
}

#[test]
fn a_batch_is_halved_until_it_fits() -> Result<()> {
    let x = Tensor::from_fn([7, 2], |i| (i[0] + i[1]) as f32)?;
    let y = x.sum_dim(1, true)?;
    let net = Linear::new(2, 1);
    let step = |most: usize| {
        let net = &net;
        move |x: &Tensor, y: &Tensor, part: f64| {
            if x.dims()[0] > most {
                return Err(TorshError::OutOfMemory);
            }
            let loss = net.forward(x)?.sub(y)?.square()?.mean()?;
            loss.mul(part)?.backward()?;
            loss.item::<f64>()
        }
    };
    let run = |most| -> Result<(f64, Vec<f64>)> {
        let loss = with_smaller_batches(&x, &y, || net.zero_grad(), step(most))?;
        Ok((
            loss,
            net.weight.grad().expect("a gradient").to_vec::<f64>()?,
        ))
    };
    let (loss, grad) = run(7)?;
    for most in [4, 3, 2, 1] {
        let (l, g) = run(most)?;
        assert!((l - loss).abs() < 1e-4 * loss, "{l} is not {loss}");
        assert!(
            g.iter()
                .zip(&grad)
                .all(|(a, b)| (a - b).abs() < 1e-4 * b.abs()),
            "{g:?} {grad:?}"
        );
    }
    assert!(matches!(run(0), Err(TorshError::OutOfMemory)));
    let e = with_smaller_batches(&x, &y.narrow(0, 0, 3)?, || {}, step(7)).unwrap_err();
    assert!(
        e.to_string().contains("[7, 2]") && e.to_string().contains("[3, 1]"),
        "{e}"
    );
    Ok(())
}

#[test]
fn batches_in_parallel_keep_their_order_and_errors() -> Result<()> {
    let net = Linear::new(2, 1);
    let x = |i: usize| Tensor::full([1, 2], i as f64, DType::F32, Device::Cpu);
    let mut batches = (0..20).map(x).collect::<Result<Vec<_>>>()?;
    let outputs = parallel_forward(&net, &batches, 0)?;
    for (x, y) in batches.iter().zip(&outputs) {
        assert!(!y.requires_grad());
        assert_eq!(y.to_vec::<f32>()?, net.forward(x)?.to_vec::<f32>()?);
    }
    batches[13] = Tensor::ones([1, 3], DType::F32, Device::Cpu)?;
    let e = parallel_forward(&net, &batches, 4).unwrap_err().to_string();
    assert!(e.contains("parallel_forward, batch 13"), "{e}");
    assert!(parallel_forward(&net, &[], 4)?.is_empty());
    Ok(())
}
