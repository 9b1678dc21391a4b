//! Loaders: batches, order, workers, errors.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use torsh_core::random::LocalGenerator;
use torsh_core::{DType, Generator};
use torsh_data::{
    Collate, DataLoader, Dataset, RandomSampler, Sampler, SequentialSampler, Subset,
    SubsetRandomSampler, TensorDataset, random_split_with,
};
use torsh_tensor::{Result, Tensor, TorshError};

fn numbers(n: i64) -> Vec<i64> {
    (0..n).collect()
}

fn epoch<D: Dataset<Item = i64> + 'static>(loader: &DataLoader<D>) -> Vec<Vec<i64>> {
    loader
        .iter()
        .map(|b| b.to_vec().expect("integers"))
        .collect()
}

#[test]
fn shuffled_batches_are_pytorchs() -> Result<()> {
    let seeded = DataLoader::builder(numbers(10))
        .batch_size(4)
        .shuffle(true)
        .seed(0)
        .build()?;
    assert_eq!(
        epoch(&seeded),
        [vec![3, 7, 5, 2], vec![0, 8, 1, 6], vec![9, 4]]
    );
    assert_eq!(
        epoch(&seeded),
        [vec![1, 3, 2, 7], vec![5, 9, 0, 6], vec![4, 8]]
    );
    // As after manual_seed(0), with a generator of its own: other tests draw at the same time.
    LocalGenerator::new(0).scope(|| {
        let default = DataLoader::new_with_options(numbers(10), 4, true, 0, false);
        assert_eq!(
            epoch(&default),
            [vec![6, 7, 1, 4], vec![2, 0, 9, 8], vec![3, 5]]
        );
        assert_eq!(
            epoch(&default),
            [vec![2, 4, 7, 0], vec![8, 9, 5, 3], vec![6, 1]]
        );
    });
    Ok(())
}

#[test]
fn samplers_and_splits_are_pytorchs() -> Result<()> {
    let g = Generator::new(5);
    let sampler = RandomSampler::new(10).generator(g.clone());
    assert_eq!(sampler.indices()?, [1, 4, 9, 6, 3, 5, 0, 2, 8, 7]);
    let drawn = RandomSampler::new(10)
        .generator(g.clone())
        .replacement(true)
        .num_samples(12);
    assert_eq!(drawn.indices()?, [7, 9, 9, 7, 2, 9, 4, 7, 1, 9, 3, 6]);
    let repeated = RandomSampler::new(4).generator(g).num_samples(10);
    assert_eq!(repeated.len(), 10);
    assert_eq!(repeated.indices()?, [0, 3, 1, 2, 2, 0, 3, 1, 1, 3]);
    assert_eq!(SequentialSampler::new(3).indices()?, [0, 1, 2]);
    let mut some = SubsetRandomSampler::new([4, 8, 6])
        .generator(Generator::new(0))
        .indices()?;
    some.sort();
    assert_eq!(some, [4, 6, 8]);

    let parts = random_split_with(numbers(10), &[6, 4], &Generator::new(1))?;
    assert_eq!(parts[0].indices(), [5, 6, 1, 2, 0, 8]);
    assert_eq!(parts[1].indices(), [9, 3, 7, 4]);
    let sizes: Vec<usize> = random_split_with(numbers(11), &[0.5, 0.3, 0.2], &Generator::new(1))?
        .iter()
        .map(|p| p.len())
        .collect();
    assert_eq!(sizes, [6, 3, 2]);
    assert!(random_split_with(numbers(10), &[6, 5], &Generator::new(1)).is_err());
    assert!(random_split_with(numbers(10), &[0.5, 0.6], &Generator::new(1)).is_err());
    Ok(())
}

fn images(n: usize) -> TensorDataset {
    let x: Vec<f32> = (0..n * 3).map(|v| v as f32).collect();
    let y: Vec<i64> = (0..n as i64).map(|v| 100 + v).collect();
    TensorDataset::new(
        Tensor::from_vec(x, [n, 3]).expect("x"),
        Tensor::from_vec(y, [n]).expect("y"),
    )
}

#[test]
fn batches_do_not_depend_on_the_workers() -> Result<()> {
    let read = |workers: usize, drop_last: bool| -> Result<Vec<(Vec<f32>, Vec<i64>)>> {
        let loader = DataLoader::builder(images(23))
            .batch_size(4)
            .shuffle(true)
            .seed(7)
            .num_workers(workers)
            .drop_last(drop_last)
            .build()?;
        let mut all = Vec::new();
        for _ in 0..2 {
            let before = all.len();
            for (x, y) in &loader {
                assert_eq!(x.dims()[1], 3);
                all.push((x.to_vec()?, y.to_vec()?));
            }
            assert_eq!(all.len() - before, loader.len());
        }
        Ok(all)
    };
    for drop_last in [false, true] {
        let want = read(0, drop_last)?;
        assert_eq!(want.len(), if drop_last { 10 } else { 12 });
        for (x, y) in &want {
            assert_eq!(x.len(), 3 * y.len());
            for (row, label) in x.chunks(3).zip(y) {
                assert_eq!(row[0], 3.0 * (label - 100) as f32);
            }
        }
        let half = want.len() / 2;
        assert_ne!(
            want[..half],
            want[half..],
            "each epoch has an order of its own"
        );
        for workers in [1, 4, 9] {
            assert_eq!(read(workers, drop_last)?, want, "{workers} workers");
        }
    }
    Ok(())
}

/// Item 13 fails, item 17 panics, even items are slow.
struct Faulty {
    reads: AtomicUsize,
}

impl Dataset for Faulty {
    type Item = i64;
    fn len(&self) -> usize {
        24
    }
    fn get(&self, index: usize) -> Result<i64> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        match index {
            13 => Err(TorshError::invalid("decode", "the picture is torn")),
            17 => panic!("no such picture"),
            _ => {
                if index.is_multiple_of(2) {
                    std::thread::sleep(Duration::from_millis(1));
                }
                Ok(index as i64)
            }
        }
    }
}

#[test]
fn errors_and_panics_come_back_in_order_and_nothing_hangs() -> Result<()> {
    for workers in [0, 1, 4] {
        let faulty = Faulty {
            reads: AtomicUsize::new(0),
        };
        let loader = DataLoader::builder(faulty)
            .batch_size(4)
            .num_workers(workers)
            .build()?;
        let batches: Vec<Result<Tensor>> = loader.try_iter().collect();
        assert_eq!(batches.len(), 6);
        for (i, b) in batches.iter().enumerate() {
            match (i, b) {
                (3, Err(e)) => {
                    let text = e.to_string();
                    assert!(
                        text.contains("item 13") && text.contains("the picture is torn"),
                        "{text}"
                    );
                    assert!(text.contains("batch 3"), "{text}");
                    assert_eq!(text.contains("DataLoader worker"), workers > 0, "{text}");
                    assert!(matches!(e, TorshError::InvalidArgument(_)));
                }
                (4, Err(e)) => {
                    let text = e.to_string();
                    assert!(
                        text.contains("item 17") && text.contains("panicked: no such picture"),
                        "{text}"
                    );
                }
                (_, Ok(t)) => assert_eq!(
                    t.to_vec::<i64>()?,
                    (4 * i as i64..4 * i as i64 + 4).collect::<Vec<_>>()
                ),
                (_, Err(e)) => panic!("batch {i}: {e}"),
            }
        }
        // Left in the middle: the workers stop, and did not run far ahead.
        let reads = loader.dataset().reads.swap(0, Ordering::Relaxed);
        // Batches 0 to 2, 12 and 13, 16 and 17, 20 to 23.
        assert_eq!(reads, 12 + 2 + 2 + 4);
        let mut iter = loader.try_iter();
        assert!(iter.next().is_some());
        drop(iter);
        assert!(loader.dataset().reads.load(Ordering::Relaxed) <= 4 * (2 * workers + 1));
    }
    Ok(())
}

#[test]
#[should_panic(expected = "the picture is torn")]
fn plain_iteration_panics_with_the_error() {
    let loader = DataLoader::new_with_options(
        Faulty {
            reads: AtomicUsize::new(0),
        },
        8,
        false,
        2,
        false,
    );
    for batch in &loader {
        assert_eq!(batch.dtype(), DType::I64);
    }
}

#[test]
fn a_panic_in_collate_is_an_error() -> Result<()> {
    for workers in [0, 2] {
        let loader = DataLoader::builder(numbers(6))
            .batch_size(2)
            .num_workers(workers)
            .collate_fn(|items: Vec<i64>| -> Result<i64> {
                assert!(items[0] != 2, "cannot collate {items:?}");
                Ok(items.iter().sum())
            })
            .build()?;
        let batches: Vec<Result<i64>> = loader.try_iter().collect();
        assert_eq!(batches[0].as_ref().ok(), Some(&1));
        assert_eq!(batches[2].as_ref().ok(), Some(&9));
        let text = batches[1].as_ref().expect_err("the panic").to_string();
        assert!(
            text.contains("batch 1") && text.contains("cannot collate [2, 3]"),
            "{text}"
        );
    }
    Ok(())
}

#[test]
fn bad_settings_are_errors() -> Result<()> {
    let text = |r: Result<DataLoader<Vec<i64>>>| r.map(|_| ()).expect_err("must fail").to_string();
    assert!(text(DataLoader::builder(numbers(3)).batch_size(0).build()).contains("batch_size"));
    assert!(
        text(
            DataLoader::builder(numbers(3))
                .num_workers(1)
                .prefetch_factor(0)
                .build()
        )
        .contains("prefetch_factor")
    );
    let both = DataLoader::builder(numbers(3))
        .shuffle(true)
        .sampler(SequentialSampler::new(3))
        .build();
    assert!(text(both).contains("mutually exclusive"));
    let late = DataLoader::new_with_options(numbers(3), 0, false, 0, false);
    assert!(late.is_empty());
    assert!(late.try_iter().next().is_some_and(|b| b.is_err()));
    // A sampler that names items which are not there.
    let wrong = DataLoader::builder(numbers(3))
        .sampler(SequentialSampler::new(4))
        .batch_size(4)
        .build()?;
    let e = wrong
        .try_iter()
        .next()
        .expect("a batch")
        .expect_err("item 3")
        .to_string();
    assert!(e.contains("item 3") && e.contains("out of range"), "{e}");

    let x = Tensor::from_data(&[0.0f32; 6], [3, 2])?;
    let y = Tensor::from_data(&[0i64; 4], [4])?;
    let uneven = TensorDataset::from_tensors(x, y);
    assert!(uneven.get(0).is_err());
    let e = DataLoader::builder(uneven)
        .build()
        .map(|_| ())
        .expect_err("uneven")
        .to_string();
    assert!(
        e.contains("size mismatch") && e.contains("float32[3, 2]"),
        "{e}"
    );
    Ok(())
}

#[test]
fn an_empty_dataset_has_no_batches() -> Result<()> {
    for workers in [0, 2] {
        let loader = DataLoader::builder(numbers(0))
            .batch_size(4)
            .shuffle(true)
            .num_workers(workers)
            .build()?;
        assert_eq!(loader.len(), 0);
        assert_eq!(loader.iter().count(), 0);
    }
    Ok(())
}

#[test]
fn items_are_collated_by_their_type() -> Result<()> {
    let t = |v: &[f32]| Tensor::from_data(v, [v.len()]).expect("data");
    let (x, (n, s), flags) = Collate::collate(vec![
        (t(&[1.0, 2.0]), (0.5f64, "a".to_string()), vec![true, false]),
        (t(&[3.0, 4.0]), (1.5, "b".to_string()), vec![false, false]),
    ])?;
    assert_eq!(
        (x.dims(), x.to_vec::<f32>()?),
        (&[2, 2][..], vec![1.0, 2.0, 3.0, 4.0])
    );
    assert_eq!(
        (n.dtype(), n.to_vec::<f64>()?),
        (DType::F64, vec![0.5, 1.5])
    );
    assert_eq!(s, ["a", "b"]);
    assert_eq!(flags[0].to_vec::<bool>()?, [true, false]);
    assert_eq!(<f32 as Collate>::collate(vec![1.0])?.dtype(), DType::F32);
    assert_eq!(<usize as Collate>::collate(vec![1])?.dtype(), DType::I64);
    let map = |v: i64| BTreeMap::from([("id".to_string(), v)]);
    let maps: BTreeMap<String, Tensor> = Collate::collate(vec![map(4), map(2)])?;
    assert_eq!(maps["id"].to_vec::<i64>()?, [4, 2]);
    let e = <Tensor as Collate>::collate(vec![t(&[1.0]), t(&[1.0, 2.0])])
        .expect_err("two shapes")
        .to_string();
    assert!(e.starts_with("collate"), "{e}");
    assert!(<Vec<i64> as Collate>::collate(vec![vec![1], vec![]]).is_err());
    assert_eq!(
        Collate::collate(vec![Some(1i64), Some(2)])?.to_vec::<i64>()?,
        [1, 2]
    );
    let e = <Option<i64> as Collate>::collate(vec![Some(1), None])
        .expect_err("none")
        .to_string();
    assert!(e.contains("item 1 of the batch is None"), "{e}");
    let [a, b] = <[f32; 2] as Collate>::collate(vec![[1.0, 2.0], [3.0, 4.0]])?
        .try_into()
        .expect("two");
    assert_eq!(
        (a.to_vec::<f32>()?, b.to_vec::<f32>()?),
        (vec![1.0, 3.0], vec![2.0, 4.0])
    );
    Ok(())
}

#[test]
fn tensor_datasets_have_any_number_of_tensors() -> Result<()> {
    let t = |v: &[i64]| Tensor::from_data(v, [v.len()]).expect("data");
    let one = DataLoader::builder(TensorDataset::of(t(&[1, 2, 3])))
        .batch_size(2)
        .build()?;
    assert_eq!(
        one.iter()
            .map(|b| b.to_vec::<i64>().expect("values"))
            .collect::<Vec<_>>(),
        [vec![1, 2], vec![3]]
    );
    let list = TensorDataset::of(vec![t(&[1, 2]), t(&[3, 4]), t(&[5, 6])]);
    assert_eq!(
        list.get(1)?
            .iter()
            .map(|v| v.item::<i64>().expect("a value"))
            .collect::<Vec<_>>(),
        [2, 4, 6]
    );
    assert!(list.get(2).is_err());
    let three = TensorDataset::of((t(&[1]), t(&[2]), t(&[3])));
    assert_eq!(three.get_batch(&[0])?.2.to_vec::<i64>()?, [3]);
    // A subset reads through to the batches of what it is a part of.
    let part = Subset::new(images(5), [4, 0]);
    let (x, y) = part.get_batch(&[0, 1])?;
    assert_eq!(x.to_vec::<f32>()?, [12.0, 13.0, 14.0, 0.0, 1.0, 2.0]);
    assert_eq!(y.to_vec::<i64>()?, [104, 100]);
    assert!(Subset::new(images(5), [5]).get(0).is_err());
    Ok(())
}

#[test]
fn loaders_are_iterated_in_all_ways() -> Result<()> {
    let loader = DataLoader::builder(images(6)).batch_size(2).build()?;
    let mut first = 0;
    for (i, (x, y)) in loader.enumerate().take(2) {
        assert_eq!((x.dims(), y.dims()), (&[2, 3][..], &[2][..]));
        first += i;
    }
    assert_eq!(first, 1);
    assert_eq!(loader.iter().len(), 3);
    for (_, y) in loader {
        assert_eq!(y.dtype(), DType::I64);
    }
    Ok(())
}
