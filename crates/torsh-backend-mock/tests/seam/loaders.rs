//! Loading of data, with and beside a device.

use torsh_core::Device;
use torsh_data::{DataLoader, Dataset, Sampler, TensorDataset, WeightedRandomSampler};
use torsh_nn::utils::rnn::{pack_padded_sequence, pad_packed_sequence};
use torsh_tensor::{DType, Result, Tensor, TorshError, set_default_device};
use torsh_train::memory::Retry;

use crate::{alone, waits};

/// Another default device, until the end of a test.
struct Default;

impl Default {
    fn set(device: Device) -> Result<Default> {
        set_default_device(device)?;
        Ok(Default)
    }
}

impl Drop for Default {
    fn drop(&mut self) {
        let _ = set_default_device(Device::Cpu);
    }
}

fn items(device: Device) -> Result<TensorDataset<(Tensor, Tensor)>> {
    let x = Tensor::from_slice(&[0f32, 1., 2., 3., 4., 5., 6., 7.], [8], DType::F32, device)?;
    let y = Tensor::from_slice(&[7i64, 6, 5, 4, 3, 2, 1, 0], [8], DType::I64, Device::Cpu)?;
    Ok(TensorDataset::new(x, y))
}

#[test]
fn datasets_keep_their_devices_beside_a_default_one() -> Result<()> {
    let (d, _, _alone) = alone();
    let _default = Default::set(d)?;
    for device in [Device::Cpu, d] {
        let (x, y) = items(device)?.get_batch(&[6, 1])?;
        assert_eq!((x.device(), y.device()), (device, Device::Cpu));
        assert_eq!(
            (x.to_vec::<f32>()?, y.to_vec::<i64>()?),
            (vec![6., 1.], vec![1, 6])
        );
    }
    Ok(())
}

#[test]
fn samplers_and_loaders_draw_on_the_cpu_beside_a_default_device() -> Result<()> {
    let (d, _, _alone) = alone();
    let draw = || {
        torsh_core::random::manual_seed(5);
        WeightedRandomSampler::new([0.1, 0.0, 0.7, 0.2], 10)?.indices()
    };
    let here = draw()?;
    let _default = Default::set(d)?;
    assert_eq!(draw()?, here);
    let loader = DataLoader::builder(items(Device::Cpu)?)
        .shuffle(true)
        .seed(1);
    let loader = loader.batch_size(4).build()?;
    drop(loader.iter().next());
    let state = loader.state_dict()?;
    assert!(state.values().all(|t| t.device() == Device::Cpu));
    loader.load_state_dict(&state)?;
    assert_eq!(loader.iter().count(), 1);
    Ok(())
}

#[test]
fn batches_arrive_on_the_device_without_waiting() -> Result<()> {
    let (d, mock, _alone) = alone();
    let read = |device: Device, workers: usize| -> Result<(usize, Vec<f32>)> {
        let loader = DataLoader::builder(items(Device::Cpu)?)
            .batch_size(3)
            .shuffle(true);
        let loader = loader.seed(4).num_workers(workers).device(device).build()?;
        let (waited, batches) = waits(mock, || loader.try_iter().collect::<Result<Vec<_>>>())?;
        let mut all = Vec::new();
        for (x, y) in batches {
            assert_eq!((x.device(), y.device()), (device, device));
            all.extend(x.to_vec::<f32>()?);
            all.extend(y.to_vec::<f32>()?);
        }
        Ok((waited, all))
    };
    let (_, wanted) = read(Device::Cpu, 0)?;
    assert_eq!(read(d, 0)?, (0, wanted.clone()));
    assert_eq!(read(d, 2)?, (0, wanted));
    Ok(())
}

#[test]
fn sequences_are_packed_beside_a_default_device() -> Result<()> {
    let (d, _, _alone) = alone();
    let _default = Default::set(d)?;
    for device in [Device::Cpu, d] {
        let x = Tensor::from_slice(&[1f32, 2., 3., 4., 5., 0.], [3, 2], DType::F32, device)?;
        let lengths = Tensor::from_slice(&[3i64, 2], [2], DType::I64, Device::Cpu)?;
        let packed = pack_padded_sequence(&x, &lengths)?;
        assert_eq!(packed.data.device(), device);
        assert_eq!(packed.batch_sizes.device(), Device::Cpu);
        let (padded, lengths) = pad_packed_sequence(&packed)?;
        assert_eq!(padded.to_vec::<f32>()?, [1., 2., 3., 4., 5., 0.]);
        assert_eq!(
            (lengths.device(), lengths.to_vec::<i64>()?),
            (Device::Cpu, vec![3, 2])
        );
    }
    Ok(())
}

#[test]
fn another_try_comes_after_the_devices_work_is_done() -> Result<()> {
    let (d, mock, _alone) = alone();
    let retry = Retry::new(1).pause(std::time::Duration::ZERO).device(d);
    let (waited, found) = waits(mock, || {
        retry.run(|attempt| match attempt {
            0 => Err(TorshError::OutOfMemory),
            n => Ok(n),
        })
    })?;
    assert_eq!((waited, found), (1, 1));
    Ok(())
}
