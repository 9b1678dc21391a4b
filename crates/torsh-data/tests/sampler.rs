//! Samplers and splits: the orders are PyTorch's for the same seed.

use torsh_core::Generator;
use torsh_core::random::{LocalGenerator, manual_seed};
use torsh_data::{
    BatchSampler, ConcatDataset, DataLoader, Dataset, DistributedSampler, RandomSampler, Sampler,
    StackDataset, SubsetRandomSampler, WeightedRandomSampler, random_split,
};
use torsh_tensor::Result;

const WEIGHTS: [f64; 6] = [0.1, 0.9, 0.4, 0.7, 3.0, 0.6];

#[test]
fn weighted_draws_are_pytorchs() -> Result<()> {
    let g = |seed| Generator::new(seed);
    let s = WeightedRandomSampler::new(WEIGHTS, 12)?.generator(g(0));
    assert_eq!(s.indices()?, [5, 4, 4, 5, 4, 4, 2, 3, 4, 3, 4, 2]);
    let s = WeightedRandomSampler::new(WEIGHTS, 5)?
        .replacement(false)
        .generator(g(0));
    assert_eq!(s.indices()?, [4, 1, 2, 5, 3]);
    assert_eq!(s.indices()?, [4, 5, 1, 3, 0]);
    let s = WeightedRandomSampler::new(WEIGHTS, 1)?.generator(g(3));
    assert_eq!(s.indices()?, [3]);
    for (bad, n) in [
        (vec![], 1),
        (vec![0.0], 1),
        (vec![-1.0, 2.0], 1),
        (vec![1.0], 0),
    ] {
        assert!(WeightedRandomSampler::new(bad, n).is_err());
    }
    let more = WeightedRandomSampler::new([1.0, 1.0], 3)?.replacement(false);
    let e = more.indices().expect_err("too many").to_string();
    assert!(e.starts_with("WeightedRandomSampler"), "{e}");

    let loader = DataLoader::builder((0..10i64).collect::<Vec<_>>())
        .batch_size(4)
        .sampler(WeightedRandomSampler::new([1.0; 10], 8)?.generator(g(1)))
        .seed(0)
        .build()?;
    let epoch = || -> Vec<Vec<i64>> { loader.iter().map(|b| b.to_vec().expect("i64")).collect() };
    assert_eq!(epoch(), [[0, 2, 2, 1], [5, 1, 4, 7]]);
    assert_eq!(epoch(), [[5, 4, 5, 3], [7, 3, 0, 1]]);
    Ok(())
}

/// With a default generator of the thread's own: other tests draw from the process's.
#[test]
fn draws_from_the_default_generator_are_pytorchs() -> Result<()> {
    LocalGenerator::new(0).scope(|| {
        let s = WeightedRandomSampler::new(WEIGHTS, 8)?;
        assert_eq!(s.indices()?, [5, 4, 4, 5, 4, 4, 2, 3]);
        assert_eq!(s.indices()?, [4, 3, 4, 2, 3, 4, 4, 4]);
        manual_seed(0);
        let s = SubsetRandomSampler::new([4, 8, 6, 1]);
        assert_eq!(s.indices()?, [4, 8, 1, 6]);
        assert_eq!(s.indices()?, [4, 6, 1, 8]);
        manual_seed(3);
        let parts = random_split(vec![0; 7], &[0.5, 0.25, 0.25])?;
        let parts: Vec<_> = parts.iter().map(|p| p.indices().to_vec()).collect();
        assert_eq!(parts, [vec![5, 3, 4, 6], vec![0, 2], vec![1]]);
        Ok(())
    })
}

#[test]
fn distributed_parts_are_pytorchs() -> Result<()> {
    let parts = |len, replicas, drop_last, shuffle| -> Result<Vec<Vec<usize>>> {
        (0..replicas)
            .map(|rank| {
                let s = DistributedSampler::new(len, replicas, rank)?
                    .seed(5)
                    .drop_last(drop_last)
                    .shuffle(shuffle);
                s.set_epoch(2);
                let order = s.indices()?;
                assert_eq!(order.len(), s.len());
                Ok(order)
            })
            .collect()
    };
    assert_eq!(
        parts(10, 3, false, true)?,
        [[5, 4, 9, 2], [0, 1, 6, 5], [3, 7, 8, 0]]
    );
    assert_eq!(parts(10, 3, true, true)?, [[5, 4, 9], [0, 1, 6], [3, 7, 8]]);
    assert_eq!(parts(2, 5, false, true)?, [[1], [0], [1], [0], [1]]);
    assert_eq!(parts(11, 4, true, false)?, [[0, 4], [1, 5], [2, 6], [3, 7]]);
    assert_eq!(parts(2, 5, true, true)?, [[0usize; 0]; 5]);
    assert!(DistributedSampler::new(10, 3, 3).is_err());
    // A loader's copy of the sampler follows the epoch.
    let s = DistributedSampler::new(10, 3, 0)?.seed(5);
    let loader = DataLoader::builder((0..10i64).collect::<Vec<_>>())
        .batch_size(4)
        .sampler(s.clone())
        .build()?;
    s.set_epoch(2);
    let batch = loader.iter().next().expect("a batch");
    assert_eq!(batch.to_vec::<i64>()?, [5, 4, 9, 2]);
    Ok(())
}

#[test]
fn batches_of_a_sampler() -> Result<()> {
    let order = || RandomSampler::new(10).generator(Generator::new(5));
    let s = BatchSampler::new(order(), 3, true)?;
    assert_eq!(s.indices()?, [[1, 4, 9], [6, 3, 5], [0, 2, 8]]);
    assert_eq!(s.len(), 3);
    assert!(BatchSampler::new(order(), 0, true).is_err());
    let loader = DataLoader::builder((0..10i64).collect::<Vec<_>>())
        .batch_sampler(BatchSampler::new(order(), 3, false)?)
        .num_workers(2)
        .build()?;
    assert_eq!((loader.len(), loader.batch_size()), (4, None));
    let all: Vec<Vec<i64>> = loader.iter().map(|b| b.to_vec()).collect::<Result<_>>()?;
    assert_eq!(all, [vec![1, 4, 9], vec![6, 3, 5], vec![0, 2, 8], vec![7]]);
    let both = DataLoader::builder((0..10i64).collect::<Vec<_>>())
        .batch_sampler(BatchSampler::new(order(), 3, false)?)
        .drop_last(true)
        .build();
    assert!(both.is_err());
    Ok(())
}

#[test]
fn datasets_of_datasets() -> Result<()> {
    let all = ConcatDataset::new([vec![1i64, 2], vec![], vec![3]])?;
    let items: Vec<i64> = (0..all.len()).map(|i| all.get(i)).collect::<Result<_>>()?;
    assert_eq!(items, [1, 2, 3]);
    assert!(all.get(3).is_err());
    assert!(ConcatDataset::<Vec<i64>>::new([]).is_err());
    assert!(StackDataset::new((vec![1i64], vec![1i64, 2])).is_err());
    assert!(StackDataset::new(Vec::<Vec<i64>>::new()).is_err());
    let pairs = StackDataset::new((vec![1i64, 2], vec![0.5f64, 1.5]))?;
    let loader = DataLoader::builder(pairs).batch_size(2).build()?;
    for (a, b) in &loader {
        assert_eq!(a.to_vec::<i64>()?, [1, 2]);
        assert_eq!(b.to_vec::<f64>()?, [0.5, 1.5]);
    }
    Ok(())
}
