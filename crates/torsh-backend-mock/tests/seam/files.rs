//! Files of a device's tensors.

use torsh_core::{Device, Storage};
use torsh_optim::{Adam, Optimizer, OptimizerState};
use torsh_serialize::{LoadOptions, Value, load, load_with, save};
use torsh_tensor::{DType, Result, Shared, Tensor, tensor};

use crate::{Scratch, alone, assert_near, numbers};

fn there(device: Device) -> LoadOptions {
    LoadOptions::new().device(device)
}

#[test]
fn views_of_one_storage_are_saved_once_and_share_one_again() -> Result<()> {
    let (d, _, _alone) = alone();
    let file = Scratch::new("views.pt");
    let whole = Tensor::from_fn([4000, 10], |i| (i[0] * 10 + i[1]) as f32)?.to_device(d)?;
    let part = whole.narrow(0, 10, 5)?.t()?;
    let both = Value::from([("whole", Value::from(whole)), ("part", Value::from(part))]);
    save(&both, &file.0)?;
    let bytes = std::fs::metadata(&file.0)?.len();
    assert!((160_000..170_000).contains(&bytes), "{bytes} bytes");
    for device in [Device::Cpu, d] {
        let read = load_with(&file.0, there(device))?;
        let (whole, part) = (
            read.get("whole")?.as_tensor()?,
            read.get("part")?.as_tensor()?,
        );
        assert_eq!((whole.device(), part.device()), (device, device));
        assert!(Shared::ptr_eq(
            whole.untyped_storage()?,
            part.untyped_storage()?
        ));
        assert_eq!((part.dims(), part.stride()), (&[10, 5][..], &[1, 10][..]));
        assert_eq!(part.i((3, 4))?.item::<f32>()?, 143.0);
        whole.fill_(7.0)?;
        assert_eq!(part.sum()?.item::<f32>()?, 350.0);
    }
    Ok(())
}

#[test]
fn every_format_comes_back_to_the_device() -> Result<()> {
    let (d, _, _alone) = alone();
    let x = tensor![[1.5, -2.0], [0.25, 8.0]].to_device(d)?;
    let mask = tensor![true, false, true].to_device(d)?;
    let half = x.to_dtype(DType::BF16)?;
    for name in ["all.pt", "all.safetensors"] {
        let file = Scratch::new(name);
        let all = [("x", &x), ("mask", &mask), ("half", &half)];
        let all = all.map(|(n, t)| (n, Value::from(t.clone())));
        save(&Value::from(all), &file.0)?;
        for device in [Device::Cpu, d] {
            let read = load_with(&file.0, there(device))?;
            for (name, wanted) in [("x", &x), ("mask", &mask), ("half", &half)] {
                let t = read.get(name)?.as_tensor()?;
                assert_eq!((t.device(), t.dtype()), (device, wanted.dtype()));
                assert_eq!(t.cpu()?, wanted.cpu()?, "{name}");
            }
        }
    }
    let file = Scratch::new("one.npy");
    save(&Value::from(x.t()?), &file.0)?;
    assert_eq!(load(&file.0)?.as_tensor()?, &x.t()?.cpu()?);
    assert_eq!(load_with(&file.0, there(d))?.as_tensor()?.device(), d);
    Ok(())
}

#[test]
fn a_dtype_that_the_device_has_not_is_refused_by_name() -> Result<()> {
    let (d, _, _alone) = alone();
    let file = Scratch::new("double.pt");
    let double = Tensor::ones([3], DType::F64, Device::Cpu)?;
    save(&Value::from([("w", Value::from(double))]), &file.0)?;
    let e = load_with(&file.0, there(d))
        .expect_err("no float64")
        .to_string();
    assert!(e.contains("mock:0 has no float64"), "{e}");
    Ok(())
}

#[test]
fn a_storage_is_read_through_its_device() -> Result<()> {
    let (d, _, _alone) = alone();
    let x = Tensor::from_slice(&[1u8, 2, 3, 4], [4], DType::U8, d)?;
    let mut bytes = [0; 2];
    x.add(1)?.untyped_storage()?.read(1, &mut bytes)?;
    assert_eq!(bytes, [3, 4]);
    assert!(x.untyped_storage()?.read(3, &mut bytes).is_err());
    assert!(Storage::meta(4).read(0, &mut bytes).is_err());
    Ok(())
}

#[test]
fn an_optimizer_goes_on_from_its_state_on_the_other_device() -> Result<()> {
    let (d, _, _alone) = alone();
    let start = |device: Device| -> Result<(Vec<Tensor>, Adam)> {
        let w = Tensor::from_fn([4], |i| i[0] as f32 - 1.5)?.to_device(device)?;
        let w = w.detach().requires_grad_(true);
        let adam = Adam::new([&w], 0.1)?;
        Ok((vec![w], adam))
    };
    let steps = |(w, adam): &(Vec<Tensor>, Adam), n: usize| -> Result<()> {
        for _ in 0..n {
            adam.zero_grad();
            w[0].square()?.sum()?.backward()?;
            adam.step()?;
        }
        Ok(())
    };
    let whole = start(Device::Cpu)?;
    steps(&whole, 5)?;
    let wanted = numbers(&whole.0)?;
    for (from, to) in [(d, Device::Cpu), (Device::Cpu, d), (d, d)] {
        let file = Scratch::new("adam.pt");
        let first = start(from)?;
        steps(&first, 3)?;
        let state = Value::from(&first.1.state_dict());
        let weight = Value::from(first.0[0].detach());
        save(&Value::from([("adam", state), ("w", weight)]), &file.0)?;

        let read = load(&file.0)?;
        let second = start(to)?;
        torsh_tensor::no_grad(|| second.0[0].copy_(read.get("w")?.as_tensor()?))?;
        let state = OptimizerState::try_from(read.get("adam")?)?;
        second.1.load_state_dict(&state)?;
        steps(&second, 2)?;
        assert_near(&numbers(&second.0)?, &wanted);
        assert_eq!(second.1.state_dict().state[&0]["step"].as_i64(), Some(5));
    }
    Ok(())
}
