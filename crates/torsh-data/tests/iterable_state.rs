//! Where an iterable loader is, saved and taken up again.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use torsh_data::{IterableDataset, IterableLoader, get_worker_info};
use torsh_tensor::{Result, Tensor, TorshError, rand};

/// Items of streams of different lengths, each with a number drawn; some items are errors.
#[derive(Clone, Default)]
struct Draws {
    lengths: Vec<i64>,
    error: Option<i64>,
    panic: Option<i64>,
    /// How many items were made.
    made: Arc<AtomicUsize>,
    /// Whether a later start is known.
    seeks: bool,
}

impl Draws {
    fn from(&self, start: i64) -> Box<dyn Iterator<Item = Result<(i64, f64)>> + Send + '_> {
        let id = get_worker_info().map_or(0, |w| w.id);
        Box::new((start..self.lengths[id]).map(move |i| {
            self.made.fetch_add(1, Ordering::SeqCst);
            let drawn = rand(&[1]).item::<f64>()?;
            assert!(self.panic != Some(i), "item {i} is broken");
            match self.error == Some(i) {
                true => Err(TorshError::Other(format!("item {i} is missing"))),
                false => Ok((100 * id as i64 + i, drawn)),
            }
        }))
    }
}

impl IterableDataset for Draws {
    type Item = (i64, f64);

    fn iter(&self) -> Box<dyn Iterator<Item = Result<(i64, f64)>> + Send + '_> {
        self.from(0)
    }

    fn iter_from(
        &self,
        n: usize,
    ) -> Option<Box<dyn Iterator<Item = Result<(i64, f64)>> + Send + '_>> {
        if !self.seeks {
            return None;
        }
        for _ in 0..n {
            rand(&[1]);
        }
        Some(self.from(n as i64))
    }
}

type Loader = IterableLoader<Draws, Vec<(i64, f64)>>;

/// Batches draw too.
fn loader(dataset: &Draws, workers: usize, drop_last: bool) -> Result<Loader> {
    let collate = |items: Vec<(i64, f64)>| {
        let drawn = rand(&[1]).item::<f64>()?;
        Ok(items.into_iter().map(|(i, v)| (i, v + drawn)).collect())
    };
    let seeks = |items: Vec<(i64, f64)>| Ok(items);
    let made = match dataset.seeks {
        true => IterableLoader::with_collate_fn(dataset.clone(), 2, seeks)?,
        false => IterableLoader::with_collate_fn(dataset.clone(), 2, collate)?,
    };
    Ok(made.num_workers(workers).drop_last(drop_last).seed(7))
}

fn pass(loader: &Loader) -> Vec<Result<Vec<(i64, f64)>, String>> {
    let batches = loader.try_iter();
    batches.map(|b| b.map_err(|e| e.to_string())).collect()
}

fn check(dataset: &Draws, workers: usize, drop_last: bool) -> Result<()> {
    let reference = loader(dataset, workers, drop_last)?;
    let (all, second) = (pass(&reference), pass(&reference));
    assert_eq!(reference.batches_given(), 0);
    assert!(all.len() > 3 && all != second);
    for stop in 0..=all.len() {
        let first = loader(dataset, workers, drop_last)?;
        let front: Vec<_> = first.try_iter().take(stop).collect();
        assert_eq!((front.len(), first.batches_given()), (stop, stop));
        let state = first.state_dict()?;
        let resumed = loader(dataset, workers, drop_last)?.seed(99);
        resumed.load_state_dict(&state)?;
        assert_eq!(resumed.batches_given(), stop);
        assert_eq!(resumed.state_dict()?["epoch.items"], state["epoch.items"]);
        // Left once more on the way.
        let step = usize::from(stop < all.len());
        let mut rest: Vec<_> = resumed.try_iter().take(step).collect();
        assert_eq!(resumed.batches_given(), stop + step);
        let again = loader(dataset, workers, drop_last)?;
        again.load_state_dict(&resumed.state_dict()?)?;
        rest.extend(again.try_iter());
        let rest: Vec<_> = rest
            .into_iter()
            .map(|b| b.map_err(|e| e.to_string()))
            .collect();
        assert_eq!(rest, all[stop..], "{workers} workers, after {stop} batches");
        assert_eq!(pass(&again), second, "{workers} workers, the next pass");
    }
    Ok(())
}

#[test]
fn the_rest_is_the_same() -> Result<()> {
    for workers in [0, 1, 3] {
        for drop_last in [false, true] {
            for seeks in [false, true] {
                let dataset = Draws {
                    lengths: vec![9, 3, 8],
                    seeks,
                    ..Draws::default()
                };
                check(&dataset, workers, drop_last)?;
            }
        }
    }
    Ok(())
}

#[test]
fn errors_and_panics_have_their_place() -> Result<()> {
    for workers in [0, 2] {
        let lengths = vec![9, 8];
        let error = Draws {
            lengths: lengths.clone(),
            error: Some(3),
            ..Draws::default()
        };
        check(&error, workers, false)?;
        let panic = Draws {
            lengths,
            panic: Some(6),
            ..Draws::default()
        };
        check(&panic, workers, false)?;
    }
    Ok(())
}

#[test]
fn what_was_given_is_not_made_again_where_a_later_start_is_known() -> Result<()> {
    let dataset = Draws {
        lengths: vec![20],
        seeks: true,
        ..Draws::default()
    };
    let first = loader(&dataset, 0, false)?;
    first.try_iter().take(8).for_each(drop);
    assert_eq!(dataset.made.load(Ordering::SeqCst), 16);
    let second = loader(&dataset, 0, false)?;
    second.load_state_dict(&first.state_dict()?)?;
    assert_eq!(second.try_iter().count(), 2);
    assert_eq!(dataset.made.load(Ordering::SeqCst), 20);
    Ok(())
}

#[test]
fn other_states_are_errors() -> Result<()> {
    let dataset = Draws {
        lengths: vec![9, 9],
        ..Draws::default()
    };
    let first = loader(&dataset, 0, false)?;
    first.try_iter().take(1).for_each(drop);
    let state = first.state_dict()?;
    let other = loader(&dataset, 2, false)?;
    other.load_state_dict(&state)?;
    let e = other.try_iter().next().expect("an error").expect_err("2");
    assert!(e.to_string().contains("from 1 streams"), "{e}");
    assert_eq!(other.batches_given(), 1);
    let refused = |change: &dyn Fn(&mut std::collections::BTreeMap<String, Tensor>)| {
        let mut state = state.clone();
        change(&mut state);
        let target = loader(&dataset, 0, false).expect("loader");
        let e = target.load_state_dict(&state).expect_err("bad");
        assert!(
            e.to_string().contains("IterableLoader.load_state_dict"),
            "{e}"
        );
        assert_eq!(target.batches_given(), 0);
    };
    refused(&|s| {
        s.remove("epoch.seed");
    });
    refused(&|s| {
        s.remove("generator");
    });
    refused(&|s| {
        s.insert(
            "epoch.turn".into(),
            Tensor::from_vec(vec![5i64], ()).expect("5"),
        );
    });
    refused(&|s| {
        s.insert(
            "epoch.items".into(),
            Tensor::from_vec(vec![-2i64], [1]).expect("-2"),
        );
    });
    refused(&|s| {
        s.insert("weight".into(), rand(&[1]));
    });
    Ok(())
}
