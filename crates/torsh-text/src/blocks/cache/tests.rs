use std::collections::HashMap;

use torsh_serialize::safetensors;

use super::files::METADATA;
use super::*;

/// Keys `[batch, 1, tokens, 1]` whose numbers count from `first`, in row `b` from `first + 100 b`.
fn keys(batch: usize, first: usize, tokens: usize) -> Result<Tensor> {
    let all = (0..batch).flat_map(|b| (first..first + tokens).map(move |t| (100 * b + t) as f32));
    Tensor::from_vec(all.collect(), [batch, 1, tokens, 1])
}

/// Adds tokens whose values are the negative of their keys, and gives the keys that are seen.
fn add(cache: &mut KvCache, batch: usize, tokens: usize) -> Result<Vec<f32>> {
    let k = keys(batch, cache.len(), tokens)?;
    let past = cache.past(0);
    let (keys, values) = cache.update(0, &k, &k.mul(-1.0)?)?;
    assert_eq!(keys.dims(), [batch, 1, past + tokens, 1]);
    assert_eq!(values.mul(-1.0)?, keys);
    keys.to_vec()
}

#[test]
fn growing_and_static_caches_hold_all_tokens() -> Result<()> {
    let all = |n: usize| (0..n).map(|t| t as f32).collect::<Vec<_>>();
    for kind in [CacheKind::Growing, CacheKind::Static { capacity: 9 }] {
        let mut cache = KvCache::new([kind]);
        assert!(cache.is_empty());
        assert_eq!(cache.batch(), 0);
        assert_eq!(add(&mut cache, 1, 3)?, all(3));
        for n in 4..=9 {
            assert_eq!(add(&mut cache, 1, 1)?, all(n));
        }
        assert_eq!((cache.len(), cache.past(0), cache.dropped(0)), (9, 9, 0));
        assert_eq!((cache.batch(), cache.dtype()), (1, Some(DType::F32)));
        let more = add(&mut cache, 1, 1);
        assert_eq!(more.is_err(), kind != CacheKind::Growing);
    }
    let mut cache = KvCache::new([CacheKind::Static { capacity: 9 }]);
    let error = add(&mut cache, 1, 10).err().map(|e| e.to_string());
    assert!(error.is_some_and(|e| e.contains("10") && e.contains('9')));
    Ok(())
}

#[test]
fn a_growing_cache_takes_no_more_than_it_expects() -> Result<()> {
    let mut cache = KvCache::new([CacheKind::Growing]);
    cache.expect_tokens(3000);
    add(&mut cache, 1, 10)?;
    assert_eq!(cache.bytes(), 2 * 4 * 1034);
    for _ in 10..3000 {
        let k = keys(1, 0, 1)?;
        cache.update(0, &k, &k)?;
    }
    assert_eq!(cache.bytes(), 2 * 4 * 3000);
    Ok(())
}

#[test]
fn a_sliding_cache_shows_the_window_alone() -> Result<()> {
    // Steps of many sizes, those larger than the window among them.
    for window in [1, 2, 4, 7] {
        let mut cache = KvCache::new([CacheKind::Sliding { window }]);
        let mut total: usize = 0;
        for tokens in [3, 1, 1, 9, 1, 2, 1, 1, 1, 1, 1, 1, 1, 1, 20, 1, 1] {
            let seen = total.min(window - 1);
            let wanted: Vec<f32> = (total - seen..total + tokens).map(|t| t as f32).collect();
            assert_eq!(cache.past(0), seen);
            assert_eq!(cache.dropped(0), total - seen);
            assert_eq!(add(&mut cache, 1, tokens)?, wanted, "window {window}");
            total += tokens;
        }
        assert_eq!(cache.len(), total);
        assert!(cache.bytes() <= 2 * 4 * (2 * window).max(window + 20));
    }
    let mut long = KvCache::new([CacheKind::Sliding { window: 4 }]);
    for _ in 0..1000 {
        add(&mut long, 1, 1)?;
    }
    assert_eq!(long.bytes(), 2 * 4 * 8);
    Ok(())
}

#[test]
fn sequences_change_places() -> Result<()> {
    for kind in [CacheKind::Growing, CacheKind::Sliding { window: 3 }] {
        let mut cache = KvCache::new([kind]);
        add(&mut cache, 4, 2)?;
        cache.set_cross(0, keys(4, 7, 1)?, keys(4, 8, 1)?)?;
        cache.reorder(&[1, 0, 3, 3])?;
        let k = Tensor::full([4, 1, 1, 1], -1.0, DType::F32, torsh_core::Device::Cpu)?;
        let (all, values) = cache.update(0, &k, &k)?;
        let wanted = [
            100., 101., -1., 0., 1., -1., 300., 301., -1., 300., 301., -1.,
        ];
        assert_eq!(all.to_vec::<f32>()?, wanted);
        assert_eq!(values.to_vec::<f32>()?[..2], [-100., -101.]);
        let cross = cache.cross(0).map(|(k, _)| k.to_vec::<f32>());
        assert_eq!(cross.transpose()?, Some(vec![107., 7., 307., 307.]));
        assert!(cache.reorder(&[4]).is_err());
        // Another number of sequences.
        let part = cache.select(&[2])?;
        assert_eq!((part.batch(), cache.batch()), (1, 4));
    }
    Ok(())
}

#[test]
fn beams_share_an_encoders_result() -> Result<()> {
    let mut cache = KvCache::new([CacheKind::Growing]);
    add(&mut cache, 2, 1)?;
    cache.set_cross(0, keys(2, 0, 1)?, keys(2, 0, 1)?)?;
    cache.repeat(2)?;
    let before = cache.cross(0).map(|(k, _)| k.to_vec::<f32>()).transpose()?;
    assert_eq!(before, Some(vec![0., 0., 100., 100.]));
    let storage = cache.cross(0).map(|(k, _)| k);
    cache.reorder(&[1, 1, 2, 2])?;
    let after = cache.cross(0).map(|(k, _)| k);
    assert!(
        storage
            .zip(after)
            .is_some_and(|(a, b)| a.shares_storage(&b))
    );
    cache.reorder(&[2, 2, 0, 0])?;
    let after = cache.cross(0).map(|(k, _)| k.to_vec::<f32>()).transpose()?;
    assert_eq!(after, Some(vec![100., 100., 0., 0.]));
    Ok(())
}

#[test]
fn tokens_are_taken_back() -> Result<()> {
    let mut cache = KvCache::new([CacheKind::Growing]);
    add(&mut cache, 1, 5)?;
    cache.crop(2)?;
    assert_eq!(cache.len(), 2);
    assert_eq!(add(&mut cache, 1, 1)?, [0., 1., 2.]);
    cache.crop(9)?;
    assert_eq!(cache.len(), 3);

    let mut cache = KvCache::new([CacheKind::Sliding { window: 3 }]);
    add(&mut cache, 1, 12)?;
    add(&mut cache, 1, 4)?;
    // What one step brought can always be taken back.
    cache.crop(13)?;
    assert_eq!(add(&mut cache, 1, 1)?, [11., 12., 13.]);
    assert!(cache.crop(3).is_err());
    assert_eq!(cache.len(), 14);
    cache.crop(0)?;
    assert_eq!(add(&mut cache, 1, 1)?, [0.]);

    // Single steps can be taken back where the cache was told so.
    let mut cache = KvCache::new([CacheKind::Sliding { window: 3 }]);
    cache.keep_for_crop(5);
    for n in 0..40 {
        add(&mut cache, 1, 1)?;
        if n > 10 {
            let mut other = cache.clone();
            other.crop(n + 1 - 5)?;
            let at = (n - 4) as f32;
            assert_eq!(add(&mut other, 1, 1)?, [at - 2., at - 1., at]);
        }
    }
    Ok(())
}

#[test]
fn clones_are_independent() -> Result<()> {
    let mut cache = KvCache::new([CacheKind::Static { capacity: 5 }]);
    add(&mut cache, 1, 2)?;
    let mut other = cache.clone();
    let k = Tensor::full([1, 1, 1, 1], 77.0, DType::F32, torsh_core::Device::Cpu)?;
    other.update(0, &k, &k)?;
    assert_eq!(add(&mut cache, 1, 1)?, [0., 1., 2.]);
    other.crop(1)?;
    assert_eq!(other.update(0, &k, &k)?.0.to_vec::<f32>()?, [0., 77.]);
    assert_eq!(add(&mut cache, 1, 1)?, [0., 1., 2., 3.]);
    Ok(())
}

#[test]
fn a_state_counts_tokens_and_has_no_past() -> Result<()> {
    let mut cache = KvCache::new([CacheKind::Growing]);
    assert!(cache.state(0).is_empty());
    cache.set_state(0, vec![keys(2, 0, 1)?], 3)?;
    assert_eq!(
        (cache.len(), cache.batch(), cache.state(0).len()),
        (3, 2, 1)
    );
    cache.reorder(&[1, 1])?;
    assert_eq!(cache.state(0)[0].to_vec::<f32>()?, [100., 100.]);
    assert!(cache.crop(2).is_err());
    cache.crop(0)?;
    assert!(cache.state(0).is_empty() && cache.is_empty());
    assert!(cache.set_state(1, Vec::new(), 1).is_err());
    Ok(())
}

#[test]
fn keys_of_another_batch_are_refused() -> Result<()> {
    let mut cache = KvCache::new([CacheKind::Growing]);
    add(&mut cache, 1, 2)?;
    let k = keys(2, 0, 1)?;
    let error = cache.update(0, &k, &k).err().map(|e| e.to_string());
    assert!(error.is_some_and(|e| e.contains("[1, 1, 2, 1]") && e.contains("[2, 1, 1, 1]")));
    let k = keys(1, 0, 1)?.to_dtype(DType::F64)?;
    assert!(cache.update(0, &k, &k).is_err());
    assert!(cache.update(0, &keys(1, 0, 1)?, &keys(1, 0, 2)?).is_err());
    assert!(cache.update(3, &k, &k).is_err());
    Ok(())
}

#[test]
fn files_keep_a_prefix() -> Result<()> {
    let path = std::env::temp_dir().join(format!("torsh-kv-{}.safetensors", std::process::id()));
    let kinds = [
        CacheKind::Growing,
        CacheKind::Static { capacity: 8 },
        CacheKind::Sliding { window: 3 },
        CacheKind::Growing,
    ];
    let mut cache = KvCache::new(kinds);
    for layer in 0..3 {
        let k = keys(2, 0, 5)?;
        cache.update(layer, &k, &k)?;
    }
    cache.set_cross(1, keys(2, 7, 1)?, keys(2, 8, 1)?)?;
    cache.set_state(3, vec![keys(2, 3, 1)?, keys(2, 4, 2)?], 5)?;
    cache.save(&path)?;
    let mut again = KvCache::load(&path)?;
    assert_eq!((again.len(), again.num_layers(), again.batch()), (5, 4, 2));
    assert_eq!(again.state(3)[1], keys(2, 4, 2)?);
    assert_eq!(again.cross(1).map(|(k, _)| k), Some(keys(2, 7, 1)?));
    for layer in 0..3 {
        let k = keys(2, 5, 1)?;
        assert_eq!(again.past(layer), cache.past(layer));
        assert_eq!(
            again.update(layer, &k, &k)?.0,
            cache.update(layer, &k, &k)?.0
        );
    }
    // Other files are refused.
    safetensors::save([("x", &keys(1, 0, 1)?)], &path)?;
    assert!(KvCache::load(&path).is_err());
    for about in [
        "growing 7 7",
        "growing x 5",
        "sliding:3 1 5",
        "none 5 5",
        "growing 5 5,growing 1 1",
    ] {
        let about = HashMap::from([(METADATA.to_string(), about.to_string())]);
        let k = keys(1, 0, 5)?;
        let tensors = [("layers.0.key", &k), ("layers.0.value", &k)];
        safetensors::save_with(tensors, &about, &path)?;
        assert!(KvCache::load(&path).is_err(), "{about:?}");
    }
    std::fs::remove_file(&path)?;
    Ok(())
}
