//! Loaders, and the parts of them that processes read.

use torsh_data::Share;
use torsh_serialize::Value;
use torsh_tensor::Result;

use super::Loader;

/// The batches of an epoch.
pub(super) type Batches<'a, B> = Box<dyn Iterator<Item = Result<B>> + 'a>;

/// A loader, and the part of it that this process reads.
pub(super) struct Source<'a, B> {
    pub(super) loader: &'a dyn Loader<Batch = B>,
    /// The part that the loader gives. It is set ahead of each pass: one loader may serve for training and validation.
    share: Option<Share>,
    /// The part, where the loader gives all and the trainer deals out the batches.
    deal: Option<Deal>,
}

#[derive(Clone, Copy)]
struct Deal {
    rank: usize,
    ranks: usize,
    even: bool,
}

impl<'a, B> Source<'a, B> {
    /// All of a loader, or one process's part; `even` where all processes need as many batches.
    pub(super) fn new(
        loader: &'a dyn Loader<Batch = B>,
        share: Option<(usize, usize)>,
        even: bool,
    ) -> Result<Source<'a, B>> {
        let (mut own, mut deal) = (None, None);
        if let Some((rank, ranks)) = share {
            let share = Share::new(rank, ranks)?.even(even);
            match loader.set_share(share)? {
                true => own = Some(share),
                false => deal = Some(Deal { rank, ranks, even }),
            }
        }
        Ok(Source {
            loader,
            share: own,
            deal,
        })
    }

    /// Sets the part that the next pass reads.
    fn select(&self) -> Result<()> {
        match self.share {
            Some(share) => self.loader.set_share(share).map(|_| ()),
            None => Ok(()),
        }
    }

    /// The batches of the next epoch.
    pub(super) fn batches(&self) -> Batches<'a, B> {
        if let Err(e) = self.select() {
            return Box::new(std::iter::once(Err(e)));
        }
        let all = self.loader.batches();
        match self.deal {
            Some(deal) => Box::new(Dealt {
                all,
                deal,
                over: false,
            }),
            None => all,
        }
    }

    pub(super) fn num_batches(&self) -> Option<usize> {
        self.select().ok()?;
        let all = self.loader.num_batches()?;
        Some(match self.deal {
            Some(d) if d.even => all / d.ranks,
            Some(d) => all.saturating_sub(d.rank).div_ceil(d.ranks),
            None => all,
        })
    }

    pub(super) fn save_state(&self) -> Result<Value> {
        self.select()?;
        self.loader.save_state()
    }

    pub(super) fn load_state(&self, state: &Value, given: usize) -> Result<()> {
        self.select()?;
        let of_all = self.deal.map_or(1, |d| d.ranks);
        self.loader.load_state(state, given * of_all)
    }
}

/// One process's batches: one of each so many.
struct Dealt<'a, B> {
    all: Batches<'a, B>,
    deal: Deal,
    over: bool,
}

impl<B> Iterator for Dealt<'_, B> {
    type Item = Result<B>;

    fn next(&mut self) -> Option<Result<B>> {
        if self.over {
            return None;
        }
        let mut own = None;
        for i in 0..self.deal.ranks {
            match self.all.next() {
                Some(Ok(batch)) if i == self.deal.rank => own = Some(Ok(batch)),
                Some(Ok(_)) => {}
                Some(Err(e)) => return Some(Err(e)),
                None => {
                    self.over = true;
                    return own.filter(|_| !self.deal.even);
                }
            }
        }
        own
    }
}
