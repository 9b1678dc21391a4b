//! Workers that stay, are late, draw numbers; streams; positions.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use torsh_core::Generator;
use torsh_core::random::LocalGenerator;
use torsh_data::{
    ChainDataset, DataLoader, Dataset, DistributedSampler, IterableDataset, IterableLoader,
    RandomSampler, get_worker_info,
};
use torsh_tensor::{DType, Device, Result, Tensor, TorshError};

/// Items with noise from the default generator.
struct Noisy;
impl Dataset for Noisy {
    type Item = (i64, Tensor);
    fn len(&self) -> usize {
        11
    }
    fn get(&self, i: usize) -> Result<Self::Item> {
        Ok((i as i64, Tensor::rand([2], DType::F32, Device::Cpu)?))
    }
}

type Epoch = Vec<(Vec<i64>, Vec<f32>)>;

fn values((i, x): (Tensor, Tensor)) -> Result<(Vec<i64>, Vec<f32>)> {
    Ok((i.to_vec()?, x.to_vec()?))
}

fn epoch(loader: &DataLoader<Noisy>) -> Result<Epoch> {
    loader.try_iter().map(|b| values(b?)).collect()
}

#[test]
fn what_a_dataset_draws_does_not_depend_on_the_workers() -> Result<()> {
    let read = |workers| -> Result<(Epoch, Epoch)> {
        let loader = DataLoader::builder(Noisy)
            .batch_size(2)
            .shuffle(true)
            .seed(4)
            .num_workers(workers)
            .build()?;
        Ok((epoch(&loader)?, epoch(&loader)?))
    };
    let want = read(0)?;
    assert_ne!(want.0[0].1, want.0[1].1);
    assert_ne!(want.0[0].1, want.1[0].1);
    for workers in 1..=4 {
        assert_eq!(read(workers)?, want, "{workers} workers");
    }
    Ok(())
}

#[test]
fn workers_that_stay_give_pytorchs_orders() -> Result<()> {
    let begun = std::sync::Arc::new(AtomicUsize::new(0));
    let count = begun.clone();
    let loader = DataLoader::builder((0..10i64).collect::<Vec<_>>())
        .batch_size(4)
        .shuffle(true)
        .seed(0)
        .num_workers(1)
        .persistent_workers(true)
        .worker_init_fn(move |_| {
            count.fetch_add(1, Ordering::Relaxed);
            Ok(())
        })
        .build()?;
    let epoch = || -> Result<Vec<Vec<i64>>> { loader.try_iter().map(|b| b?.to_vec()).collect() };
    assert_eq!(epoch()?, [vec![3, 7, 5, 2], vec![0, 8, 1, 6], vec![9, 4]]);
    // Left in the middle: what was made ahead is not the next epoch's.
    let mut left = loader.try_iter();
    let second = left.next().expect("a batch")?;
    assert_eq!(second.to_vec::<i64>()?, [6, 3, 9, 5]);
    drop(left);
    assert_eq!(epoch()?, [vec![1, 8, 4, 3], vec![0, 9, 5, 6], vec![7, 2]]);
    assert_eq!(begun.load(Ordering::Relaxed), 1, "one worker, begun once");
    // Two epochs at once.
    let (a, b) = (loader.try_iter(), loader.try_iter());
    assert_eq!(a.zip(b).count(), 3);
    Ok(())
}

#[test]
fn options_that_need_workers_say_so() {
    let data = || (0..3i64).collect::<Vec<_>>();
    let e = DataLoader::builder(data()).persistent_workers(true).build();
    assert!(
        e.expect_err("no workers")
            .to_string()
            .contains("num_workers > 0")
    );
    let e = DataLoader::builder(data())
        .timeout(Duration::from_secs(1))
        .build();
    assert!(e.expect_err("no workers").to_string().contains("timeout"));
}

/// Item 5 waits until it is told to go on.
struct Late {
    go: std::sync::Arc<AtomicBool>,
}
impl Dataset for Late {
    type Item = i64;
    fn len(&self) -> usize {
        8
    }
    fn get(&self, i: usize) -> Result<i64> {
        while i == 5 && !self.go.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(i as i64)
    }
}

#[test]
fn a_batch_that_takes_too_long_is_an_error() -> Result<()> {
    let go = std::sync::Arc::new(AtomicBool::new(false));
    let loader = DataLoader::builder(Late { go: go.clone() })
        .batch_size(2)
        .num_workers(2)
        .timeout(Duration::from_secs(1))
        .build()?;
    let batches: Vec<Result<Tensor>> = loader.try_iter().collect();
    assert_eq!(batches.len(), 3);
    assert_eq!(
        batches[1].as_ref().expect("in time").to_vec::<i64>()?,
        [2, 3]
    );
    let e = batches[2].as_ref().expect_err("late").to_string();
    assert!(
        e.contains("timed out after 1 seconds") && e.contains("is still at batch 2"),
        "{e}"
    );
    go.store(true, Ordering::Relaxed);
    assert_eq!(loader.try_iter().filter(|b| b.is_ok()).count(), 4);
    Ok(())
}

#[test]
fn what_a_worker_cannot_begin_with_is_an_error() -> Result<()> {
    let loader = DataLoader::builder((0..4i64).collect::<Vec<_>>())
        .num_workers(2)
        .worker_init_fn(|id| match id {
            0 => Err(TorshError::Other("no licence".to_string())),
            _ => panic!("no disk"),
        })
        .build()?;
    for b in loader.try_iter() {
        let e = b.expect_err("none begins").to_string();
        assert!(e.contains("worker_init_fn") && e.contains("no "), "{e}");
    }
    Ok(())
}

/// Worker `w` has `lens[w]` items from `100 * w`.
struct Parts(Vec<i64>);
impl IterableDataset for Parts {
    type Item = i64;
    fn iter(&self) -> Box<dyn Iterator<Item = Result<i64>> + Send + '_> {
        let w = get_worker_info().map_or(0, |w| w.id);
        let from = 100 * w as i64;
        Box::new((from..from + self.0[w]).map(|i| match i {
            13 => Err(TorshError::Other("torn".to_string())),
            17 => panic!("no such item"),
            i => Ok(i),
        }))
    }
}

#[test]
fn streams_come_in_turn_as_pytorchs() -> Result<()> {
    let read = |drop_last| -> Result<Vec<Vec<i64>>> {
        IterableLoader::new(Parts(vec![5, 1, 3]), 2)?
            .num_workers(3)
            .drop_last(drop_last)
            .try_iter()
            .map(|b| b?.to_vec())
            .collect()
    };
    assert_eq!(
        read(false)?,
        [
            vec![0, 1],
            vec![100],
            vec![200, 201],
            vec![2, 3],
            vec![202],
            vec![4]
        ]
    );
    assert_eq!(read(true)?, [[0, 1], [200, 201], [2, 3]]);
    let chained = ChainDataset::new([Parts(vec![2]), Parts(vec![1])]);
    let all: Vec<Vec<i64>> = IterableLoader::new(chained, 2)?
        .try_iter()
        .map(|b| b?.to_vec())
        .collect::<Result<_>>()?;
    assert_eq!(all, [vec![0, 1], vec![0]]);
    Ok(())
}

#[test]
fn errors_and_panics_of_streams_come_back() -> Result<()> {
    for workers in [0, 1] {
        let loader = IterableLoader::new(Parts(vec![30]), 4)?.num_workers(workers);
        let all: Vec<Result<Tensor>> = loader.try_iter().collect();
        let texts: Vec<String> = all
            .iter()
            .filter_map(|b| b.as_ref().err())
            .map(ToString::to_string)
            .collect();
        assert_eq!(texts.len(), 2, "{texts:?}");
        assert!(texts[0].contains("torn"), "{texts:?}");
        assert!(texts[1].contains("panicked: no such item"), "{texts:?}");
        assert_eq!(texts[1].contains("worker 0"), workers > 0, "{texts:?}");
        // 0 to 11, then 12 is lost with 13; the panic at 17 ends it after no further batch.
        assert_eq!(all.iter().filter(|b| b.is_ok()).count(), 3);
        // Left in the middle.
        assert!(loader.try_iter().next().is_some());
    }
    Ok(())
}

/// Where each loader of one kind goes on after `given` batches, in epoch 1.
fn resumes(make: &dyn Fn() -> Result<DataLoader<Noisy>>, given: usize) -> Result<()> {
    let whole = make()?;
    let want = (epoch(&whole)?, epoch(&whole)?, epoch(&whole)?);
    let first = make()?;
    assert_eq!(epoch(&first)?, want.0);
    let mut reading = first.try_iter();
    for _ in 0..given {
        reading.next().expect("a batch")?;
    }
    assert_eq!(first.batches_given(), given);
    let state = first.state_dict()?;
    drop(reading);
    let second = make()?;
    second.load_state_dict(&state)?;
    assert_eq!(second.batches_given(), given);
    assert_eq!(epoch(&second)?, want.1[given..]);
    assert_eq!(epoch(&second)?, want.2);
    assert_eq!(second.batches_given(), 0);
    Ok(())
}

#[test]
fn a_loader_goes_on_where_it_was() -> Result<()> {
    for workers in [0, 3] {
        for given in [0, 2, 4] {
            let base = || {
                DataLoader::builder(Noisy)
                    .batch_size(3)
                    .num_workers(workers)
            };
            resumes(&|| base().shuffle(true).seed(9).build(), given)?;
            let own = || RandomSampler::new(11).generator(Generator::new(2));
            resumes(&|| base().sampler(own()).seed(9).build(), given)?;
            resumes(
                &|| {
                    let s = DistributedSampler::new(11, 1, 0)?;
                    s.set_epoch(7);
                    base().sampler(s).seed(1).build()
                },
                given,
            )?;
            if workers > 0 {
                resumes(
                    &|| {
                        base()
                            .shuffle(true)
                            .seed(9)
                            .persistent_workers(true)
                            .build()
                    },
                    given,
                )?;
            }
        }
    }
    Ok(())
}

/// With a default generator of the thread's own: other tests draw from the process's.
#[test]
fn a_loader_with_the_default_generator_goes_on_where_it_was() -> Result<()> {
    LocalGenerator::new(1).scope(|| {
        let make = || {
            DataLoader::builder(Noisy)
                .batch_size(3)
                .shuffle(true)
                .build()
        };
        let loader = make()?;
        let mut reading = loader.try_iter();
        values(reading.next().expect("a batch")?)?;
        let state = loader.state_dict()?;
        let rest: Epoch = reading.map(|b| values(b?)).collect::<Result<_>>()?;
        let again = make()?;
        again.load_state_dict(&state)?;
        assert_eq!(epoch(&again)?, rest);
        // Another loader's state, and what is no state.
        let other = DataLoader::builder(Noisy)
            .batch_size(2)
            .shuffle(true)
            .build()?;
        other.load_state_dict(&state)?;
        let e = other.try_iter().next().expect("an error").map(|_| ());
        assert!(
            e.expect_err("other batches")
                .to_string()
                .contains("not those of the saved")
        );
        let mut wrong = state.clone();
        wrong.insert("weight".to_string(), Tensor::from_data(&[1.0f32], [1])?);
        assert!(make()?.load_state_dict(&wrong).is_err());
        wrong = state.clone();
        wrong.insert("epoch.seed".to_string(), Tensor::from_data(&[1.0f32], [1])?);
        assert!(make()?.load_state_dict(&wrong).is_err());
        let seeded = DataLoader::builder(Noisy).seed(1).build()?;
        assert!(make()?.load_state_dict(&seeded.state_dict()?).is_err());
        Ok(())
    })
}

#[test]
fn items_come_unbatched() -> Result<()> {
    let loader = DataLoader::builder(vec!["a", "b"])
        .unbatched()
        .num_workers(1)
        .build()?;
    assert_eq!(loader.iter().collect::<Vec<_>>(), ["a", "b"]);
    Ok(())
}
